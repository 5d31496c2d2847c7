#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Planning rules against each other on one trained model: real loss of every plan, at fixed budgets.

    rules.py MODEL_DIR --data TEXT [--targets T,...] [--methods M,...] [--draws N]
             [--batch-size B] [--seq-len L] [--batches N] [--program SUBBYTE] --out FOLDER
             [-- options of `subbyte plan`]

The model is measured once; every rule plans from those statistics at every budget, and the loss of
each plan is that of the weights as they are, on text that was not measured. `random` is drawn
several times. Writes results.json, table.md, curve.svg and the plans into FOLDER.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def plan(arguments, extra):
    """One call of `subbyte plan MODEL_DIR`; returns what it prints as JSON."""
    command = [
        arguments.program, "plan", arguments.model, "--json", "--data", arguments.data,
        "--batch-size", str(arguments.batch_size), "--seq-len", str(arguments.seq_len),
        "--batches", str(arguments.batches),
    ] + extra
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"rules: {' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def save_plans(result, folder, draw=""):
    """Writes every plan as METHOD[-DRAW]-PERCENT.json, for continued.py."""
    os.makedirs(folder, exist_ok=True)
    for entry in result["plans"]:
        name = f"{entry['method']}{draw}-{round(100 * entry['target'])}.json"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(entry["plan"], out, indent=1)


def gaps(result, rows):
    """Adds loss - BF16 loss of every plan to rows[method][target]."""
    base = result["evaluation"]["bf16_loss"]
    for entry in result["plans"]:
        row = rows.setdefault(entry["method"], {})
        row.setdefault(entry["target"], []).append(entry["loss"] - base)
    return base


def table(rows, targets, base):
    """Markdown: the gap in nats and in percent of perplexity."""
    lines = ["| rule | " + " | ".join(f"{t:.0%} FP4" for t in targets) + " |",
             "|---" * (1 + len(targets)) + "|"]
    order = sorted(rows, key=lambda m: statistics.mean(rows[m][targets[-1]]))
    for method in order:
        cells = []
        for target in targets:
            values = rows[method][target]
            mean = statistics.mean(values)
            spread = f" +- {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{mean:.4f}{spread} ({math.expm1(mean):+.1%})")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append(f"\nGap to BF16 (loss {base:.4f}) in nats, and of the perplexity.")
    return "\n".join(lines) + "\n"


def summary(rows, targets, ours):
    """How `ours` stands against the other rules at each budget."""
    lines = []
    others = [m for m in rows if m not in (ours, "uniform")]
    for target in targets:
        mean = {m: statistics.mean(rows[m][target]) for m in others + [ours]}
        best = min(others, key=mean.get)
        median = statistics.median(mean[m] for m in others)
        lines.append(
            f"{target:.0%}: {ours} {mean[ours]:.4f}, best other {best} {mean[best]:.4f}, "
            f"median of the others {median:.4f}, ratio to it {mean[ours] / median:.2f}")
    return lines


def main():
    own, passed = sys.argv[1:], []
    if "--" in own:
        own, passed = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--targets", default="0.25,0.5,0.75,0.8")
    parser.add_argument(
        "--methods", default="snip,min-abs-err,min-rel-err,layer-type,layer-id,uniform")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args(own)
    os.makedirs(arguments.out, exist_ok=True)
    saved = os.path.join(arguments.out, "statistics.json")

    rows = {}
    results = [plan(arguments, passed + [
        "--targets", arguments.targets, "--methods", arguments.methods, "--save-stats", saved,
        "--svg", os.path.join(arguments.out, "curve.svg")])]
    for draw in range(arguments.draws):
        results.append(plan(arguments, passed + [
            "--targets", arguments.targets, "--methods", "random", "--seed", str(draw),
            "--from-stats", saved]))
    for index, result in enumerate(results):
        base = gaps(result, rows)
        save_plans(result, os.path.join(arguments.out, "plans"),
                   f"{index - 1}" if index > 0 else "")
    targets = [float(t) for t in arguments.targets.split(",")]
    ours = arguments.methods.split(",")[0]
    text = table(rows, targets, base) + "\n" + "\n".join(summary(rows, targets, ours)) + "\n"
    with open(os.path.join(arguments.out, "results.json"), "w", encoding="utf-8") as out:
        json.dump({"gaps": rows, "bf16_loss": base, "runs": results}, out, indent=1)
    with open(os.path.join(arguments.out, "table.md"), "w", encoding="utf-8") as out:
        out.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
