#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/lint.sh [check|format] [BUILD]
#
# check   layer check, layout of all sources, clang-tidy over every folder of subbyte/
# format  rewrites the sources in the project's layout instead of checking it
#
# BUILD (default build/lint) holds the compile commands that clang-tidy reads. It sees the sources
# as they are compiled, in groups, so that LibTorch's headers are read once per group.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-check}
build=${2:-build/lint}
jobs=${JOBS:-$(nproc)}

layout() {
    git ls-files --cached --others --exclude-standard '*.h' '*.cpp' | sort |
        xargs clang-format "$@"
}

case $mode in
    format) layout -i && exit ;;
    check) ;;
    *) echo "usage: scripts/lint.sh [check|format] [BUILD]" >&2 && exit 2 ;;
esac

scripts/check_layers.py
layout --dry-run -Werror
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSUBBYTE_DEV=ON >/dev/null
folders=$(find subbyte -mindepth 1 -maxdepth 1 -type d -printf '%f|')
# Some warning groups named in the sources are GCC's, and so is omp.h. The check left out reports
# #include "a.cpp".
if ! found=$(run-clang-tidy -quiet -p "$build" -j "$jobs" -extra-arg=-Wno-unknown-warning-option \
    -extra-arg=-fno-openmp -checks=-bugprone-suspicious-include "/subbyte/(${folders%|})/.*\.(cpp|cxx)$" 2>&1); then
    grep -vE '^(clang-tidy|Enabled checks|[0-9]+ warnings)' <<<"$found" >&2
    echo "lint: clang-tidy found the above" >&2
    exit 1
fi
