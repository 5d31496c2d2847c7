#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what a compiler does not: which folder may include which, and the form of source files.

    scripts/check_layers.py [ROOT]

Prints `file:line: what is wrong` per finding and exits 1 if there is any. Standard library only.
"""

import pathlib
import re
import sys

# A layer may include itself, its parents here, and everything they may include. This table is the
# architecture: change it only together with docs/design and the DEPENDS lines of subbyte_layer().
PARENTS = {
    "core": [],
    "formats": ["core"],
    "kernels": ["formats"],
    "plan": ["kernels"],
    "ops": ["plan"],
    "nn": ["ops"],
    "models": ["nn"],
    "optim": ["ops"],
    "snip": ["nn", "optim"],
    "data": ["core"],
    "io": ["ops"],
    "train": ["models", "snip", "data", "io"],
    "bench": ["train"],
    "cli": ["bench"],
}
TORCH_FREE = ["core", "formats", "kernels", "plan", "data"]
# The command line shows and asks; what computes on tensors belongs below it.
NO_ARITHMETIC = ["cli"]

MAX_LINES = 500
FOLDERS = ["subbyte", "tests", "bench", "examples", "python", "scripts", "cmake", "configs", ".ci"]
SOURCES = {".h", ".cpp", ".py", ".sh", ".cmake", ".toml"}
LICENCE = ["Copyright (c) the subbyte authors", "SPDX-License-Identifier: Apache-2.0"]

OWN_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]subbyte/([a-z0-9_]+)/')
DEPENDS = re.compile(r"subbyte_layer\([^)]*?DEPENDS\s+((?:[a-z0-9_]+\s*)+)")
QUOTED_INCLUDE = re.compile(r'\s*#\s*include\s*"(?!subbyte/)([^"]+)"')
TORCH_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]((?:torch|ATen|c10)/[^">]+)')
ARITHMETIC_INCLUDE = re.compile(
    r'\s*#\s*include\s*[<"]'
    r'((?:torch/torch\.h|ATen/(?:ATen|Functions|TensorOperators)\.h|ATen/ops/)[^">]*)'
)


def allowed(layer):
    """The layers that files of `layer` may include, in the order of the table."""
    seen = {layer}
    todo = [layer]
    while todo:
        for parent in PARENTS[todo.pop()]:
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    return [name for name in PARENTS if name in seen]


def source_files(root):
    """The project's own files: sources by suffix, CMake lists, scripts without suffix."""
    paths = [root / "CMakeLists.txt", root / "Makefile"]
    for folder in FOLDERS:
        paths += sorted((root / folder).rglob("*"))
    for path in paths:
        parts = path.relative_to(root).parts
        if not path.is_file() or (parts[0] == "tests" and "data" in parts):
            continue
        if path.suffix in SOURCES or path.name in ("CMakeLists.txt", "Makefile", "run"):
            yield path


def check_includes(layer, lines):
    """Wrong arrows of one file in subbyte/<layer>: yields (line number, message)."""
    may = allowed(layer)
    for number, line in enumerate(lines, 1):
        own = OWN_INCLUDE.match(line)
        if own and own[1] not in may:
            yield number, f"{layer} must not include {own[1]} (allowed: {', '.join(may)})"
        quoted = QUOTED_INCLUDE.match(line)
        if quoted:
            yield number, f'include "{quoted[1]}" by its full name, "subbyte/<layer>/..."'
        torch = TORCH_INCLUDE.match(line)
        if torch and layer in TORCH_FREE:
            yield number, f"{layer} is free of LibTorch and must not include {torch[1]}"
        arithmetic = ARITHMETIC_INCLUDE.match(line)
        if arithmetic and layer in NO_ARITHMETIC:
            yield number, f"{layer} does no arithmetic and must not include {arithmetic[1]}"


def check_depends(layer, lines):
    """Wrong arrows of subbyte/<layer>/CMakeLists.txt: yields (line number, message)."""
    for match in DEPENDS.finditer("\n".join(lines)):
        for other in match[1].split():
            if other not in allowed(layer):
                yield 1, f"{layer} must not link {other} (allowed: {', '.join(allowed(layer))})"


def check_form(path, lines):
    """Licence, length, characters of one file: yields (line number, message)."""
    head = lines[1:3] if lines and lines[0].startswith("#!") else lines[:2]
    if [line.lstrip("/# ").rstrip() for line in head] != LICENCE:
        yield 1, "the file must begin with the two lines of copyright and licence"
    if len(lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(lines)} lines, allowed are {MAX_LINES}: it holds two ideas"
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield 1, "a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            yield number, "sources are ASCII"


def check_file(root, path):
    """All findings of one file as printed lines."""
    name = path.relative_to(root)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return [f"{name}:1: sources are ASCII"]
    findings = list(check_form(path, lines))
    if name.parts[0] == "subbyte":
        layer = name.parts[1]
        if layer not in PARENTS:
            findings.append((1, f"subbyte/{layer} is no layer; scripts/check_layers.py lists them"))
        elif path.suffix in (".h", ".cpp"):
            findings += check_includes(layer, lines)
        elif path.name == "CMakeLists.txt":
            findings += check_depends(layer, lines)
    return [f"{name}:{number}: {message}" for number, message in sorted(findings)]


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here
    files = list(source_files(root))
    if not files:
        print(f"{root}: no source files here", file=sys.stderr)
        return 2
    findings = [finding for path in files for finding in check_file(root, path)]
    for finding in findings:
        print(finding)
    if findings:
        print(f"check_layers: {len(findings)} findings in {len(files)} files", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
