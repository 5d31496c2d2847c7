# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Objects of files for one instruction set define no symbol that other files may define too.

    isa_symbols_test.py BUILD

The linker keeps one copy of an inline function or template that several objects define. If it kept the
copy of an AVX-512 file, every processor without AVX-512 would stop at an illegal instruction.
"""

import pathlib
import subprocess
import sys

SHARED = "WVu"  # kinds of symbols, as nm prints them, of which the linker keeps one copy


def main():
    objects = sorted(
        path
        for suffix in ("_avx2", "_avx512")
        for path in pathlib.Path(sys.argv[1]).rglob(f"*{suffix}.cpp.o")
    )
    if not objects:
        print(f"no objects *_avx2.cpp.o under {sys.argv[1]}")
        return 1
    failed = False
    for path in objects:
        lines = subprocess.run(
            ["nm", "--demangle", "--defined-only", str(path)],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()
        for line in lines:
            _, kind, name = line.split(maxsplit=2)
            if kind in SHARED:
                print(f"{path.name}: {name} may replace the portable copy of other files")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
