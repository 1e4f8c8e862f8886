#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Core cycles per 16 elements of functions and conversions: fusec's kernels beside loops with intrinsics (cpu_math.cpp).

  python3 tests/peers/cpu_math.py build/release/bin/fusec [--rounds 3]

Needs a c++ that knows this machine's instructions. Prints a row per function: fusec, by hand, their ratio, the error of the loop
in ulp. Both are the least of many trials on one thread with data in a cache, and of `--rounds` rounds in turn."""
import argparse
import json
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def graph(name):
    op, source, *to = name.split("_")
    shape = "[64, 16384]"
    if op == "cast":
        line = f"%0 = cast %x {{to = {to[0]}}}: {to[0]}{shape}"
    else:
        line = f"%0 = {op} %x: {source}{shape}"
    return f'graph @main(%x: {source}{shape}) {{\n  {line}\n  return %0 as "z"\n}}\n'


def by_hand(program):
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: (float(cycles), float(ulp)) for name, cycles, ulp in map(str.split, lines)}


def generated(fusec, folder):
    done = subprocess.run([fusec, "bench", "--patterns", folder, "--device", "cpu", "--threads", "1", "--cycles", "--runs", "1", "--json"],
                          capture_output=True, text=True, check=True)
    return {row["pattern"]: row["cycles_per_16"] for row in json.loads(done.stdout)["patterns"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fusec")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    wide = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/cpu_math"
        level = "x86-64-v4" if wide else "x86-64-v3"
        subprocess.run(["c++", "-std=c++20", "-O3", f"-march={level}", str(HERE / "cpu_math.cpp"), "-o", program], check=True)
        graphs = pathlib.Path(folder, "graphs")
        graphs.mkdir()
        hand, ours = by_hand(program), {}
        for name in hand:
            (graphs / f"{name}.fir").write_text(graph(name))
        for _ in range(args.rounds):
            for name, cycles in generated(args.fusec, graphs).items():
                ours[name] = min(cycles, ours.get(name, cycles))
            for name, (cycles, ulp) in by_hand(program).items():
                hand[name] = (min(cycles, hand[name][0]), ulp)
    print(f"cycles per 16 elements, {level}\n{'':16s} fusec  hand  ratio  ulp by hand")
    for name, (cycles, ulp) in hand.items():
        print(f"{name:16s} {ours[name]:5.1f} {cycles:5.1f}  {ours[name] / cycles:5.2f}  {ulp:.2f}")


if __name__ == "__main__":
    main()
