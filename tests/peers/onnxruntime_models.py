#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models under ONNX Runtime's CUDA provider on one GPU, in f32 without TF32, to compare with `fusec bench` of the same models.

  python3 tests/peers/onnxruntime_models.py OUT.json --models resnet50,bert_base [--batch 1] [--fusec FOLDER]

Milliseconds a batch: median of runs that each end with a wait for the device. Inputs and outputs stay on the GPU; the provider searches
all algorithms of a convolution and replays a CUDA graph where it can capture one. Each output is compared with the CPU provider's.
--fusec FOLDER prints the times of NAME.f32xB.json there, as `fusec bench MODEL --json` wrote them, and the ratio to ours."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime
from onnxruntime_check import random_inputs, relative_l2

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
LIMIT = 1e-3  # of the relative L2 error beside the CPU provider


def session_of(path, providers):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=providers)


def on_gpu(path, inputs, reference, graph):
    """A function that runs the model once with inputs and outputs on the GPU, and the outputs."""
    options = {"cudnn_conv_algo_search": "EXHAUSTIVE", "use_tf32": "0", "enable_cuda_graph": "1" if graph else "0"}
    session = session_of(path, [("CUDAExecutionProvider", options), "CPUExecutionProvider"])
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider could not be loaded")
    binding = session.io_binding()
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(values), "cuda", 0) for values in reference]
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(values, "cuda", 0) for values in inputs.values()]
    for name, value in zip(inputs, held):
        binding.bind_ortvalue_input(name, value)
    for spec, value in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(spec.name, value)

    def run():
        session.run_with_iobinding(binding)
        return held  # lives as long as the function
    for _ in range(3):  # the first run captures the graph
        run()
    return run, outputs


def milliseconds(run, seconds=1.0):
    times, start = [], time.perf_counter()
    while len(times) < 20 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return 1e3 * statistics.median(times)


def measure(name, batch, fusec, folder):
    """The row of a model."""
    path = folder / f"{name}.onnx"
    subprocess.run([fusec, "materialize", str(MODELS / f"{name}.onnx"), "-o", str(path), "--random-weights", "1"],
                   check=True, stdout=subprocess.DEVNULL)
    session = session_of(path, ["CPUExecutionProvider"])
    inputs = random_inputs(session, batch)
    reference = session.run(None, inputs)
    row = {"model": name, "cell": f"f32x{batch}"}
    for graph in (True, False):
        try:
            run, outputs = on_gpu(path, inputs, reference, graph)
        except Exception as error:  # a model that cannot be captured is timed without a graph
            row["graph_error"] = str(error).strip().splitlines()[-1][:200]
            continue
        row.update(ms=milliseconds(run), graph=graph,
                   error=max(relative_l2(got.numpy(), want) for got, want in zip(outputs, reference)))
        break
    path.unlink()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="the file of rows, JSON")
    parser.add_argument("--models", required=True, help="names, with commas")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--fusec", type=pathlib.Path, help="folder of our times")
    parser.add_argument("--program", default="fusec", help="the fusec that fills models with weights")
    args = parser.parse_args()
    print("ONNX Runtime", onnxruntime.__version__)
    rows, failed = [], False
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(name, args.batch, args.program, pathlib.Path(folder))
        ours = args.fusec / f"{name}.{row['cell']}.json" if args.fusec else None
        if ours and ours.exists() and "ms" in row:
            row["fusec"] = json.loads(ours.read_text())["median_ms"]
            row["ratio"] = row["ms"] / row["fusec"]
        failed |= "ms" not in row or not row["error"] < LIMIT
        rows.append(row)
        print(json.dumps(row), flush=True)
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
