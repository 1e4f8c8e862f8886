#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""launches.py FUSEC MODEL...: launches of each model on a GPU beside a CPU's, and what each one more is for, as a table.

A generated region of the GPU counts as one more when the CPU has no region that begins with the same op of the same node;
fewer library calls or regions are counted against them. Nothing is run and no GPU is needed: the two partitions are compared.
"""
import collections
import pathlib
import re
import subprocess
import sys

REGION = re.compile(r"^region r\d+ (kernel|library) \{\n((?:.*\n)*?)\}", re.M)
NODE = re.compile(r"^  %\S+ = (\w+) .*?// (.*)$", re.M)


def regions(fusec, model, target):
    """[(kind, op, origin)] of the first node of each region"""
    text = subprocess.run([fusec, "partition", model, "--random-weights", "0", "--target", target], check=True,
                          capture_output=True, text=True).stdout
    out = []
    for kind, body in REGION.findall(text):
        op, origin = NODE.search(body).groups()
        out.append((kind, op, origin))
    return out


def main():
    fusec, models = sys.argv[1], sys.argv[2:]
    print("| model | CPU | GPU | more | less |\n|---|---|---|---|---|")
    for model in models:
        cpu, gpu = regions(fusec, model, "x86-64-v3"), regions(fusec, model, "sm_90")
        more = collections.Counter(gpu) - collections.Counter(cpu)
        less = collections.Counter(cpu) - collections.Counter(gpu)

        def ops(counter):
            by_op = collections.Counter()
            for (kind, op, _), n in counter.items():
                by_op[op if kind == "kernel" else f"{op} (library)"] += n
            return ", ".join(f"{n} {op}" for op, n in sorted(by_op.items(), key=lambda item: -item[1])) or "-"

        print(f"| {pathlib.Path(model).stem} | {len(cpu)} | {len(gpu)} | {ops(more)} | {ops(less)} |")


main()
