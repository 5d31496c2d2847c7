#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches the default text: six novels by Jane Austen, about 4 MB, public domain.

    scripts/prepare_data.py [--out FOLDER] [--package FILE]

They come from the Debian/Ubuntu package r-cran-janeaustenr, which is downloaded and unpacked but not
installed: no root is needed. FOLDER (default .cache/data/novels in the working directory, where
`subbyte train` started there looks for them) receives

    emma.txt mansfield_park.txt northanger_abbey.txt persuasion.txt pride_and_prejudice.txt
    sense_and_sensibility.txt      one file per novel
    train.txt  val.txt             five novels for training; Persuasion, held out, for validation

The package's lines are wrapped at 72 columns. Here a paragraph is one line and an empty line separates
paragraphs; indented lines (verse, signatures) stay lines of their own, without the indentation; runs
of blanks become one. Size and SHA-256 of every novel are checked before anything is written, and
nothing is fetched when the result is already there. Python's standard library only.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

PACKAGE = "r-cran-janeaustenr"
RDB = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
INSTALLED = pathlib.Path("/") / RDB
VALIDATION = "persuasion"
DEFAULT_OUT = pathlib.Path(".cache/data/novels")

# Bytes and SHA-256 of each text in the package (lines joined by "\n"), whatever its revision.
NOVELS = {
    "emma": (883028, "7c67b5985c6d0de1efaeb5d342d52cb82c38083c40e2295129e30e87ee690ebe"),
    "mansfield_park": (883280, "98bc90519cdf4ef663ad7de2734bb529435ef24f7abbde6bb1a50898871dafe9"),
    "northanger_abbey": (433411, "51f91bbe0517db8e65cff009b097ce0a1836124c4e0532ac19e6c0cad982abed"),
    "persuasion": (466854, "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"),
    "pride_and_prejudice": (
        684768,
        "dfc684d4f857fa938268f9ab9c5567b64bd0691251eca959644adeabe6287a4d",
    ),
    "sense_and_sensibility": (
        673688,
        "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09",
    ),
}
# SHA-256 of what this script makes of them.
RESULTS = {
    "train.txt": "e1ef934c9d3e433448baf0c13950075ba3179b1a423afa6b862a11755ed9075f",
    "val.txt": "e2da46bdb9255e13f56be6e737f178fd06d1938516abb21fd4f74f4675ffa13a",
}

OWN_TEXT = "or train on a text of your own instead: --set data.path=FILE"


class Failure(Exception):
    """What went wrong, then lines that say what to try."""


def say(text):
    print(f"data: {text}", flush=True)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- the package -----------------------------------------------------------------------------------


