#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Planning rules on a model that was trained here: BF16 first, then on under every rule's plan.

    plateau.py --data TEXT --val-data TEXT [--preset P] [--bf16-steps N] [--steps N] [--seeds 0,1,2]
               [--targets T,...] [--rules R,...] [--batch-size B] [--seq-len L] [--lr X]
               [--variant NAME='OPTIONS']... [--program SUBBYTE] --out FOLDER
               [-- options of `subbyte plan`]

For each seed: trains PRESET in BF16, plans on its last checkpoint by every rule (rules.py), and
trains on under those plans (continued.py), all on the same batches. The table has the gap of the
validation loss to the BF16 run, over the seeds. What the folder holds already is not repeated.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"plateau: {' '.join(command)} failed:\n{done.stderr}")


def one_seed(a, seed):
    """Gaps to BF16 by plan, at once and after training on."""
    folder = os.path.join(a.out, f"seed{seed}")
    run = os.path.join(folder, "bf16")
    checkpoint = os.path.join(run, "checkpoints", "latest")
    if not os.path.exists(checkpoint):
        sets = {"run.dir": run, "run.seed": seed, "data.path": a.data, "data.val_path": a.val_data,
                "train.steps": a.bf16_steps, "train.batch_size": a.batch_size,
                "train.seq_len": a.seq_len, "train.eval_every": max(1, a.bf16_steps // 8),
                "precision.recipe": "bf16", "checkpoint.every": a.bf16_steps}
        call([a.program, "train", a.preset]
             + [part for key, value in sets.items() for part in ("--set", f"{key}={value}")])
    plans = os.path.join(folder, "rules")
    call([sys.executable, os.path.join(HERE, "rules.py"), checkpoint, "--data", a.data,
          "--eval-data", a.val_data, "--targets", a.targets, "--methods", a.rules,
          "--draws", "1", "--measure-batches", "4", "--batches", "8", "--batch-size", "8",
          "--seq-len", str(a.seq_len), "--program", a.program, "--out", plans]
         + [f"--variant={variant}" for variant in a.variant] + ["--", *a.passed])
    files = sorted(os.listdir(os.path.join(plans, "plans")))
    further = os.path.join(folder, "continued")
    call([sys.executable, os.path.join(HERE, "continued.py"), checkpoint, "--data", a.data,
          "--val-data", a.val_data, "--steps", str(a.steps), "--batch-size", str(a.batch_size),
          "--seq-len", str(a.seq_len), "--eval-batches", "16", "--lr", str(a.lr),
          "--seeds", str(seed), "--program", a.program, "--out", further,
          "--plans"] + [os.path.join(plans, "plans", name) for name in files])
    with open(os.path.join(plans, "results.json"), encoding="utf-8") as file:
        before = json.load(file)["gaps"]
    with open(os.path.join(further, "continued.json"), encoding="utf-8") as file:
        after = json.load(file)
    at_once = {f"{rule}-{round(100 * float(target))}": statistics.mean(values)
               for rule, row in before.items() for target, values in row.items()}
    return at_once, {name.replace("random0", "random"): gap[0]
                     for name, gap in after["gaps"].items()}, after["losses"]["bf16"][0]


def spread(values):
    text = f"{statistics.mean(values):+.4f}"
    return text + (f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--val-data", required=True)
    parser.add_argument("--preset", default="llama-9m")
    parser.add_argument("--bf16-steps", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--targets", default="0.5,0.75")
    parser.add_argument("--rules", default="snip,min-abs-err,min-rel-err,layer-type,layer-id,"
                        "fisher,gradient-output")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    parser.add_argument("--out", required=True)
    own, passed = sys.argv[1:], []
    if "--" in own:
        own, passed = own[:own.index("--")], own[own.index("--") + 1:]
    arguments = parser.parse_args(own)
    arguments.passed = passed
    for name in ("data", "val_data", "out", "program"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    os.makedirs(arguments.out, exist_ok=True)

    at_once, after, losses = {}, {}, []
    for seed in arguments.seeds.split(","):
        first, last, loss = one_seed(arguments, int(seed))
        losses.append(loss)
        for rows, new in ((at_once, first), (after, last)):
            for name, gap in new.items():
                rows.setdefault(name, []).append(gap)
    print(f"BF16 loss after {arguments.bf16_steps} + {arguments.steps} steps, by seed: "
          + ", ".join(f"{loss:.4f}" for loss in losses) + "\n")
    print(f"| plan | gap at once | gap after {arguments.steps} steps | perplexity |\n"
          "|---|---|---|---|")
    for name in sorted(after, key=lambda n: statistics.mean(after[n])):
        first = spread(at_once[name]) if name in at_once else "-"
        print(f"| {name} | {first} | {spread(after[name])} | "
              f"{math.expm1(statistics.mean(after[name])):+.2%} |")
    with open(os.path.join(arguments.out, "plateau.json"), "w", encoding="utf-8") as out:
        json.dump({"bf16": losses, "at_once": at_once, "after": after}, out, indent=1)


if __name__ == "__main__":
    main()
