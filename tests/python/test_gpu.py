# SPDX-License-Identifier: Apache-2.0
"""Engines on a GPU: arrays of the host, tensors in the GPU's memory, streams of the caller, and tensors of PyTorch where it is installed.
test_fake_gpu.py runs these with a driver that has its memory on the host."""
import contextlib
import copy
import ctypes
import gc
import importlib
import importlib.util
import io
import os
import sys
import threading
import unittest
from unittest import mock

import numpy as np

import fusec
from cuda_driver import LEGACY, PER_THREAD, Driver
from fusec import _gpu_tensor, _streams, _structs
from support import DIGITS, TestCase, build, digits, programs, run_python

GPU = next((d["device"] for d in fusec.devices() if d["device"].startswith("cuda")), None)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def has_pytorch():
    """With a GPU."""
    return importlib.util.find_spec("torch") is not None and importlib.import_module("torch").cuda.is_available()


def floats(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


class Arguments(TestCase):
    """What needs no GPU."""

    def test_an_engine_on_the_cpu(self):
        engine, x = build(["n"], lambda x: x + 1), np.ones(3, np.float32)
        y = engine(x, out="device")
        self.assertIsInstance(y, np.ndarray)
        np.testing.assert_array_equal(y, [2, 2, 2])
        for run in (engine, engine.run, engine.session(), engine.session().run):
            with self.assertRaisesRegex(fusec.InvalidArgument, "stream= is for engines on a GPU; this one runs on the CPU"):
                run(x, stream=7)

    def test_out_as_a_text(self):
        with self.assertRaisesRegex(fusec.InvalidArgument, "out is 'gpu'; it is 'device', an array"):
            build(["n"], lambda x: x + 1)(np.ones(3, np.float32), out="gpu")

    def test_inputs_that_are_named_like_keywords(self):
        builder = fusec.Builder()
        builder.output("y", builder.input("stream", "f32", ["n"]) - builder.input("out", "f32", ["n"]))
        engine = fusec.compile(builder)
        np.testing.assert_array_equal(engine(np.full(2, 5, np.float32), np.ones(2, np.float32)), [4, 4])

    def test_forms_of_a_stream(self):
        def made(**members):
            return type("Library", (), members)()

        for stream, want in ((9, 9), (0, 1), (1, 1), (2, 2), (np.int64(9), 9), (made(cuda_stream=9), 9), (made(cuda_stream=0), 1),
                             (made(ptr=9), 9), (made(handle=9), 9), (made(handle=ctypes.c_void_p(9)), 9), (made(handle=ctypes.c_void_p()), 1),
                             (ctypes.c_void_p(9), 9), (made(__cuda_stream__=lambda self: (0, 9), ptr=1), 9), (made(__cuda_stream__=(0, 9)), 9)):
            taken = _streams.take(stream)
            self.assertEqual(taken.handle, want)
            self.assertIs(taken.keep, stream)
        for stream, what in ((-1, "stream is -1"), (True, "stream is True"), ("s", "stream is a str"), (object(), "stream is a object"),
                             (made(ptr="nine"), "stream is a Library"), (made(__cuda_stream__=lambda self: 9), "stream is a Library"),
                             (1.0, "stream is a float")):
            with self.assertRaisesRegex(fusec.InvalidArgument, what + "; it is the handle of a CUDA stream as an int, or an object with"):
                _streams.take(stream)

    def test_only_runs_make_tensors(self):
        with self.assertRaisesRegex(TypeError, "a GpuTensor is made by a run"):
            fusec.GpuTensor([1, 2])


@unittest.skipUnless(GPU, "no GPU here")
class Gpu(TestCase):
    def test_arrays_of_the_host(self):
        images, labels = digits()
        engine = fusec.compile(DIGITS / "digits.onnx", device=GPU)
        self.assertEqual(engine.device, GPU)
        self.assertEqual((engine(images).argmax(axis=1) == labels).sum(), 358)
        out = np.empty((360, 10), np.float32)
        self.assertIs(engine(images, out=out), out)
        np.testing.assert_allclose(out, fusec.compile(DIGITS / "digits.onnx")(images), atol=1e-3)

    def test_package(self):
        path = self.folder() / "digits.fsc"
        fusec.compile(DIGITS / "digits.onnx", device=GPU).save(path)
        self.assertEqual(fusec.load(path, device=GPU, trust=True)(digits()[0][:3]).shape, (3, 10))


class GpuCase(TestCase):
    @classmethod
    def setUpClass(cls):
        if not GPU:
            raise unittest.SkipTest("no GPU here")
        cls.driver = Driver()
        cls.streams = [cls.driver.stream() for _ in range(2)]

    @classmethod
    def tearDownClass(cls):
        cls.driver.leave()


class NewTensors(GpuCase):
    def test_outputs(self):
        engine, x = build(["n", "m"], lambda x: x * 2 + 1, device=GPU), floats(5, 3)
        y = engine(x, out="device")
        self.assertIsInstance(y, fusec.GpuTensor)
        self.assertEqual((y.shape, y.dtype, y.device, y.nbytes), ((5, 3), "f32", GPU, 60))
        self.assertEqual(repr(y), f"fusec.GpuTensor(f32[5, 3] on {GPU})")
        np.testing.assert_allclose(y.numpy(), x * 2 + 1, rtol=1e-6)

    def test_go_into_runs(self):
        engine, x = build(["n"], lambda x: x + 1, device=GPU), floats(1000)
        y = engine(x, out="device")
        for _ in range(5):
            y = engine(y, out="device")
        np.testing.assert_allclose(engine(y), x + 7, rtol=1e-5)  # to the host
        out = engine(x, out="device")
        self.assertIs(engine(y, out=out), out)
        np.testing.assert_allclose(out.numpy(), x + 7, rtol=1e-5)

    def test_several_and_small_outputs(self):
        builder = fusec.Builder()
        x = builder.input("x", "bf16", ["n"])
        builder.output("twice", x * 2)
        builder.output("sum", x.reduce_sum(axes=[0]))
        engine = fusec.compile(builder, device=GPU)
        twice, total = engine(fusec.to_bf16([1, 2.5, -3]), out="device")
        self.assertEqual((twice.dtype, total.shape, total.nbytes), ("bf16", (), 2))
        np.testing.assert_array_equal(fusec.from_bf16(twice.numpy()), [2, 5, -6])
        self.assertEqual(fusec.from_bf16(total.numpy()), 0.5)

    def test_without_elements(self):
        y = build(["n", 3], lambda x: x + 1, device=GPU)(np.empty((0, 3), np.float32), out="device")
        self.assertEqual((y.shape, y.nbytes, y.numpy().shape), ((0, 3), 0, (0, 3)))
        self.assertIsNotNone(y.__dlpack__(max_version=(1, 0)))

    def test_as_weights_constants_and_arguments_of_jit(self):
        ones = build(["n"], lambda x: x + 1, device=GPU)(np.zeros(3, np.float32), out="device")
        builder = fusec.Builder()
        builder.output("y", builder.input("x", "f32", ["n", 3]) * builder.weight("w", ones) + builder.constant(ones))
        engine = fusec.compile(builder, device=GPU, replaceable_weights=["w"])
        x = np.full((1, 3), 4, np.float32)
        np.testing.assert_array_equal(engine(x), [[5, 5, 5]])
        engine.set_weight("w", build(["n"], lambda x: x * 2, device=GPU)(ones, out="device"))
        np.testing.assert_array_equal(engine(x), [[9, 9, 9]])
        twice = fusec.jit(lambda x: x * 2, device=GPU)
        np.testing.assert_array_equal(twice(ones), [2, 2, 2])
        y = twice(ones, stream=self.streams[0])
        np.testing.assert_array_equal(y.numpy(), [2, 2, 2])

    def test_refusals(self):
        y = build(["n"], lambda x: x + 1, device=GPU)(floats(3), out="device")
        with self.assertRaisesRegex(TypeError, "is no array; .numpy"):
            np.asarray(y)
        with self.assertRaisesRegex(TypeError, "not pickled or copied"):
            copy.deepcopy(y)
        with self.assertRaisesRegex(fusec.InvalidArgument, "has shape \\[3\\], and these inputs make \\[4\\]"):
            build(["n"], lambda x: x + 1, device=GPU)(floats(4), out=y)
        with self.assertRaisesRegex(fusec.InvalidArgument, "has dtype f32, and the engine has f16"):
            build(["n"], lambda x: x + 1, "f16", device=GPU)(y)
        with self.assertRaisesRegex(fusec.InvalidArgument, "lies on a GPU, the Engine runs on the CPU"):
            build(["n"], lambda x: x + 1)(y)

    def test_process_that_ends_with_tensors(self):
        code = (f"import fusec, numpy\nfrom support import build\nengine = build(['n'], lambda x: x + 1, device={GPU!r})\n"
                "x = numpy.ones(4, 'f4')\n"
                "class Late:\n"
                "    def __init__(self, *kept): self.kept = kept\n"
                "    def __del__(self): self.kept = None\n"
                "y = engine(x, out='device')\nlate = Late(y, y.__dlpack__(), y.__dlpack__(max_version=(1, 0)), engine(y, stream=1))\n"
                "loop = [late, engine(y, stream=1)]; loop.append(loop)\nprint('end')")
        status, out, errors = run_python(code, PYTHONPATH=os.pathsep.join(sys.path))
        self.assertEqual((status, out, errors), (0, "end\n", ""))


class Dlpack(GpuCase):
    def tensor(self):
        return build(["n", "m"], lambda x: x + 1, device=GPU)(np.zeros((2, 3), np.float32), out="device")

    def test_both_versions(self):
        y = self.tensor()
        self.assertEqual(y.__dlpack_device__(), (2, 0))
        for arguments, name, kind in (({}, b"dltensor", _structs.OldManagedTensor), ({"max_version": (0, 8)}, b"dltensor", _structs.OldManagedTensor),
                                      ({"max_version": (1, 0)}, b"dltensor_versioned", _structs.ManagedTensor),
                                      ({"max_version": (2, 1), "dl_device": (2, 0), "copy": False}, b"dltensor_versioned", _structs.ManagedTensor)):
            capsule = y.__dlpack__(**arguments)
            managed = kind.from_address(_get_pointer(capsule, name))
            tensor = managed.tensor
            self.assertEqual((tensor.device.type, tensor.device.ordinal, tensor.ndim, tensor.byte_offset), (2, 0, 2, 0))
            self.assertEqual((tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes), (2, 32, 1))
            self.assertEqual((tensor.shape[:2], tensor.strides[:2]), ([2, 3], [3, 1]))
            self.assertEqual(tensor.data, y._memory.address)
            if kind is _structs.ManagedTensor:
                self.assertEqual((managed.version.major, managed.flags), (1, 0))

    def test_copies(self):
        y = self.tensor()
        capsule = y.__dlpack__(max_version=(1, 0), copy=True, stream=self.streams[0])
        managed = _structs.ManagedTensor.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        self.assertEqual((managed.flags, managed.tensor.device.type), (2, 2))
        self.assertNotEqual(managed.tensor.data, y._memory.address)
        capsule = y.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
        managed = _structs.ManagedTensor.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        self.assertEqual((managed.flags, managed.tensor.device.type), (2, 1))
        on_host = (ctypes.c_float * 6).from_address(managed.tensor.data)
        self.assertEqual(list(on_host), [1] * 6)

    def test_numpy_takes_a_copy_on_the_host(self):
        y = self.tensor()
        try:
            x = np.from_dlpack(y, device="cpu")
        except TypeError:
            self.skipTest("this NumPy cannot ask for a device")
        np.testing.assert_array_equal(x, np.ones((2, 3)))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_pytorch_takes_a_copy_on_the_host(self):
        torch = importlib.import_module("torch")
        for version in None, (1, 0):
            y = self.tensor()
            try:
                t = torch.from_dlpack(y.__dlpack__(dl_device=(1, 0), max_version=version))
            except RuntimeError:
                self.assertEqual(version, (1, 0))
                self.skipTest("this PyTorch knows the old capsules alone")
            del y
            gc.collect()
            self.assertEqual(t.tolist(), [[1, 1, 1]] * 2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_an_exception_that_is_on_its_way_is_shown(self):
        torch = importlib.import_module("torch")
        seen = []
        with mock.patch("sys.unraisablehook", lambda raised: seen.append(raised.exc_value)):
            with self.assertRaises((SystemError, TypeError)) as raised:
                torch.add(torch.from_dlpack(self.tensor().__dlpack__(dl_device=(1, 0))), object())  # the tensor dies while this fails
        self.assertIsInstance([*seen, raised.exception][0], TypeError)
        self.assertEqual(len(_gpu_tensor._exported), 0)

    def test_the_error_of_a_consumer_stays(self):
        """The capsule dies while NumPy's exception is on its way."""
        y = self.tensor()
        with self.assertRaisesRegex((RuntimeError, BufferError), "(?i)device"):
            np.from_dlpack(y)

    def test_refusals(self):
        y = self.tensor()
        for stream in 0, -2, "1", True:
            with self.assertRaisesRegex(fusec.InvalidArgument, "stream of __dlpack__ is None, 1 for"):
                y.__dlpack__(stream=stream)
        with self.assertRaisesRegex(BufferError, "by a copy alone, and copy is False"):
            y.__dlpack__(dl_device=(1, 0), copy=False)
        with self.assertRaisesRegex(BufferError, "is not copied to device \\(2, 5\\)"):
            y.__dlpack__(dl_device=(2, 5))


class Streams(GpuCase):
    def test_chain(self):
        engine, x = build(["n"], lambda x: x * 2 + 1, device=GPU), floats(1 << 20)
        y, want = engine(x, out="device"), x * 2 + 1
        for i in range(20):
            y = engine(y, stream=self.streams[i % 2])
            want = want * 2 + 1
        self.assertIsInstance(y, fusec.GpuTensor)
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-4)

    def test_default_streams(self):
        engine, x = build(["n"], lambda x: x + 1, device=GPU), floats(1000)
        y = engine(x, out="device")
        for stream in 0, LEGACY, PER_THREAD, LEGACY:
            y = engine(y, stream=stream)
        np.testing.assert_allclose(y.numpy(), x + 5, rtol=1e-5)

    def test_outputs_of_the_caller(self):
        engine, x = build(["n"], lambda x: x + 1, device=GPU), floats(1 << 20)
        a = engine(x, out="device")
        b = engine(a, stream=self.streams[0])
        for i in range(10):  # each is written on one stream and read on the other
            self.assertIs(engine(a, out=b, stream=self.streams[0]), b)
            self.assertIs(engine(b, out=a, stream=self.streams[1]), a)
        np.testing.assert_allclose(a.numpy(), x + 21, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(engine(a), x + 22, rtol=1e-4, atol=1e-4)  # without a stream, the host waits

    def test_by_name_and_several_outputs(self):
        builder = fusec.Builder()
        x, y = builder.input("x", "f32", ["n"]), builder.input("y", "f32", ["n"])
        builder.output("sum", x + y)
        builder.output("difference", x - y)
        engine = fusec.compile(builder, device=GPU)
        ones = build(["n"], lambda x: x + 1, device=GPU)(np.zeros(4, np.float32), out="device")
        total, difference = engine(y=ones, x=ones, stream=self.streams[0], out="device")
        self.assertEqual((total.numpy()[0], difference.numpy()[0]), (2, 0))
        engine(ones, ones, out={"sum": difference, "difference": total}, stream=self.streams[1])
        self.assertEqual((difference.numpy()[0], total.numpy()[0]), (2, 0))

    def test_a_session_by_hand(self):
        session = build(["n"], lambda x: x.cumsum(axis=0) * 2, device=GPU).session()
        x = build(["n"], lambda x: x + 1, device=GPU)(np.zeros(1 << 16, np.float32), out="device")
        made = [session(x, stream=self.streams[i % 2]) for i in range(10)]
        for y in made:
            np.testing.assert_array_equal(y.numpy(), np.arange(2, (1 << 17) + 1, 2))

    def test_threads_with_streams_of_their_own(self):
        engine, faults = build(["n"], lambda x: x * 2, device=GPU), []
        start = engine(np.ones(1 << 18, np.float32), out="device")

        def work():
            try:
                self.driver.enter()
                stream, y = self.driver.stream(), start
                for _ in range(30):
                    y = engine(y, stream=stream)
                if not (y.numpy() == 2 ** 31).all():
                    faults.append("wrong")
            except BaseException as fault:
                faults.append(fault)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_memory_is_used_again(self):
        """Outputs of 256 MiB, of which each dies while its successor is computed: more than any GPU holds."""
        engine = build(["n"], lambda x: x + 1, device=GPU)
        y = engine(np.zeros(1 << 10 if self.driver.has("fake_cuda_count") else 1 << 26, np.float32), out="device")
        for _ in range(1000):
            y = engine(y, stream=self.streams[0])
        self.assertEqual(y.numpy()[-1], 1001)

    def test_tensors_that_are_not_there(self):
        engine = build(["n"], lambda x: x + 1, device=GPU)
        y = engine(np.ones(3, np.float32), out="device")
        for item in np.ones(3, np.float32), [1, 2, 3], 5:
            with self.assertRaisesRegex(fusec.InvalidArgument, f"input 'x' is a {type(item).__name__} on the host, and a run on a stream takes "
                                                               f"tensors of {GPU}; move it there, .*, or call without stream="):
                engine(item, stream=self.streams[0])
        with self.assertRaisesRegex(fusec.InvalidArgument, "output 'y' is a ndarray on the host"):
            engine(y, out=np.ones(3, np.float32), stream=self.streams[0])
        with self.assertRaisesRegex(fusec.InvalidArgument, "has shape \\[3\\], and these inputs make \\[4\\]"):
            engine(engine(np.ones(4, np.float32), out="device"), out=y, stream=self.streams[0])
        with self.assertRaisesRegex(fusec.InvalidArgument, "stream is a str"):
            engine(y, stream="s")

    def test_capture(self):
        engine = build(["n"], lambda x: x * 2 + 1, device=GPU)
        x, stream = engine(np.zeros(1000, np.float32), out="device"), self.streams[0]
        y, dies = engine(x, stream=stream), engine(x, stream=stream)
        self.driver.wait(stream)
        self.driver.begin_capture(stream)
        try:
            with self.assertRaisesRegex(fusec.InvalidArgument, "the stream is being captured, .*: give them by out="):
                engine(x, stream=stream)
            engine(x, out=y, stream=stream)
            engine(y, out=x, stream=stream)
            with self.assertRaisesRegex(fusec.InvalidArgument, "is being captured, and nothing outside can wait for it"):
                dies.numpy()
            del dies  # is freed when the capture is over
            gc.collect()
        finally:
            graph = self.driver.end_capture(stream)
        if not self.driver.has("cuGraphLaunch"):
            return
        launch = self.driver.launcher(graph)
        for start in 0, 5:
            self.driver.put(x, np.full(1000, start, np.float32), stream)
            launch(stream)
            launch(stream)
            self.driver.wait(stream)
            want = start
            for _ in range(4):
                want = want * 2 + 1
            self.assertEqual(set(x.numpy()), {want})
        np.testing.assert_array_equal(engine(np.ones(3, np.float32)), [3, 3, 3])  # beside the graph


class Page(GpuCase):
    def test_programs_print_what_the_page_shows(self):
        found = programs("docs/python.md", "py")
        self.assertEqual(len(found), 2)
        for code, shown in found:
            if "import torch" in code and not has_pytorch():
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, {})
            self.assertEqual(printed.getvalue(), shown)


class PyTorch(GpuCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not has_pytorch():
            raise unittest.SkipTest("no PyTorch with a GPU here")
        cls.torch = importlib.import_module("torch")

    def test_tensors_of_pytorch(self):
        torch = self.torch
        engine = build(["n", "m"], lambda x: x * 2 + 1, "bf16", device=GPU)
        x = torch.zeros(64, 4096, device=GPU, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        with torch.cuda.stream(torch.cuda.Stream()):  # work on another stream is waited for
            for i in range(1, 50):
                x += 1
                self.assertIs(engine(x, out=out), out)
                self.assertEqual(out.float().unique().tolist(), [2 * i + 1])
        np.testing.assert_array_equal(fusec.from_bf16(engine(x.t()))[0, :3], [99, 99, 99])

    def test_takes_new_tensors(self):
        torch = self.torch
        y = build(["n"], lambda x: x + 1, device=GPU)(np.zeros(1000, np.float32), out="device")
        t = torch.from_dlpack(y)
        self.assertEqual((t.data_ptr(), t.device, t.dtype), (y._memory.address, torch.device(GPU), torch.float32))
        t += 1
        torch.cuda.synchronize()
        np.testing.assert_array_equal(y.numpy(), np.full(1000, 2))
        del y
        self.assertEqual(t.unique().tolist(), [2])

    def test_waits_for_a_run_on_another_stream(self):
        torch = self.torch
        engine, side = build(["n"], lambda x: x + 1, device=GPU), torch.cuda.Stream()
        x = torch.zeros(1 << 22, device=GPU)
        for i in range(20):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(1_000_000)
                x = x + 1
                y = engine(x, stream=side)
            t = torch.from_dlpack(y) * 1  # on the current stream, which waits
            self.assertEqual(t.unique().tolist(), [i + 2])
            torch.cuda.current_stream().wait_stream(side)

    def test_memory_that_pytorch_still_reads(self):
        torch = self.torch
        engine, side = build(["n"], lambda x: x + 1, device=GPU), torch.cuda.Stream()
        zeros, fives = (engine(np.full(1 << 22, start, np.float32), out="device") for start in (-1, 4))
        for _ in range(20):
            y = engine(zeros, stream=side)
            t = torch.from_dlpack(y)  # for the current stream
            torch.cuda._sleep(3_000_000)
            kept = t * 1
            del t, y  # while the product waits
            others = [engine(fives, stream=side) for _ in range(3)]  # which wait for nothing
            self.assertEqual(kept.unique().tolist(), [1])
            del others

    def test_runs_on_the_current_stream(self):
        torch = self.torch
        engine = build(["n", "m"], lambda x: x * 2 + 1, device=GPU)
        for stream in torch.cuda.current_stream(), torch.cuda.Stream():
            with torch.cuda.stream(stream):
                x, out = torch.ones(64, 4096, device=GPU), torch.empty(64, 4096, device=GPU)
                for _ in range(50):
                    engine(x, out=out, stream=stream)
                    x = out * 1
                self.assertEqual(x.unique().numel(), 1)
                x = torch.arange(6., device=GPU).reshape(2, 3)
                y = engine(x.t(), stream=stream.cuda_stream)  # with strides
                self.assertEqual(torch.from_dlpack(y).tolist(), (x.t() * 2 + 1).tolist())

    def test_captured_in_a_graph(self):
        torch = self.torch
        engine = build(["n"], lambda x: x * 2 + 1, device=GPU)
        x, y = torch.zeros(1000, device=GPU), torch.zeros(1000, device=GPU)
        engine(x, stream=torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z = x + 1
            engine(z, out=y, stream=torch.cuda.current_stream())
            w = y + 1
        for start in 0, 7:
            x.fill_(start)
            graph.replay()
            self.assertEqual(w.unique().tolist(), [2 * (start + 1) + 2])


if __name__ == "__main__":
    unittest.main()
