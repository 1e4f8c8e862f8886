#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares fusec with ONNX Runtime on whole models: the same weights, the same inputs, every output.

ONNX Runtime is no dependency of the project; put it into an environment to throw away:

  python3 -m venv /tmp/peer && /tmp/peer/bin/pip install onnxruntime
  /tmp/peer/bin/python tests/peers/onnxruntime_check.py

Prints a row per model; exit code 1 when an output differs by more than the limit or says nothing (constant, not finite).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
TOKENS = 1000  # integers are below this: every model's vocabulary is larger


def random_inputs(session, batch):
    """Standard normal floats, tokens for integers; a symbolic extent is the batch."""
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in session.get_inputs():
        shape = [d if isinstance(d, int) else batch for d in spec.shape]
        dtype = DTYPES[spec.type]
        values = rng.standard_normal(shape) if dtype == np.float32 else rng.integers(0, TOKENS, shape)
        inputs[spec.name] = values.astype(dtype)
    return inputs


def run_fusec(fusec, model, inputs, folder, *flags):
    """The outputs by name."""
    command = [fusec, "run", str(model), "--output-dir", str(folder), "--json", *flags]
    for name, values in inputs.items():
        file = folder.parent / f"input_{len(command)}.npy"
        np.save(file, values)
        command += ["--input", f"{name}=@{file}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {path.stem: np.load(path) for path in folder.iterdir()}


def relative_l2(got, want):
    if got.shape != want.shape:
        return float("inf")
    if not np.issubdtype(want.dtype, np.floating):
        return 0.0 if np.array_equal(got, want) else float("inf")
    if not np.isfinite(want).all() or want.std() < 1e-6:
        return float("nan")  # a reference that says nothing
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want.astype(np.float64)))


def worst(outputs, reference):
    return max((relative_l2(outputs[name], want) for name, want in reference.items()), key=lambda e: (e != e, e))


def reference_outputs(path, batch):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = random_inputs(session, batch)
    names = [spec.name for spec in session.get_outputs()]
    return inputs, dict(zip([n.replace("/", "_").replace(":", "_") for n in names], session.run(names, inputs)))


def check(model, args, folder):
    """One row: the model and its errors, compiled and evaluated."""
    whole = folder / "whole.onnx"
    subprocess.run([args.fusec, "materialize", str(model), "-o", str(whole), "--random-weights", str(args.seed)],
                   check=True, stdout=subprocess.DEVNULL)
    inputs, reference = reference_outputs(whole, args.batch)
    errors = [worst(run_fusec(args.fusec, whole, inputs, folder / "compiled", "--no-cache"), reference)]
    if not args.no_evaluator:
        errors.append(worst(run_fusec(args.fusec, whole, inputs, folder / "evaluated", "--evaluator"), reference))
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of models in --models; default: all")
    parser.add_argument("--fusec", default=str(ROOT / "build/release/bin/fusec"))
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "tests/models")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--limit", type=float, default=1e-4)
    parser.add_argument("--no-evaluator", action="store_true", help="compare compiled code only")
    args = parser.parse_args()
    version = subprocess.run([args.fusec, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{version} against ONNX Runtime {onnxruntime.__version__} (CPU), batch {args.batch}, "
          f"weights from seed {args.seed}, limit {args.limit:g}\n")
    print("| model | compiled, rel. L2 | evaluator, rel. L2 | |\n|---|---|---|---|")
    good = True
    for model in [args.models / f"{name}.onnx" for name in args.names] or sorted(args.models.glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            errors = check(model, args, pathlib.Path(folder))
        ok = all(e <= args.limit for e in errors)
        good = good and ok
        shown = [f"{e:.2g}" for e in errors] + ["-"] * (2 - len(errors))
        print(f"| {model.stem} | {shown[0]} | {shown[1]} | {'ok' if ok else 'DIFFERS'} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
