#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation, or brings its generated part up to date.

    scripts/check_docs.py [--root FOLDER] [--program SUBBYTE] [--write]

Every relative link in a *.md file must lead to a file, and its #anchor to a heading there. With
--program, the tables of keys in docs/guide/configuration.md must say what `SUBBYTE config schema` says;
--write writes them. Python's standard library only.
"""

import argparse
import pathlib
import re
import subprocess
import sys

PAGE = "docs/guide/configuration.md"
BEGIN, END = "<!-- keys: begin -->\n", "<!-- keys: end -->\n"

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def markdown_files(root):
    """The project's own pages: not what the build, pip or runs put there."""
    skipped = {"build", "runs"}
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in skipped or part.startswith(".") for part in parts[:-1]):
            yield path


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 1
        unique = name
        while unique in found:
            unique = f"{name}-{number}"
            number += 1
        found.add(unique)
    return found


def check_links(root):
    """Links that lead nowhere, as printed lines."""
    for path in markdown_files(root):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for target in LINK.findall(CODE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue  # another site
            name, _, anchor = target.partition("#")
            page = (path.parent / name).resolve() if name else path
            where = path.relative_to(root)
            if not page.exists():
                yield f"{where}: link to {target}: no such file"
            elif not page.is_relative_to(root.resolve()):
                yield f"{where}: link to {target}: leads out of the project"
            elif anchor and page.suffix == ".md":
                if anchor not in anchors(page.read_text(encoding="utf-8")):
                    yield f"{where}: link to {target}: no such heading"


def code(text):
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def schema_lines(text):
    """Rows (key, type, default, meaning) of the aligned table of `config schema`."""
    lines = text.rstrip("\n").split("\n")
    head = lines[0]
    columns = [head.index(name) for name in ("key", "type", "default", "meaning")] + [None]
    for line in lines[1:]:
        yield [line[columns[i] : columns[i + 1]].strip() for i in range(4)]


def key_table(text):
    """The Markdown of all keys, one table per section."""
    result = ""
    section = None
    for name, kind, default, meaning in schema_lines(text):
        rule = name.startswith("[[")
        here = name.split(" ")[0] if rule else f"[{name.rpartition('.')[0]}]"
        here = "" if here == "[]" else here
        key = name.split(" ")[-1] if rule else name.rpartition(".")[2]
        limits = re.fullmatch(r"(.*) \[([^\]]*)\]", meaning)
        words = f"{cell(limits[1])} ({code(limits[2])})" if limits else cell(meaning)
        if here != section:
            section = here
            title = f"`{here}`" if here else "Top of the file"
            result += f"\n### {title}\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
        result += f"| `{key}` | {cell(kind)} | {code(default)} | {words} |\n"
    return result.lstrip("\n")


def check_page(root, program, write):
    """The difference between page and program, as printed lines; --write removes it."""
    text = subprocess.run(
        [program, "config", "schema"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    wanted = key_table(text)
    path = root / PAGE
    page = path.read_text(encoding="utf-8")
    before, found_begin, rest = page.partition(BEGIN)
    written, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        yield f"{PAGE}: lacks the lines {BEGIN.strip()} and {END.strip()}"
    elif write:
        path.write_text(before + BEGIN + wanted + END + after, encoding="utf-8")
    elif written != wanted:
        old, new = written.split("\n"), wanted.split("\n")
        for line in old:
            if line not in new:
                yield f"{PAGE}: the program does not say: {line}"
        for line in new:
            if line not in old:
                yield f"{PAGE}: the program says: {line}"
        yield f"{PAGE}: bring it up to date: scripts/check_docs.py --program build/bin/subbyte --write"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=here)
    parser.add_argument("--program", help="the built program")
    parser.add_argument("--write", action="store_true", help="write the table of keys")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.write and not arguments.program:
        parser.error("--write needs --program")
    findings = []
    if arguments.program:
        findings += check_page(root, arguments.program, arguments.write)
    findings += check_links(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
