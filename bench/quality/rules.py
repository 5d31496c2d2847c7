#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Planning rules against each other on one trained model: real loss of plans, at fixed budgets.

    rules.py MODEL_DIR --data TEXT [--eval-data TEXT] [--targets T,...] [--methods M,...]
             [--draws N] [--variant NAME='OPTIONS']... [--batch-size B] [--seq-len L]
             [--batches N] [--measure-batches N] [--labels data|sampled] [--program SUBBYTE]
             --out FOLDER
             [-- options of `subbyte plan`]

The model is measured once; every rule plans from those statistics at every budget, and the loss of
each plan is that of the weights as they are, on text that was not measured: what follows in TEXT,
or another one. `random` is drawn several times. A variant is the first method with more options of
`subbyte plan`, e.g. --variant refined='--refine 60'; with --options, --measure-batches or
--labels among them it is measured anew. Writes results.json, table.md, curve.svg and the plans into FOLDER. A
call whose result is there already is not repeated: to try something else, take another folder.
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Rules that look at no gradient. The others know how much the loss minds an error.
NAIVE = ("min-abs-err", "min-rel-err", "layer-type", "layer-id", "random")
GRADIENT = ("norm-only", "first-order", "second-order", "gradient-output", "fisher",
            "hessian-trace", "taylor")


class Planner:
    """Calls `subbyte plan MODEL_DIR` and keeps what it says."""

    def __init__(self, arguments, passed):
        self.arguments, self.passed = arguments, passed
        self.statistics = os.path.join(arguments.out, "statistics.json")
        self.rows, self.runs, self.base = {}, {}, None

    def call(self, name, extra):
        """One call, as a dictionary; from the folder when it was made before."""
        a = self.arguments
        saved = os.path.join(a.out, f"{name}.json")
        if not os.path.exists(saved):
            command = [
                a.program, "plan", a.model, "--json", "--loss-only", "--data", a.data,
                "--batch-size", str(a.batch_size), "--seq-len", str(a.seq_len),
                "--batches", str(a.batches), "--measure-batches", str(a.measure_batches),
                *(["--eval-data", a.eval_data] if a.eval_data else []), *self.passed, *extra]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"rules: {shlex.join(command)} failed:\n{done.stderr}")
            with open(saved, "w", encoding="utf-8") as out:
                out.write(done.stdout)
        with open(saved, encoding="utf-8") as file:
            self.runs[name] = json.load(file)
        return self.runs[name]

    def add(self, name, row, extra):
        """Adds loss - BF16 loss of every plan of a call to rows[row or method][target]."""
        result = self.call(name, extra)
        self.base = result["evaluation"]
        folder = os.path.join(self.arguments.out, "plans")
        os.makedirs(folder, exist_ok=True)
        for entry in result["plans"]:
            gap = entry["loss"] - self.base["bf16_loss"]
            by_target = self.rows.setdefault(row or entry["method"], {})
            by_target.setdefault(entry["target"], []).append(gap)
            file = f"{entry['method'] if name == 'rules' else name}-{round(100 * entry['target'])}"
            with open(os.path.join(folder, file + ".json"), "w", encoding="utf-8") as out:
                json.dump(entry["plan"], out, indent=1)


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
    lines.append(f"\nGap to BF16 (loss {base['bf16_loss']:.4f} on {base['targets']} tokens) in "
                 "nats, and of the perplexity.")
    return "\n".join(lines) + "\n"


def summary(rows, targets, ours):
    """How `ours` stands against the naive rules and those that weigh errors by gradients."""
    lines = []
    for target in targets:
        mean = {m: statistics.mean(rows[m][target]) for m in rows}
        parts = [f"{target:.0%}: {ours} {mean[ours]:.4f}"]
        for kind, members in (("naive", NAIVE), ("gradient-weighted", GRADIENT)):
            present = [m for m in members if m in mean]
            if not present:
                continue
            best = min(present, key=mean.get)
            median = statistics.median(mean[m] for m in present)
            parts.append(f"{kind} rules: median {median:.4f} (ratio {mean[ours] / median:.2f}), "
                         f"best {best} {mean[best]:.4f} (ratio {mean[ours] / mean[best]:.2f})")
        lines.append("; ".join(parts))
    return lines


def main():
    own, passed = sys.argv[1:], []
    if "--" in own:
        own, passed = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--eval-data", default="")
    parser.add_argument("--targets", default="0.25,0.5,0.75,0.8")
    parser.add_argument(
        "--methods", default="snip,min-abs-err,min-rel-err,layer-type,layer-id,norm-only,"
        "first-order,gradient-output,fisher,hessian-trace,taylor")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--measure-batches", type=int, default=1)
    parser.add_argument("--labels", default="data", choices=("data", "sampled"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args(own)
    os.makedirs(arguments.out, exist_ok=True)

    targets = ["--targets", arguments.targets]
    ours = arguments.methods.split(",")[0]
    planner = Planner(arguments, passed)
    known = ["--from-stats", planner.statistics]
    first = known if os.path.exists(planner.statistics) else [
        "--save-stats", planner.statistics, "--labels", arguments.labels]
    planner.add("rules", None, targets + first + [
        "--methods", arguments.methods, "--svg", os.path.join(arguments.out, "curve.svg")])
    for draw in range(arguments.draws):
        planner.add(f"random{draw}", "random",
                    targets + known + ["--methods", "random", "--seed", str(draw)])
    for variant in arguments.variant:
        name, _, options = variant.partition("=")
        options = shlex.split(options)
        anew = any(o in options for o in ("--options", "--measure-batches", "--labels"))
        planner.add(name, name, targets + ([] if anew else known) + ["--methods", ours] + options)

    budgets = [float(t) for t in arguments.targets.split(",")]
    text = table(planner.rows, budgets, planner.base) + "\n"
    for name in [ours] + [v.partition("=")[0] for v in arguments.variant]:
        text += "\n".join(summary(planner.rows, budgets, name)) + "\n"
    with open(os.path.join(arguments.out, "results.json"), "w", encoding="utf-8") as out:
        json.dump({"gaps": planner.rows, "bf16": planner.base, "runs": planner.runs}, out, indent=1)
    with open(os.path.join(arguments.out, "table.md"), "w", encoding="utf-8") as out:
        out.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
