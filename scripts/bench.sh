#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/bench.sh [kernels] [tables] [training]
#
# kernels   the Google Benchmark programs: every kernel, with LibTorch's matmul in the same run
# tables    GEMMs and layers beside LibTorch, as in docs/results/speed.md
# training  our training step beside PyTorch's, each in a process of its own
#
# Without a word: all three, about 15 minutes. Nothing else should run on the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $# -gt 0 ]] || set -- kernels tables training
for what in "$@"; do
    case $what in
        kernels)
            for program in build/bench/bin/*_bench; do
                echo "== $(basename "$program")"
                "$program"
            done
            ;;
        tables) bench/kernels/tables.py ;;
        training)
            bench/training/compare.py --model llama-9m
            bench/training/compare.py --model llama-60m
            ;;
        *) echo "usage: scripts/bench.sh [kernels] [tables] [training]" >&2 && exit 2 ;;
    esac
done
