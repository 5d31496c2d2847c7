#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan does to training: the same model trained on for a few steps under every plan.

    continued.py MODEL_DIR --data TEXT --val-data TEXT --plans FILE.json... [--recipes R,...]
                 [--steps N] [--batch-size B] [--seq-len L] [--lr X] [--seeds 0,1,2]
                 [--program SUBBYTE] --out FOLDER

Every run sees the same batches in the same order (for one seed) and begins with the same weights
and a new optimizer; the plan stays as it is. The table has the validation loss after the last
step, with the plan in force, against that of the BF16 run of the same seed. Runs whose folder
already holds a result are not repeated.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CONFIG = """
[run]
dir = "{run}"
seed = {seed}
[model]
path = "{model}"
[data]
path = "{data}"
val_path = "{val_data}"
[train]
steps = {steps}
batch_size = {batch_size}
seq_len = {seq_len}
eval_every = {steps}
eval_batches = {eval_batches}
[optim]
lr = {lr}
warmup_steps = {warmup}
[precision]
recipe = "{recipe}"
plan = "{plan}"
[checkpoint]
every = 0
"""


def validation_loss(arguments, name, recipe, plan, seed):
    run = os.path.join(arguments.out, f"{name}-seed{seed}")
    inspect = [arguments.program, "inspect", run, "--json"]
    done = subprocess.run(inspect, capture_output=True, text=True)
    if done.returncode != 0 or json.loads(done.stdout)["state"] != "finished":
        text = CONFIG.format(
            run=run, seed=seed, model=arguments.model, data=arguments.data,
            val_data=arguments.val_data, steps=arguments.steps,
            batch_size=arguments.batch_size, seq_len=arguments.seq_len,
            eval_batches=arguments.eval_batches, lr=arguments.lr,
            warmup=max(1, arguments.steps // 5), recipe=recipe, plan=plan)
        config = run + ".toml"
        with open(config, "w", encoding="utf-8") as out:
            out.write(text)
        done = subprocess.run([arguments.program, "train", config], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"continued: {config} failed:\n{done.stderr}")
        shutil.rmtree(os.path.join(run, "checkpoints"), ignore_errors=True)
        done = subprocess.run(inspect, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["validation_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--val-data", required=True)
    parser.add_argument("--plans", nargs="*", default=[])
    parser.add_argument("--recipes", default="fp8,fp4")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--eval-batches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    for name in ("model", "data", "val_data", "out"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    os.makedirs(arguments.out, exist_ok=True)

    recipes = ["bf16"] + [recipe for recipe in arguments.recipes.split(",") if recipe]
    runs = [(recipe, recipe, "") for recipe in recipes]
    for plan in arguments.plans:
        name = os.path.splitext(os.path.basename(plan))[0]
        runs.append((name, "snip", os.path.abspath(plan)))
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    losses = {name: [] for name, _, _ in runs}
    for seed in seeds:
        for name, recipe, plan in runs:
            losses[name].append(validation_loss(arguments, name, recipe, plan, seed))
    gaps = {name: [ours - base for ours, base in zip(values, losses["bf16"])]
            for name, values in losses.items()}
    print(f"| plan | validation loss after {arguments.steps} steps | gap to BF16 | perplexity |\n"
          "|---|---|---|---|")
    for name in sorted(gaps, key=lambda n: statistics.mean(gaps[n])):
        spread = f" +- {statistics.stdev(gaps[name]):.4f}" if len(seeds) > 1 else ""
        print(f"| {name} | {statistics.mean(losses[name]):.4f} | "
              f"{statistics.mean(gaps[name]):+.4f}{spread} | "
              f"{math.expm1(statistics.mean(gaps[name])):+.2%} |")
    with open(os.path.join(arguments.out, "continued.json"), "w", encoding="utf-8") as out:
        json.dump({"losses": losses, "gaps": gaps, "seeds": seeds}, out, indent=1)


if __name__ == "__main__":
    main()
