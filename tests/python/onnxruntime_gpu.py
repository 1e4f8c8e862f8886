#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The execution provider for ONNX Runtime on a GPU. Needs numpy, onnxruntime, the library of the provider and libfusec-c beside it, and
nothing else of the repository, so that it can be carried to a machine with a card. Without a GPU the tests are skipped.

usage: python3 onnxruntime_gpu.py [libonnxruntime_ep_fusec.so] [Gpu.test_... ...]
The library is that of the folder FUSEC_LIBRARY if none is named.
"""
import gc
import json
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import onnxruntime as ort

NVIDIA = 0x10DE
FLOAT, INT64 = 1, 7
VERSION = tuple(int(part) for part in ort.__version__.split(".")[:2])


# A writer of ONNX models: the package onnx need not be there. Fields are pairs of a number and a value of the protobuf message.
def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value_info(name, element, dims):
    shape = message(*[(1, message((2 if isinstance(dim, str) else 1, dim))) for dim in dims])
    return message((1, name), (2, message((1, message((1, element), (2, shape))))))


def node(op, inputs, outputs, **attributes):
    texts = [(5, message((1, name), (3, value), (20, 2))) for name, value in attributes.items()]
    return message(*[(1, name) for name in inputs.split()], *[(2, name) for name in outputs.split()], (3, "n_" + outputs.split()[0]), (4, op), *texts)


def make_model(nodes, inputs, outputs, weights):
    """inputs and outputs: [(name, extents)], of floats. weights: {name: array}."""
    def tensor(name, data):
        element = FLOAT if data.dtype == np.float32 else INT64
        return message(*[(1, dim) for dim in data.shape], (2, element), (8, name), (9, data.tobytes()))
    graph = message(*[(1, part) for part in nodes], (2, "g"), *[(5, tensor(name, data)) for name, data in weights.items()],
                    *[(11, value_info(name, FLOAT, dims)) for name, dims in inputs], *[(12, value_info(name, FLOAT, dims)) for name, dims in outputs])
    return message((1, 8), (7, graph), (8, message((1, ""), (2, 17))))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def mlp(width=48):
    """A model that fusec takes whole."""
    return make_model([node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "d"), node("Softmax", "d", "y")],
                      [("x", ["n", 64])], [("y", ["n", width])], {"w": floats(64, width), "b": floats(width)})


def split_model():
    """Det, which fusec does not take, between two parts of it, and a part beside it."""
    return make_model([node("MatMul", "x w", "a"), node("Reshape", "a shape", "m"), node("Det", "m", "d"), node("Exp", "a", "e"),
                       node("ReduceSum", "e one", "r", keepdims=0), node("Neg", "d", "y")],
                      [("x", ["n", 8])], [("y", ["n"]), ("r", ["n"])],
                      {"w": floats(8, 9), "shape": np.array([-1, 3, 3]), "one": np.array([1])})


def register(library=None):
    path = library or os.path.join(os.environ["FUSEC_LIBRARY"], "libonnxruntime_ep_fusec.so")
    ort.register_execution_provider_library("fusec", path)


def devices(name=None):
    """The devices of the provider by the names of their metadata, or the one of this name."""
    found = {device.ep_metadata["device"]: device for device in ort.get_ep_devices() if device.ep_name == "fusec"}
    return found if name is None else [found[name]]


def options(device="cuda:0", entries=None, **provider_options):
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    settings.add_provider_for_devices(devices(device), {key.replace("_", "-"): str(value) for key, value in provider_options.items()})
    return settings


def open_session(model, device="cuda:0", entries=None, **provider_options):
    return ort.InferenceSession(model, options(device, entries, **provider_options), enable_fallback=0)


def reference(model, feed):
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"]).run(None, feed)


def on_gpu(data, ordinal=0):
    return ort.OrtValue.ortvalue_from_numpy(data, "gpu", ordinal, NVIDIA)


def room_on_gpu(*shape, ordinal=0):
    return ort.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32, "gpu", ordinal, NVIDIA)


def bound(session, inputs, outputs):
    """Runs with tensors that lie where they are."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)


