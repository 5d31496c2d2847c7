#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix products and linear layers beside LibTorch, as the tables of docs/results/speed.md.

    tables.py [--threads N] [--seconds S] [--program SUBBYTE] [gemm] [layer] [scaling]

Each figure is `subbyte bench ... --json`: ours and LibTorch's FP32 and BF16 in turns in one process.
With SUBBYTE_MAX_ISA=avx2 in the environment ours are the AVX2 kernels.
"""

import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPECS = ["fp4", "int4", "int8", "mxfp4", "nvfp4", "fp8", "mxfp8"]
RECIPES = ["fp4", "int4", "int8", "mxfp4", "nvfp4", "fp8", "mxfp8", "bf16"]
GEMMS = ["1024,1024,1024", "1024,2736,1024", "2048,768,768"]
# up_proj and down_proj of llama-9m in a step of 8 x 256, of llama-130m in one of 4 x 256 tokens
STEP_GEMMS = ["2048,688,256", "2048,256,688", "1024,2048,768", "1024,768,2048"]
LAYERS = ["1024,1024,2736", "1024,2736,1024", "2048,768,768", "2048,512,1376", "2048,256,688"]


def bench(arguments, *options):
    command = [arguments.program, "bench", *options, "--json", "--seconds", str(arguments.seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tables: {' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def table(rows, columns, title, cell):
    print(f"\n| {title} | " + " | ".join(c.replace(",", " x ") for c in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in rows:
        print(f"| `{row}` | " + " | ".join(cell(row, column) for column in columns) + " |", flush=True)


def ratios(figures):
    return f"{figures['vs_fp32']:.2f} ({figures['vs_bf16']:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["gemm", "layer", "scaling"])
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    arguments = parser.parse_args()
    threads = ["--threads", arguments.threads]

    first = bench(arguments, "gemm", "--shape", "256,256,256", *threads)
    print(f"{first['cpu']}, {first['isa']}, {first['threads']} thread(s);", end=" ")
    print("times faster than LibTorch's FP32, in brackets than its BF16")
    if "gemm" in arguments.what:
        def figures(spec, shape):
            run = bench(arguments, "gemm", "--spec", spec, "--shape", shape, *threads)
            return f"{ratios(run)} {100 * run.get('of_inner_loop', 0):.0f} %"
        print("\nPer cent: of what the inner loop alone does on one tile in the first cache.")
        for shapes in (GEMMS, STEP_GEMMS):
            table(SPECS, shapes, "GEMM, M x N x K", figures)
    if "layer" in arguments.what:
        table(RECIPES, LAYERS, "layer, T x K x N", lambda recipe, shape: ratios(
            bench(arguments, "layer", "--recipe", recipe, "--shape", shape, *threads)))
    if "scaling" in arguments.what:
        def speedup(recipe, shape):
            one, two = (bench(arguments, "layer", "--recipe", recipe, "--shape", shape,
                              "--threads", count)["lowest_seconds"] for count in ("1", "2"))
            return f"{one / two:.2f}"
        table(["fp4", "int8", "fp8"], LAYERS[:3], "two threads against one", speedup)


if __name__ == "__main__":
    main()
