# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""bench/quality/rules.py with the built program: every rule, per layer and per GEMM.

    rules_test.py SUBBYTE
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv[1]
METHODS = ["snip", "min-abs-err", "min-rel-err", "layer-type", "layer-id", "norm-only",
           "first-order", "second-order", "gradient-output", "fisher", "hessian-trace", "taylor"]
TARGETS = [0.3, 0.8]
CONFIG = """
[model]
hidden_size = 32
intermediate_size = 64
layers = 2
heads = 2
[data]
path = "text.txt"
tokenizer = "bytes"
[train]
steps = 3
batch_size = 4
seq_len = 32
eval_every = 0
[run]
dir = "run"
[checkpoint]
every = 3
"""


def rules(folder, out, *options):
    """The results.json and the plans of a call."""
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "quality" / "rules.py", "run/checkpoints/latest",
         "--data", "text.txt", "--targets", ",".join(str(t) for t in TARGETS),
         "--methods", ",".join(METHODS), "--draws", "2", "--batch-size", "4", "--seq-len", "32",
         "--batches", "1", "--program", PROGRAM, "--out", out, *options],
        cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "naive rules: median" in done.stdout, done.stdout
    with open(folder / out / "results.json", encoding="utf-8") as file:
        results = json.load(file)
    plans = {path.stem: json.loads(path.read_text(encoding="utf-8"))
             for path in (folder / out / "plans").iterdir()}
    return results, plans


def mixed(plan):
    """Layers whose GEMMs differ."""
    return sum(isinstance(recipe, dict) for recipe in plan["layers"].values())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "run.toml").write_text(CONFIG, encoding="utf-8")
        (folder / "text.txt").write_text(
            "".join(f"line {i * 7919 % 1000} of the text\n" for i in range(3000)), encoding="utf-8")
        subprocess.run([PROGRAM, "train", "run.toml"], cwd=folder, check=True, capture_output=True)

        for granularity in ("layer", "gemm"):
            results, plans = rules(folder, granularity, "--", "--granularity", granularity)
            assert sorted(results["gaps"]) == sorted(METHODS + ["random"]), results["gaps"].keys()
            for method, gaps in results["gaps"].items():
                for target in TARGETS:
                    assert len(gaps[str(target)]) == (2 if method == "random" else 1), gaps
            # Statistics are taken once: what the plans reach is what was asked for.
            for run in results["runs"].values():
                for entry in run["plans"]:
                    assert entry["reached"] >= entry["target"] * (1 - 1e-9), entry
            for plan_name, plan in plans.items():
                by_layers = granularity == "layer" or plan_name.startswith("layer-")
                if by_layers:
                    assert mixed(plan) == 0, (granularity, plan_name)
                elif plan_name.endswith("-30"):
                    assert mixed(plan) > 0, (granularity, plan_name)

        results, _ = rules(folder, "drawn", "--labels", "sampled",
                           "--variant", "searched=--refine 4 --granularity gemm")
        assert len(results["gaps"]["searched"]) == len(TARGETS)


main()
