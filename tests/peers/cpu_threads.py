#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models on the CPU by number of threads and batch, fusec and ONNX Runtime in turn, same weights and inputs' shapes.

ONNX Runtime is no dependency of the project (tests/peers/onnxruntime_check.py says how to get it); without it fusec alone is timed.

  python3 tests/peers/cpu_threads.py --models tests/models --threads 1,2,4,8,16 --batches 1,16 --json threads.json

Prints a row per model, batch and number of threads: medians in ms, and notes where more threads are slower than fewer by over 5 %."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

ROOT = pathlib.Path(__file__).resolve().parents[2]


def numbers(text):
    return [int(part) for part in text.split(",")]


def fusec_times(args, fusec, model, threads):
    """{batch: median ms}; one process, one Engine."""
    command = [fusec, "bench", str(model), "--device", "cpu", "--threads", str(threads), "--batch", ",".join(map(str, args.batches)),
               "--warmup", "1", "--duration", str(args.seconds), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        return {batch: float("nan") for batch in args.batches}
    result = json.loads(done.stdout)
    rows = result.get("batches") or [{"batch": args.batches[0], **result}]
    return {row["batch"]: row["median_ms"] for row in rows}


def peer_times(args, model, threads):
    if onnxruntime is None:
        return {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    times = {}
    for batch in args.batches:
        inputs = {}
        for spec in session.get_inputs():
            shape = [d if isinstance(d, int) else batch for d in spec.shape]
            integers = "int" in spec.type
            inputs[spec.name] = rng.integers(0, 1000, shape) if integers else rng.standard_normal(shape).astype(np.float32)
        session.run(None, inputs)
        samples, end = [], time.perf_counter() + args.seconds
        while len(samples) < 2 or time.perf_counter() < end:
            start = time.perf_counter()
            session.run(None, inputs)
            samples.append(1e3 * (time.perf_counter() - start))
        times[batch] = statistics.median(samples)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of models in --models; default: all")
    parser.add_argument("--fusec", action="append", help="a command to time; may be given several times")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "tests/models")
    parser.add_argument("--threads", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--batches", type=numbers, default=[1, 16])
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring a cell")
    parser.add_argument("--no-peer", action="store_true", help="time fusec alone")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    commands = args.fusec or [str(ROOT / "build/release/bin/fusec")]
    peer = onnxruntime is not None and not args.no_peer
    labels = [f"fusec {i}" if len(commands) > 1 else "fusec" for i in range(len(commands))]
    if peer:
        labels.append(f"onnxruntime {onnxruntime.__version__}")
    print(f"| model | batch | threads | {' | '.join(labels)} |\n|---|---|---|{'---|' * len(labels)}", flush=True)
    rows = []
    for model in [args.models / f"{name}.onnx" for name in args.names] or sorted(args.models.glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            whole = pathlib.Path(folder) / "whole.onnx"
            subprocess.run([commands[0], "materialize", str(model), "-o", str(whole), "--random-weights", "0"],
                           check=True, stdout=subprocess.DEVNULL)
            for threads in args.threads:
                columns = [fusec_times(args, command, whole, threads) for command in commands]
                if peer:
                    columns.append(peer_times(args, whole, threads))
                for batch in args.batches:
                    rows.append({"model": model.stem, "batch": batch, "threads": threads,
                                 "ms": [round(column[batch], 3) for column in columns]})
        of_model = sorted((row for row in rows if row["model"] == model.stem), key=lambda row: (row["batch"], row["threads"]))
        for row in of_model:
            fewer = [r["ms"][0] for r in of_model if r["batch"] == row["batch"] and r["threads"] < row["threads"]]
            note = " slower than fewer threads" if fewer and row["ms"][0] > 1.05 * min(fewer) else ""
            print(f"| {row['model']} | {row['batch']} | {row['threads']} | {' | '.join(f'{ms:.3f}' for ms in row['ms'])} |{note}", flush=True)
        if args.json:
            args.json.write_text(json.dumps({"columns": labels, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
