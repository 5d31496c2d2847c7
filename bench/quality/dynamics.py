#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""How the plan of a run moved, and what planning cost it.

    dynamics.py RUN_DIR...

For every run two tables: the share of FP4 in the FLOPs of each type of layer and in each third of
the blocks, plan by plan, with the GEMMs that changed their recipe; and the time that planning took.
A recipe counts as FP4 when it holds 4-bit operands (its bits stand in the run's own plan files).
"""

import argparse
import glob
import json
import os

SLOTS = ("fprop", "dgrad", "wgrad")
FOUR_BITS = ("fp4", "mxfp4", "nvfp4", "int4")


def recipes_of(plan, name):
    """Recipe of each GEMM of a layer."""
    entry = plan["layers"].get(name, plan["fallback"])
    return [entry] * 3 if isinstance(entry, str) else [entry[slot] for slot in SLOTS]


def is_four_bits(recipe):
    return recipe.split(".")[0] in FOUR_BITS


def shares(plan, layers, groups):
    """FP4 share of the FLOPs in each group of layers."""
    low, total = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, 0.0)
    for layer in layers:
        work = layer["in_features"] * layer["out_features"]
        four = sum(is_four_bits(recipe) for recipe in recipes_of(plan, layer["name"])) / 3
        for group, members in groups.items():
            if layer["name"] in members:
                low[group] += work * four
                total[group] += work
    return [low[group] / total[group] for group in groups]


def groups_of(layers):
    """Layers by their type, and by the third of the blocks that they are in."""
    groups, blocks = {}, {}
    for layer in layers:
        parts = layer["name"].split(".")
        groups.setdefault(parts[-1].removesuffix("_proj"), set()).add(layer["name"])
        blocks[layer["name"]] = next((int(part) for part in parts if part.isdigit()), 0)
    count = 1 + max(blocks.values())
    for third, title in enumerate(("first third", "middle", "last third")):
        members = {name for name, block in blocks.items() if 3 * block // count == third}
        if members:
            groups[title] = members
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN_DIR")
    for run in parser.parse_args().runs:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        layers = [layer for layer in summary["layers"] if layer["candidate"]]
        groups = groups_of(layers)
        print(f"{run}\n\n| step | FP4 | " + " | ".join(groups) + " | GEMMs changed |")
        print("|---" * (3 + len(groups)) + "|")
        everything = {"all": {layer["name"] for layer in layers}}
        before = None
        for path in sorted(glob.glob(os.path.join(run, "plans", "step_*.json"))):
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            plan = content.get("plan", content)
            now = [recipe for layer in layers for recipe in recipes_of(plan, layer["name"])]
            changed = "" if before is None else sum(a != b for a, b in zip(now, before))
            before = now
            cells = shares(plan, layers, everything) + shares(plan, layers, groups)
            step = int(os.path.basename(path)[len("step_"):-len(".json")])
            print(f"| {step} | " + " | ".join(f"{cell:.0%}" for cell in cells) + f" | {changed} |")
        share = summary["overhead_share"]
        print(f"\n{summary['plans']} plans in {summary['train_seconds']:.0f} s of training: "
              f"statistics {summary['statistics_seconds']:.2f} s, "
              f"passes {summary['probe_seconds']:.2f} s, "
              f"waiting for solutions {summary['wait_seconds']:.2f} s: {share:.2%}; peak memory "
              f"{summary['peak_memory_bytes'] / 2**20:.0f} MiB\n")


if __name__ == "__main__":
    main()
