# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py: the tree passes, and every kind of fault put into a copy is found."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_layers.py"
HEADER = "// Copyright (c) the subbyte authors\n// SPDX-License-Identifier: Apache-2.0\n"


def check(root):
    """Exit status and printed lines of the script for the tree at `root`."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


class CheckLayersTest(unittest.TestCase):
    def findings(self, files):
        """What the script prints for a tree of these files; its exit status must agree."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            status, lines = check(folder)
        self.assertEqual(status, 1 if lines else 0)
        return lines

    def source(self, layer, text, name="part.cpp"):
        return self.findings({f"subbyte/{layer}/{name}": HEADER + text + "\n"})

    def test_this_tree_passes(self):
        self.assertEqual(check(ROOT), (0, []))

    def test_arrow_to_the_right_is_found_with_line_and_allowed_set(self):
        lines = self.source("formats", '\n#include "subbyte/kernels/kernel_list.h"')
        where = "subbyte/formats/part.cpp:4: "
        self.assertEqual(
            lines, [where + "formats must not include kernels (allowed: core, formats)"]
        )

    def test_sideways_arrows_are_found(self):
        for layer, other in [("data", "io"), ("optim", "nn"), ("snip", "models"), ("nn", "optim"),
                             ("models", "snip"), ("train", "cli"), ("plan", "ops")]:
            with self.subTest(layer=layer, other=other):
                self.assertEqual(len(self.source(layer, f'#include "subbyte/{other}/x.h"')), 1)

    def test_arrows_to_the_left_pass(self):
        for layer, other in [("formats", "core"), ("nn", "plan"), ("snip", "optim"), ("snip", "nn"),
                             ("train", "snip"), ("cli", "core"), ("io", "ops"), ("core", "core")]:
            with self.subTest(layer=layer, other=other):
                self.assertEqual(self.source(layer, f'#include "subbyte/{other}/x.h"'), [])

    def test_libtorch_below_ops_is_found(self):
        for header in ["torch/torch.h", "ATen/core/Tensor.h", "c10/util/Half.h"]:
            for layer in ["core", "formats", "kernels", "plan", "data"]:
                with self.subTest(layer=layer, header=header):
                    self.assertEqual(len(self.source(layer, f"#include <{header}>")), 1)
        self.assertEqual(self.source("ops", "#include <ATen/core/Tensor.h>"), [])

    def test_arithmetic_in_the_command_line_is_found(self):
        self.assertEqual(len(self.source("cli", "#include <ATen/ops/mm.h>")), 1)
        self.assertEqual(self.source("cli", "#include <ATen/Parallel.h>"), [])

    def test_include_without_the_full_name_is_found(self):
        self.assertEqual(len(self.source("core", '#include "error.h"')), 1)

    def test_wrong_link_in_a_cmake_list_is_found(self):
        licence = HEADER.replace("//", "#")
        name = "subbyte/plan/CMakeLists.txt"
        right = licence + "subbyte_layer(plan DEPENDS kernels)\n"
        lines = self.findings({name: right.replace("kernels", "kernels ops")})
        self.assertEqual(len(lines), 1)
        self.assertIn("plan must not link ops", lines[0])
        self.assertEqual(self.findings({name: right}), [])

    def test_unknown_layer_is_found(self):
        self.assertEqual(len(self.source("misc", "")), 1)

    def test_form_of_the_file_is_checked(self):
        self.assertEqual(len(self.findings({"subbyte/core/a.cpp": "int a;\n"})), 1)
        self.assertEqual(len(self.source("core", "// caf\u00e9")), 1)
        self.assertEqual(len(self.source("core", "int a;", name="a.h")), 1)
        self.assertEqual(self.source("core", "#pragma once", name="a.h"), [])
        self.assertEqual(len(self.source("core", "\n" * 498)), 1)
        self.assertEqual(self.source("core", "\n" * 497), [])
        script = "#!/usr/bin/env bash\n" + HEADER.replace("//", "#")
        self.assertEqual(self.findings({"scripts/a.sh": script}), [])

    def test_an_empty_folder_is_an_error_not_a_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check(folder)[0], 2)


if __name__ == "__main__":
    unittest.main()
