#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whole models through the execution provider and compares every output with ONNX Runtime's CPU provider; prints what was taken and the
times of both, which say something only on a machine that does nothing else.

usage: python3 tests/python/onnxruntime_models.py [--batch N] [--threads N] [--rounds N] [NAME ...]
       python3 tests/python/onnxruntime_models.py --overhead [--max-us 20]    what a run costs beside that of the engine

Weights are random and the same for both (fusec materialize). Models that are not there are left out. Exit code 1 if an output differs, a model
with all ops in fusec is not taken whole, or the overhead is above --max-us.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnxruntime_support import F32, assigned, helper, make_model, open_reference, open_session

import fusec

ROOT = Path(__file__).resolve().parents[2]
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}
TOKENS = 1000  # integers are below this: every model's vocabulary is larger


def random_feed(session, batch):
    random = np.random.default_rng(0)
    feed = {}
    for spec in session.get_inputs():
        shape = [dim if isinstance(dim, int) else batch for dim in spec.shape]
        dtype = DTYPES[spec.type]
        values = random.standard_normal(shape) if dtype == np.float32 else random.integers(0, 2 if dtype == np.bool_ else TOKENS, shape)
        feed[spec.name] = values.astype(dtype)
    return feed


def error(got, want):
    """The relative L2 norm of the difference."""
    if got.shape != want.shape or not np.isfinite(want).all():
        return float("inf")
    return float(np.linalg.norm(got.astype(np.float64) - want) / max(np.linalg.norm(want.astype(np.float64)), 1e-30))


def least(call, rounds):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def check_model(path, folder, arguments):
    whole = folder / path.name
    subprocess.run([arguments.fusec, "materialize", path, "-o", whole], check=True, stdout=subprocess.DEVNULL)
    start = time.perf_counter()
    reference = open_reference(whole, arguments.threads)
    reference_ms = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    session, report = open_session(whole, threads=arguments.threads)
    session_ms = (time.perf_counter() - start) * 1e3
    feed = random_feed(reference, arguments.batch)
    worst = max(error(got, want) for got, want in zip(session.run(None, feed), reference.run(None, feed)))
    ops = assigned(session)
    took = least(lambda: session.run(None, feed), arguments.rounds) * 1e3
    before = least(lambda: reference.run(None, feed), arguments.rounds) * 1e3
    print(f"{path.stem:24} {report.taken:4} of {report.nodes:4} nodes, {report.pieces:2} piece(s)  error {worst:.1e}  fusec {took:8.2f} ms  "
          f"CPU {before:8.2f} ms  {before / took:5.2f} x  session {session_ms:6.0f} ms, CPU {reference_ms:5.0f} ms", flush=True)
    if report.taken != report.nodes:
        print(f"  {report.line}")
    whole.unlink()
    return worst < 1e-3 and (ops is None or len(ops) == report.taken) and report.taken == report.nodes


def overhead(arguments):
    """Ten tensors of eight elements: what a run costs in a session, less that of a session of the CPU provider that does nothing, and less that
    of the engine."""
    names = [f"x{index}" for index in range(8)]
    nodes = [helper.make_node("Mul", [names[2 * i], names[2 * i + 1]], [f"m{i}"]) for i in range(4)]
    nodes += [helper.make_node("Add", ["m0", "m1"], ["y0"]), helper.make_node("Add", ["m2", "m3"], ["y1"])]
    model = make_model(nodes, [(name, F32, [8]) for name in names], [("y0", F32, [8]), ("y1", F32, [8])])
    session, report = open_session(model)
    assert report.taken == report.nodes and report.pieces == 1, report.line
    feed = {name: np.ones(8, np.float32) for name in names}
    same = [helper.make_node("Identity", [names[i]], [f"y{i}"]) for i in range(2)]
    empty = open_reference(make_model(same, [(name, F32, [8]) for name in names], [("y0", F32, [8]), ("y1", F32, [8])]))
    engine = fusec.compile(model.SerializeToString())
    inputs = [feed[spec.name] for spec in engine.inputs]

    def us(call):
        return least(lambda: [call() for _ in range(100)], 100) / 100 * 1e6
    whole, nothing, inside = us(lambda: session.run(None, feed)), us(lambda: empty.run(None, feed)), us(lambda: engine.run(*inputs))
    print(f"a run of ten tensors: {whole:.1f} us in a session with fusec, {nothing:.1f} us in one of the CPU provider that copies two; the engine "
          f"from Python takes {inside:.1f} us")
    cost = whole - nothing
    print(f"fusec adds {cost:.1f} us, with the run of the engine")
    return cost <= arguments.max_us


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="of both; 0: as each likes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fusec", type=Path, default=ROOT / "build" / "release" / "bin" / "fusec")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--max-us", type=float, default=float("inf"))
    arguments = parser.parse_args()
    if arguments.overhead:
        return 0 if overhead(arguments) else 1
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((ROOT / "tests" / "models").glob("*.onnx")):
            if not path.exists() or (arguments.names and path.stem not in arguments.names):
                continue
            good = check_model(path, Path(folder), arguments) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