def bind_and_run(session, x):
    """The output y, which ONNX Runtime makes on the GPU."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding._iobinding.bind_output("y", ort.OrtDevice.make("gpu", 0, NVIDIA)._get_c_device())  # bind_output knows no vendor
    session.run_with_iobinding(binding)
    return binding.get_outputs()[0]


class Gpu(unittest.TestCase):
    def setUp(self):
        if "cuda:0" not in devices():
            self.skipTest("there is no GPU that the provider can use")

    def assert_close(self, got, want):
        self.assertEqual(len(got), len(want))
        for one, other in zip(got, want):
            self.assertEqual(one.shape, other.shape)
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4 * max(np.abs(other).max(initial=0), 1e-6))

    def test_values(self):
        for shape in (1,), (3, 5), (700, 900):
            data = floats(*shape)
            value = on_gpu(data)
            self.assertEqual(value.device_name(), "cuda")
            np.testing.assert_array_equal(value.numpy(), data)
            value.update_inplace(data + 1)
            np.testing.assert_array_equal(value.numpy(), data + 1)

    def test_copies(self):
        data = floats(50, 70)
        for stream in None, devices("cuda:0")[0].create_sync_stream():
            first, second, host = room_on_gpu(50, 70), room_on_gpu(50, 70), ort.OrtValue.ortvalue_from_numpy(np.zeros((50, 70), np.float32))
            ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(data)], [first], stream)
            ort.copy_tensors([first], [second], stream)
            ort.copy_tensors([second], [host], stream)
            np.testing.assert_array_equal(second.numpy(), data)  # in order with the stream
            np.testing.assert_array_equal(host.numpy(), data)

    @unittest.skipIf(VERSION < (1, 32), "this release's Python package makes no value in memory that the host reads, too")
    def test_pinned_memory(self):
        def pinned(*shape):
            return ort.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32, memory_info=info)
        info = devices("cuda:0")[0].memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
        data, x, y, there = floats(4, 64), pinned(4, 64), pinned(4, 48), room_on_gpu(4, 64)
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(data)], [x])
        ort.copy_tensors([x], [there])
        np.testing.assert_array_equal(there.numpy(), data)
        bound(open_session(mlp()), {"x": x}, {"y": y})
        self.assert_close([y.numpy()], reference(mlp(), {"x": data}))

    def test_whole_model(self):
        session = open_session(mlp(), strict=1)
        for n in 1, 2, 7, 64, 3:
            feed = {"x": floats(n, 64, seed=n)}
            self.assert_close(session.run(None, feed), reference(mlp(), feed))

    def test_bound_memory(self):
        session = open_session(mlp(), strict=1)
        for n in 4, 9:
            data = floats(n, 64, seed=n)
            x, y = on_gpu(data), room_on_gpu(n, 48)
            bound(session, {"x": x}, {"y": y})
            bound(session, {"x": x}, {"y": y})
            self.assert_close([y.numpy()], reference(mlp(), {"x": data}))

    def test_output_that_the_run_makes(self):
        session = open_session(mlp(), strict=1)
        for n in 2, 5:
            data = floats(n, 64, seed=n)
            y = bind_and_run(session, on_gpu(data))
            self.assertEqual(y.device_name(), "cuda")
            self.assert_close([y.numpy()], reference(mlp(), {"x": data}))

    def test_half_supported_model(self):
        session = open_session(split_model())
        for n in 3, 8, 1:
            feed = {"x": floats(n, 8, seed=n)}
            self.assert_close(session.run(None, feed), reference(split_model(), feed))

    def test_half_supported_model_in_bound_memory(self):
        session = open_session(split_model())
        data = floats(6, 8)
        y, r = room_on_gpu(6), room_on_gpu(6)
        bound(session, {"x": on_gpu(data)}, {"y": y, "r": r})
        self.assert_close([y.numpy(), r.numpy()], reference(split_model(), {"x": data}))

    def test_models_in_a_row(self):
        """What one session made on the GPU is read by another one there."""
        first, second = open_session(mlp(64)), open_session(mlp(32))
        data = floats(5, 64)
        middle, last = room_on_gpu(5, 64), room_on_gpu(5, 32)
        bound(first, {"x": on_gpu(data)}, {"y": middle})
        bound(second, {"x": middle}, {"y": last})
        self.assert_close([last.numpy()], reference(mlp(32), {"x": reference(mlp(64), {"x": data})[0]}))

    def test_sessions_side_by_side(self):
        cases = [(open_session(model), model, feed) for model, feed in
                 ((mlp(), {"x": floats(33, 64)}), (split_model(), {"x": floats(9, 8)}), (mlp(16), {"x": floats(5, 64)}))]
        self.run_at_once([(session, feed, reference(model, feed)) for session, model, feed in cases])

    def test_one_session_in_threads(self):
        session = open_session(mlp())
        feeds = [{"x": floats(n, 64, seed=n)} for n in (1, 5, 16, 40)]
        self.run_at_once([(session, feed, reference(mlp(), feed)) for feed in feeds])

    def run_at_once(self, cases):
        faults = []

        def work(session, feed, want):
            try:
                for _ in range(30):
                    self.assert_close(session.run(None, feed), want)
            except Exception as fault:
                faults.append(str(fault))
        threads = [threading.Thread(target=work, args=case) for case in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_no_copy_nodes_in_a_whole_model(self):
        self.assertEqual(self.copy_nodes(mlp(), {"x": floats(3, 64)}), 0)
        self.assertGreater(self.copy_nodes(split_model(), {"x": floats(3, 8)}), 0)

    def copy_nodes(self, model, feed):
        with tempfile.TemporaryDirectory() as folder:
            settings = options()
            settings.enable_profiling = True
            settings.profile_file_prefix = os.path.join(folder, "profile")
            session = ort.InferenceSession(model, settings, enable_fallback=0)
            session.run(None, feed)
            events = json.loads(Path(session.end_profiling()).read_text())
        return sum(event.get("args", {}).get("op_name", "").startswith("Memcpy") and event["name"].endswith("_kernel_time") for event in events)

    def test_weights_outlive_the_model(self):
        session = open_session(mlp())
        feed = {"x": floats(3, 64)}
        want = reference(mlp(), feed)
        gc.collect()
        waste = [np.ones(64 * 48, np.float32) for _ in range(2000)]
        for n in 3, 11:  # a plan for new extents may read them again
            session.run(None, {"x": floats(n, 64)})
        self.assert_close(session.run(None, feed), want)
        del waste

    def test_compiled_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for embed, trust in ((0, {}), (1, {"trust": 1})):
                plain, compiled = os.path.join(folder, "model.onnx"), os.path.join(folder, f"compiled_{embed}.onnx")
                Path(plain).write_bytes(mlp())
                open_session(plain, entries={"ep.context_enable": "1", "ep.context_file_path": compiled, "ep.context_embed_mode": str(embed)})
                session = open_session(compiled, **trust)
                for n in 2, 6:
                    feed = {"x": floats(n, 64)}
                    self.assert_close(session.run(None, feed), reference(mlp(), feed))

    def test_empty_batch(self):
        session = open_session(mlp())
        self.assertEqual(session.run(None, {"x": floats(0, 64)})[0].shape, (0, 48))

    def test_a_session_has_one_device(self):
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        settings.add_provider_for_devices(list(devices().values()), {})
        with self.assertRaisesRegex(Exception, "a session runs on one device, and was given those of"):
            ort.InferenceSession(mlp(), settings, enable_fallback=0)
        for other in "cuda:9", "cpu":
            with self.assertRaisesRegex(Exception, f"device is '{other}', and the session was given the device of cuda:0"):
                open_session(mlp(), device="cuda:0", entries={"ep.fusec.device": other})
        open_session(mlp(), device="cuda:0", entries={"ep.fusec.device": "cuda"})

    def test_cpu_beside_it(self):
        feed = {"x": floats(4, 64)}
        self.assert_close(open_session(mlp(), "cpu").run(None, feed), reference(mlp(), feed))


def main():
    named = len(sys.argv) > 1 and sys.argv[1].endswith(".so")
    register(sys.argv.pop(1) if named else None)
    print("devices:", " ".join(devices()), flush=True)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
