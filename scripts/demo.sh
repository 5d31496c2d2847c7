#!/usr/bin/env bash
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# The main job on real text: trains a small LLaMA twice on the same data in the same order, once with
# the precision of every GEMM planned by SNIP and once in BF16, and sets the results side by side.
# Takes up where it was stopped; remove runs/demo and runs/demo-bf16 to start anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly subbyte=build/bin/subbyte
readonly snip=runs/demo bf16=runs/demo-bf16
readonly prompt="It was a truth"

step() { printf '\n== %s\n' "$*"; }

step "1/4  the text: six novels by Jane Austen, one of them held out for validation"
scripts/prepare_data.py

step "2/4  training while SNIP chooses FP8 or FP4 for every GEMM of the linear layers"
"$subbyte" train configs/demo.toml --set run.dir="$snip"

step "3/4  the same run in BF16, to compare with"
"$subbyte" train configs/demo.toml --set run.dir="$bf16" --set precision.recipe=bf16

step "4/4  what came out"
"$subbyte" inspect "$snip"
printf '\n'
"$subbyte" inspect "$snip" --against "$bf16"
printf '\nA sentence of the model that was trained in FP8 and FP4:\n  '
"$subbyte" generate "$snip/checkpoints/latest" --prompt "$prompt" --tokens 40 --seed 3 | tr '\n' ' '
printf '\n\nNext: your own text. See docs/guide/first-run.md.\n'
