# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/prepare_data.py, without network: on a package file made here, and on what can go wrong."""

import contextlib
import hashlib
import importlib.util
import io
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest
import zlib
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("prepare_data", ROOT / "scripts" / "prepare_data.py")
sys.dont_write_bytecode = True
prepare_data = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prepare_data)

WRAPPED = """TITLE


CHAPTER I


It is a truth universally
acknowledged, that  a man--
indeed every man--in want.
And more.

She wrote:

    One line of verse
      And another line

                    Yours,
A. W.


THE END
"""
REFLOWED = """TITLE

CHAPTER I

It is a truth universally acknowledged, that a man--indeed every man--in want. And more.

She wrote:

One line of verse
And another line

Yours,
A. W.

THE END
"""
OTHER = "Persuasion\n\nshort caf\u00e9\n"


def rdb(*texts):
    """An R lazy-load file that holds one character vector per text."""
    raw = b""
    for text in texts:
        lines = [line.encode() for line in text.rstrip("\n").split("\n")]
        block = b"X\n" + struct.pack(">iii", 3, 0x30503, 0x20300)
        block += struct.pack(">iI", 16, len(lines))
        for line in lines:
            block += struct.pack(">ii", 0x40009, len(line)) + line
        raw += struct.pack(">I", len(block)) + zlib.compress(block)
    return raw


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


class PrepareDataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        texts = {"emma": WRAPPED, "persuasion": OTHER}
        novels = {name: (len(text.encode()), sha256(text)) for name, text in texts.items()}
        results = {"train.txt": sha256(REFLOWED), "val.txt": sha256(OTHER)}
        for name, value in {"NOVELS": novels, "RESULTS": results}.items():
            patch = mock.patch.object(prepare_data, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def package(self, content):
        path = self.folder / "Rdata.rdb"
        path.write_bytes(content)
        return path

    def run_script(self, *arguments, out=True):
        """Exit status and what was printed to both streams."""
        printed = io.StringIO()
        where = ["--out", str(self.out)] if out else []
        argv = ["prepare_data.py", *where, *map(str, arguments)]
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(printed):
            with contextlib.redirect_stderr(printed):
                status = prepare_data.main()
        return status, printed.getvalue()

    def test_writes_one_line_per_paragraph(self):
        # The order in the package does not matter: texts are recognised by their checksums.
        status, printed = self.run_script("--package", self.package(rdb(OTHER, WRAPPED)))
        self.assertEqual(status, 0, printed)
        self.assertEqual((self.out / "emma.txt").read_text(), REFLOWED)
        self.assertEqual((self.out / "train.txt").read_text(), REFLOWED)
        self.assertEqual((self.out / "val.txt").read_text(encoding="utf-8"), OTHER)

    def test_default_folder_is_that_of_the_working_directory(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        status, printed = self.run_script("--package", self.package(rdb(OTHER, WRAPPED)), out=False)
        self.assertEqual(status, 0, printed)
        place = self.folder.resolve() / ".cache/data/novels"
        self.assertEqual((place / "train.txt").read_text(), REFLOWED)
        self.assertIn(str(place), printed)

    def test_does_nothing_when_all_is_there(self):
        self.run_script("--package", self.package(rdb(WRAPPED, OTHER)))
        before = (self.out / "train.txt").stat().st_mtime_ns
        with mock.patch.dict(os.environ, {"PATH": ""}):  # nothing could be fetched
            status, printed = self.run_script()
        self.assertEqual(status, 0, printed)
        self.assertEqual((self.out / "train.txt").stat().st_mtime_ns, before)

    def test_makes_damaged_files_again(self):
        package = self.package(rdb(WRAPPED, OTHER))
        self.run_script("--package", package)
        (self.out / "val.txt").write_text("damaged")
        status, printed = self.run_script("--package", package)
        self.assertEqual(status, 0, printed)
        self.assertEqual((self.out / "val.txt").read_text(encoding="utf-8"), OTHER)

    def refused(self, part, *arguments):
        status, printed = self.run_script(*arguments)
        self.assertEqual(status, 3, printed)
        self.assertIn(part, printed)
        self.assertFalse(self.out.exists(), "nothing is written when something is wrong")
        return printed

    def test_other_texts_are_refused(self):
        other = rdb(WRAPPED.replace("truth", "Truth"), OTHER)
        printed = self.refused("'emma'", "--package", self.package(other))
        self.assertIn("--set data.path=FILE", printed)

    def test_damaged_packages_are_refused(self):
        good = rdb(WRAPPED, OTHER)
        for content in (b"", b"junk", good[:-5], good[:100], b"\0" + good, good + b"\0\0\0"):
            with self.subTest(content=content[:10]):
                self.refused("data: error: ", "--package", self.package(content))
        for at in range(0, len(good), 7):
            changed = bytearray(good)
            changed[at] ^= 0x10
            with self.subTest(at=at):
                # A flip that leaves both texts as they are may pass; no other may.
                status, printed = self.run_script("--package", self.package(bytes(changed)))
                self.assertIn(status, (0, 3), printed)
                self.assertEqual(self.out.exists(), status == 0)
                if status == 0:
                    self.assertEqual((self.out / "train.txt").read_text(), REFLOWED)
                    shutil.rmtree(self.out)

    def test_missing_programs_are_named(self):
        with mock.patch.object(prepare_data, "INSTALLED", self.folder / "none"):
            with mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
                printed = self.refused("apt-get is not here")
        self.assertIn("--package FILE", printed)
        self.assertIn("--set data.path=FILE", printed)

    def test_missing_network_is_explained(self):
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "apt-get").write_text("#!/bin/sh\necho 'Could not connect' >&2\nexit 100\n")
        (programs / "apt-get").chmod(0o755)
        with mock.patch.object(prepare_data, "INSTALLED", self.folder / "none"):
            with mock.patch.dict(os.environ, {"PATH": f"{programs}:/bin:/usr/bin"}):
                printed = self.refused("Could not connect")
        self.assertIn("check the network", printed)

    def test_missing_package_file_is_refused(self):
        self.refused("none.deb: no such file", "--package", self.folder / "none.deb")


if __name__ == "__main__":
    unittest.main()
