#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/bench.sh [NAME...] [-- OPTION...]
#
# Runs the benchmark programs of build/bench/bin, all or those named; options go to each of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=()
while [[ $# -gt 0 && $1 != -- ]]; do
    names+=("$1")
    shift
done
[[ $# -eq 0 ]] || shift

if [[ ${#names[@]} -eq 0 ]]; then
    for program in build/bench/bin/*_bench; do
        [[ -x $program ]] && names+=("$(basename "$program")")
    done
fi
if [[ ${#names[@]} -eq 0 ]]; then
    echo "bench: no benchmark program in build/bench/bin; \`make bench\` builds them" >&2
    exit 1
fi
for name in "${names[@]}"; do
    echo "== $name"
    "build/bench/bin/$name" "$@"
done