def run(command, folder):
    """Runs a command quietly; returns (succeeded, its last lines)."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
        )
    except FileNotFoundError:
        raise Failure(
            f"the program {command[0]} is not here",
            "this needs apt-get and dpkg, that is Debian or Ubuntu; elsewhere give the package's",
            f"file ({PACKAGE}_*.deb, or its Rdata.rdb): --package FILE;",
            OWN_TEXT,
        ) from None
    except subprocess.TimeoutExpired:
        return False, f"{command[0]}: no end after 300 seconds"
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return done.returncode == 0, "\n".join(lines[-4:])


def download(folder):
    """The package file in `folder`, fetched by apt-get with the machine's own settings."""
    apt = ["apt-get", "-q", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30"]
    say(f"downloading the package {PACKAGE} (1.6 MB)")
    good, output = run([*apt, "download", PACKAGE], folder)
    if not good:
        # A fresh machine has no package lists; private ones need no root.
        say("fetching package lists first (10 to 40 MB, thrown away afterwards)")
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        apt += ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={folder}"]
        _, updated = run([*apt, "update"], folder)
        good, output = run([*apt, "download", PACKAGE], folder)
        output = f"{updated}\n{output}"  # without a network the first says why
    files = sorted(folder.glob(f"{PACKAGE}_*.deb"))
    if not good or not files:
        raise Failure(
            f"apt-get could not download {PACKAGE}:\n  | " + output.replace("\n", "\n  | "),
            "check the network and apt's sources, then run this again;",
            OWN_TEXT,
        )
    return files[0]


def find_rdb(package, scratch):
    """The package's data file: from --package, from an installed package, or downloaded."""
    if package is None and INSTALLED.is_file():
        say(f"taking the novels from the installed package {PACKAGE}")
        return INSTALLED
    if package is not None and not package.is_file():
        raise Failure(f"{package}: no such file", "give a .deb or an Rdata.rdb with --package")
    if package is not None and package.suffix != ".deb":
        return package
    deb = package.resolve() if package is not None else download(scratch)
    unpacked = scratch / "unpacked"
    good, output = run(["dpkg", "-x", str(deb), str(unpacked)], scratch)
    rdb = unpacked / RDB
    if not good or not rdb.is_file():
        raise Failure(f"{deb.name}: has no {RDB} {output}", f"is it {PACKAGE}?")
    return rdb


def character_vector(block):
    """Lines of the first character vector of an R serialisation (format XDR, big-endian)."""
    at = block.index(b"\x00\x00\x00\x10") + 4  # type 16: a vector of strings
    (count,) = struct.unpack_from(">I", block, at)
    at += 4
    for _ in range(count):
        flags, length = struct.unpack_from(">ii", block, at)
        if flags & 0xFF != 9:  # type 9: a string
            raise ValueError("no string where one was expected")
        at += 8
        yield block[at : at + max(length, 0)]
        at += max(length, 0)


def texts(rdb):
    """The texts in an Rdata.rdb: blocks of (big-endian length, zlib stream), one object each."""
    raw = rdb.read_bytes()
    while raw:
        stream = zlib.decompressobj()
        block = stream.decompress(raw[4:]) + stream.flush()
        if not stream.eof or len(block) != int.from_bytes(raw[:4], "big"):
            raise ValueError("a block of another length than announced")
        raw = stream.unused_data
        yield b"\n".join(character_vector(block)) + b"\n"


def checked_novels(rdb):
    """{name: text}, each recognised by its checksum, all there."""
    try:
        found = {sha256(text): text for text in texts(rdb)}
    except (ValueError, struct.error, zlib.error) as error:
        raise Failure(f"{rdb}: is damaged ({error})", "fetch it again;", OWN_TEXT) from None
    novels = {}
    for name, (size, digest) in NOVELS.items():
        if digest not in found or len(found[digest]) != size:
            raise Failure(
                f"{rdb}: no text with the size and checksum of '{name}'",
                f"this revision of {PACKAGE} carries other texts than 1.0.0;",
                OWN_TEXT,
            )
        novels[name] = found[digest].decode("utf-8")
    return novels


# --- the text --------------------------------------------------------------------------------------


def reflow(text):
    """One line per paragraph, an empty line between paragraphs; see the top of this file."""
    paragraphs = []
    for wrapped in re.split(r"\n\s*\n", text.strip("\n")):
        lines = []
        indented = True  # nothing to join the first line to
        for line in wrapped.split("\n"):
            words = " ".join(line.split())
            if indented or line.startswith(" "):
                lines.append(words)
            else:  # a dash keeps no distance to what follows, as everywhere in these texts
                lines[-1] += words if lines[-1].endswith("--") else " " + words
            indented = line.startswith(" ")
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def write(path, text):
    """The file appears complete or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_there(out):
    return all(
        (out / name).is_file() and sha256((out / name).read_bytes()) == digest
        for name, digest in RESULTS.items()
    )


def prepare(out, package):
    if is_there(out):
        say(f"the novels are in {out}")
        return
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="subbyte-data-"))
    try:
        novels = checked_novels(find_rdb(package, scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

    novels = {name: reflow(text) for name, text in novels.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name, text in novels.items():
        write(out / f"{name}.txt", text)
    train = "\n".join(text for name, text in novels.items() if name != VALIDATION)
    write(out / "train.txt", train)
    write(out / "val.txt", novels[VALIDATION])
    if not is_there(out):
        raise Failure(f"{out}: the files are not what they should be", "is the disk in order?")
    say(
        f"{out}: train.txt ({len(train.encode()) / 1e6:.1f} MB, five novels), "
        f"val.txt ({len(novels[VALIDATION].encode()) / 1e6:.1f} MB, Persuasion)"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=DEFAULT_OUT, help="folder to write to"
    )
    parser.add_argument("--package", type=pathlib.Path, help=f"{PACKAGE}_*.deb or its Rdata.rdb")
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    try:
        prepare(out, arguments.package)
    except (Failure, OSError) as error:
        lines = error.args if isinstance(error, Failure) else (str(error), "choose another --out")
        print(f"data: error: {lines[0]}", *lines[1:], sep="\n  ", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
