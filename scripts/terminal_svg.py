#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Draws a terminal session as an SVG: scripts/terminal_svg.py SESSION.txt OUT.svg

Standard library only. The picture has its own background, so it reads well on light and dark pages."""

import html
import pathlib
import sys

CHARACTER, LINE, MARGIN = 7.2, 17, 14


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    lines = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").rstrip("\n").split("\n")
    width = round(max(map(len, lines)) * CHARACTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    rows = []
    for i, line in enumerate(lines):
        color = "#7ee787" if line.startswith("plan") else "#d2a8ff" if line.startswith("eval") else "#e6edf3"
        rows.append(f'<text x="{MARGIN}" y="{MARGIN + 12 + i * LINE}" fill="{color}">{html.escape(line)}</text>')
    pathlib.Path(sys.argv[2]).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" xml:space="preserve">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n",
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
