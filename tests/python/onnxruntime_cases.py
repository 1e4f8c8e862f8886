# SPDX-License-Identifier: Apache-2.0
"""Runs the node tests of ONNX (Debian's libonnx-testdata) through the execution provider and compares with ONNX Runtime's CPU provider, which runs
what fusec leaves.

usage: onnxruntime_cases.py [--every N] [NAME ...]    prints each case that fails; exit 1 if there is one
"""
import argparse
import sys
from pathlib import Path

import numpy as np
import onnxruntime_support as support
from onnxruntime_support import assigned, difference, numpy_helper, open_reference, open_session

import onnx

FOLDER = Path("/usr/share/libonnx-testdata/data/node")
RANDOM = "test_bernoulli"


def read_inputs(folder, names):
    """{name: array}, or None where an input is no tensor."""
    feed = {}
    for index, name in enumerate(names):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString((folder / f"input_{index}.pb").read_bytes())
            feed[name] = numpy_helper.to_array(tensor)
        except Exception:
            return None
    return feed


def check(folder):
    """("passed", report), ("left", why) where ONNX Runtime itself cannot run the case, or ("failed", why)."""
    model = folder / "model.onnx"
    try:
        reference = open_reference(model)
        feed = read_inputs(folder / "test_data_set_0", [value.name for value in reference.get_inputs()])
        if feed is None:
            return "left", "an input is no tensor"
        wanted = reference.run(None, feed)
    except Exception as fault:
        return "left", str(fault)
    try:
        session, report = open_session(model)
        got = session.run(None, feed)
    except Exception as fault:
        return "failed", str(fault)
    ops = assigned(session)
    if ops is not None and len(ops) != report.taken:
        return "failed", f"ONNX Runtime says {ops}, the report {report.line}"
    if any(not isinstance(value, np.ndarray) for value in wanted):
        return "left", "an output is no tensor"
    fault = difference(got, wanted)
    return ("passed", report) if fault is None else ("failed", f"{fault}; {report.line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    folders = sorted(folder for folder in FOLDER.glob("test_*") if not folder.name.startswith(RANDOM) and (not arguments.names or folder.name in arguments.names))
    if not folders:
        print(f"{FOLDER} has no cases: libonnx-testdata is not installed")
        return 0
    counts = {"passed": 0, "left": 0, "failed": 0}
    whole = 0
    for folder in folders[:: arguments.every]:
        kind, what = check(folder)
        counts[kind] += 1
        whole += kind == "passed" and what.taken == what.nodes > 0
        if kind == "failed":
            print(f"{folder.name}: {what}", flush=True)
    print(f"node tests in ONNX Runtime {support.ort.__version__}: {counts['passed']} passed, {whole} of them with all nodes in fusec; "
          f"{counts['left']} that ONNX Runtime does not run or that are no tensors; {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
