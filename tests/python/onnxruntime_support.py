# SPDX-License-Identifier: Apache-2.0
"""What the tests of the execution provider share. Importing it without ONNX Runtime skips the tests that import it."""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

try:
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise unittest.SkipTest("ONNX Runtime or onnx is not installed; ./dev setup --python installs them") from None

sys.path.append(str(Path(__file__).resolve().parents[2] / "bindings" / "onnxruntime" / "python"))
import onnxruntime_ep_fusec as provider

VERSION = tuple(int(part) for part in ort.__version__.split(".")[:2])
OPSET = 17
IR_VERSION = 8
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

ort.register_execution_provider_library("fusec", provider.get_library_path())
DEVICES = [device for device in ort.get_ep_devices()
           if device.ep_name == provider.get_ep_name() and device.ep_metadata["device"] == "cpu"]


class Stderr:
    """What anybody of the process writes to stderr."""

    def __enter__(self):
        self._file = tempfile.TemporaryFile()
        sys.stderr.flush()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        self.text = self._file.read().decode(errors="replace")
        self._file.close()

    def reports(self):
        """The lines of the provider, without what ONNX Runtime puts around them."""
        return re.findall(r"fusec\] fusec: (.*?)(?:\x1b\[m)?\n", self.text)


class Report:
    """The line that says what was taken."""

    def __init__(self, line):
        self.line = line
        numbers = re.match(r"(\d+) of (\d+) nodes run in (\d+) pieces?, (\d+) kernels were compiled", line)
        self.taken, self.nodes, self.pieces, self.kernels = (int(number) for number in numbers.groups())


def make_model(nodes, inputs, outputs, weights=None, opset=OPSET, domains=()):
    """inputs and outputs: [(name, element type, shape)]. weights: {name: array}."""
    def values(specs):
        return [helper.make_tensor_value_info(*spec) for spec in specs]
    initializers = [numpy_helper.from_array(np.asarray(data), name) for name, data in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), initializers)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name="n_" + outputs.split()[0], **attributes)


def as_source(model):
    return str(model) if isinstance(model, (str, Path)) else model.SerializeToString()


def session_options(entries=None, severity=1, **options):
    settings = ort.SessionOptions()
    settings.log_severity_level = severity
    if VERSION >= (1, 24):
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    settings.add_provider_for_devices(DEVICES, {key.replace("_", "-"): str(value) for key, value in options.items()})
    return settings


def open_session(model, entries=None, **options):
    """A session with the provider, and its last Report: there is a second one where ONNX Runtime puts the bodies of functions in their
    place, and none where it computed the whole model."""
    with Stderr() as stderr:
        session = ort.InferenceSession(as_source(model), session_options(entries, **options), enable_fallback=0)
    lines = stderr.reports()
    assert len(lines) <= 2, (lines, stderr.text)
    return session, Report(lines[-1] if lines else "0 of 0 nodes run in 0 pieces, 0 kernels were compiled")


def open_reference(model, threads=0):
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = threads
    return ort.InferenceSession(as_source(model), settings, providers=["CPUExecutionProvider"])


def assigned(session):
    """The ops that ONNX Runtime says the provider has, sorted; None where this release does not tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    return sorted(part.op_type for info in session.get_provider_graph_assignment_info() if info.ep_name == "fusec"
                  for part in info.get_nodes())


def difference(got, want):
    """Why two lists of outputs differ, or None. Floats may differ by rounding."""
    for index, (a, b) in enumerate(zip(got, want)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {index} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        if a.dtype.kind == "f" or a.dtype.name == "bfloat16":
            digits = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9}.get(a.dtype.name, 2e-4)
            x, y = a.astype(np.float64), b.astype(np.float64)
            scale = np.max(np.abs(y), initial=0, where=np.isfinite(y))
            if not np.allclose(x, y, rtol=digits, atol=digits * max(scale, 1e-6), equal_nan=True):
                return f"output {index} is off by {np.nanmax(np.abs(x - y))} of {scale}"
        elif not np.array_equal(a, b):
            return f"output {index} differs"
    return None
