#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""subbyte's training step beside PyTorch's: time, tokens per second, peak memory, loss.

    compare.py [--model M] [--batch B] [--seq L] [--threads N] [--recipes R,...] [--heads H,...]
               [--rounds N] [--program SUBBYTE] [--python PYTHON] [--quick] [--json FILE]

Every contender runs in a process of its own, in turns. PyTorch runs as it is and "tuned", with the
C library told to keep freed memory (subbyte does that itself). Ratios are medians over the rounds.
--quick leaves PyTorch's autocast out, and PyTorch as it is.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "268435456",
}


def run(command, tuned):
    environment = dict(os.environ, **(TUNED if tuned else {}))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def python_with_torch():
    """The Python that scripts/setup.sh filled, or the one that it was told of."""
    installed = os.path.join(ROOT, ".venv", "bin", "python")
    fallback = installed if os.path.exists(installed) else sys.executable
    return os.environ.get("SUBBYTE_PYTHON", fallback)


def contenders(arguments):
    """(name, command, tuned) of everybody; the first is the measure of the others."""
    common = ["--batch", str(arguments.batch), "--seq", str(arguments.seq)]
    if arguments.threads:
        common += ["--threads", str(arguments.threads)]
    torch = [arguments.python, os.path.join(HERE, "torch_step.py"), arguments.model]
    for precision in ("fp32", "bf16") if arguments.quick else ("fp32", "autocast", "bf16"):
        for tuned in (True,) if arguments.quick else (True, False):
            name = f"PyTorch {precision}" + (", tuned" if tuned else "")
            steps = ["--precision", precision, "--steps", str(arguments.steps)]
            yield name, torch + common + steps, tuned
    for recipe in arguments.recipes.split(","):
        for head in arguments.heads.split(","):
            yield f"subbyte {recipe}, head {head}", [
                arguments.program, "bench", "step", "--model", arguments.model, "--json",
                "--recipe", recipe, "--head", head, "--alone", "--rounds", str(arguments.steps),
                "--seconds", "0",
            ] + common, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama-9m")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--recipes", default="fp4,int8,fp8")
    parser.add_argument("--heads", default="bf16,int8")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "subbyte"))
    parser.add_argument("--python", default=python_with_torch(), help="its torch is measured")
    parser.add_argument("--quick", action="store_true", help="fewer PyTorch runs")
    parser.add_argument("--json", help="also write all figures to this file")
    arguments = parser.parse_args()

    everybody = list(contenders(arguments))
    results = {name: [] for name, _, _ in everybody}
    for _ in range(arguments.rounds):
        for name, command, tuned in everybody:
            results[name].append(run(command, tuned))

    def seconds(name):
        return [r["seconds"] for r in results[name]]

    def ratio(name, other):
        return statistics.median(b / a for a, b in zip(seconds(name), seconds(other)))

    tuned_bf16 = {"PyTorch autocast, tuned", "PyTorch bf16, tuned"}.intersection(results)
    bf16 = min(tuned_bf16, key=lambda n: min(seconds(n)))
    shape = f"{arguments.model}, batch {arguments.batch} x {arguments.seq}"
    print(f"{shape}; x: times faster than PyTorch fp32, tuned / the better tuned BF16")
    print(f"{'':26}{'s/step':>9}{'tokens/s':>10}{'x fp32':>8}{'x bf16':>8}{'peak MB':>9}{'loss':>8}")
    for name, _, _ in everybody:
        last = results[name][-1]
        print(
            f"{name:26}{statistics.median(seconds(name)):9.3f}"
            f"{statistics.median(r['tokens_per_second'] for r in results[name]):10.0f}"
            f"{ratio(name, 'PyTorch fp32, tuned'):8.2f}{ratio(name, bf16):8.2f}"
            f"{last['peak_bytes'] / 1e6:9.0f}{last['loss']:8.3f}"
        )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"model": arguments.model, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
