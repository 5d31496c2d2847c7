# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_docs.py on small trees: links, anchors, and the generated table of keys."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_docs.py"
PAGE = "docs/guide/configuration.md"
SCHEMA = """\
key                type      default   meaning
extends            text                file to start from
run.seed           integer   0         seed of it all [>= 0]
data.tokenizer     text      "a"       what cuts <text> [a | b]
[[rule]] match     text      ""        layers by name
"""
TABLE = """\
### Top of the file

| key | type | default | meaning |
|---|---|---|---|
| `extends` | text |  | file to start from |

### `[run]`

| key | type | default | meaning |
|---|---|---|---|
| `seed` | integer | `0` | seed of it all (`>= 0`) |

### `[data]`

| key | type | default | meaning |
|---|---|---|---|
| `tokenizer` | text | `"a"` | what cuts &lt;text> (`a \\| b`) |

### `[[rule]]`

| key | type | default | meaning |
|---|---|---|---|
| `match` | text | `""` | layers by name |
"""


class CheckDocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def check(self, *arguments):
        """Printed lines; the exit status must agree."""
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--root", str(self.root), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1 if lines else 0, done.stderr)
        return lines

    def program(self):
        """A stand-in for the built program, which prints the schema."""
        schema = self.write("schema", SCHEMA)
        program = self.write("program", f"#!/bin/sh\ncat '{schema}'\n")
        program.chmod(0o755)
        return str(program)

    def test_links_that_lead_somewhere_pass(self):
        self.write("docs/b.md", "# Some `code`, and more\n\n## Twice\n\n## Twice\n")
        self.write(
            "a.md",
            "# A\n[x](docs/b.md) [y](docs/b.md#some-code-and-more) [z](docs/b.md#twice-1)\n"
            "[here](#a) [site](https://example.org/x) ![p](p.svg) `[no](link.md)`\n"
            "```\n[no](link.md)\n```\n",
        )
        self.write("p.svg", "")
        self.assertEqual(self.check(), [])

    def test_every_kind_of_broken_link_is_found(self):
        self.write("docs/b.md", "# B\n")
        self.write("../outside.md", "# Outside\n")
        for link, reason in [
            ("docs/c.md", "no such file"),
            ("docs/b.md#c", "no such heading"),
            ("#b", "no such heading"),
            ("../outside.md", "leads out of the project"),
        ]:
            with self.subTest(link=link):
                self.write("a.md", f"# A\n[x]({link})\n")
                self.assertEqual(self.check(), [f"a.md: link to {link}: {reason}"])

    def test_what_the_build_and_runs_put_there_is_not_looked_at(self):
        for name in ["build/x.md", "runs/demo/x.md", ".venv/x.md", "docs/.cache/x.md"]:
            self.write(name, "[x](nowhere.md)\n")
        self.assertEqual(self.check(), [])

    def page(self, table):
        return f"# Keys\n\n<!-- keys: begin -->\n{table}<!-- keys: end -->\nThe end.\n"

    def test_current_table_passes(self):
        self.write(PAGE, self.page(TABLE))
        self.assertEqual(self.check("--program", self.program()), [])

    def test_difference_is_shown_from_both_sides_and_written_away(self):
        page = self.write(PAGE, self.page(TABLE.replace("`0`", "`7`")))
        program = self.program()
        lines = self.check("--program", program)
        self.assertEqual(len(lines), 3)
        self.assertIn("the program does not say: | `seed` | integer | `7`", lines[0])
        self.assertIn("the program says: | `seed` | integer | `0`", lines[1])
        self.assertIn("--write", lines[2])
        self.assertEqual(self.check("--program", program, "--write"), [])
        self.assertEqual(page.read_text(encoding="utf-8"), self.page(TABLE))

    def test_page_without_marks_is_found(self):
        self.write(PAGE, "# Keys\n")
        self.assertEqual(len(self.check("--program", self.program())), 1)


if __name__ == "__main__":
    unittest.main()
