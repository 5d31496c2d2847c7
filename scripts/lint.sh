#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/lint.sh [fast|all|format] [BUILD]
#
# fast    layout of all sources, layer check, clang-tidy over the folders without LibTorch
# all     the same with clang-tidy over every folder (minutes: LibTorch's headers are large)
# format  rewrites the sources in the project's layout instead of checking it
#
# BUILD (default build/lint) holds the compile commands, one per source, that clang-tidy reads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-fast}
build=${2:-build/lint}
jobs=${JOBS:-$(nproc)}

layout() {
    git ls-files --cached --others --exclude-standard '*.h' '*.cpp' | sort |
        xargs clang-format "$@"
}

case $mode in
    format) layout -i && exit ;;
    fast) folders='core|formats|kernels|plan|data' ;;
    all) folders='[a-z]+' ;;
    *) echo "usage: scripts/lint.sh [fast|all|format] [BUILD]" >&2 && exit 2 ;;
esac

scripts/check_layers.py
layout --dry-run -Werror
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSUBBYTE_DEV=ON -DSUBBYTE_UNITY=OFF >/dev/null
# Some warning groups named in the sources are GCC's.
if ! found=$(run-clang-tidy -quiet -p "$build" -j "$jobs" -extra-arg=-Wno-unknown-warning-option \
    "/subbyte/($folders)/.*\.cpp$" 2>&1); then
    grep -vE '^(clang-tidy|Enabled checks|[0-9]+ warnings)' <<<"$found" >&2
    echo "lint: clang-tidy found the above" >&2
    exit 1
fi
