# SPDX-License-Identifier: Apache-2.0
"""Tensors of a GPU and streams, by what the fake driver (tests/fake_cuda) tells of them: what races, what is left, what waits for what.
test_fake_gpu.py runs these in a process with that driver."""
import ctypes
import gc
import logging
import os
import threading
import unittest

import numpy as np

import fusec
from cuda_driver import PER_THREAD, Driver, address
from fusec import _gpu, _gpu_tensor, _streams, _structs
from support import TestCase, build

ORDINAL = int(os.environ["FUSEC_FAKE_GPUS"]) - 1
GPU = f"cuda:{ORDINAL}"
POOLS = os.environ.get("FUSEC_FAKE_POOLS") != "0"
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


class Consumer:
    """A library that takes a tensor, works on it on its stream, and ends it."""

    USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}

    def __init__(self, tensor, stream, **arguments):
        capsule = tensor.__dlpack__(stream=stream, **arguments)
        self.name, self.stream = _name(capsule), stream
        self.at = _pointer(capsule, self.name)
        _rename(capsule, self.USED[self.name])
        self.managed = (_structs.ManagedTensor if b"versioned" in self.name else _structs.OldManagedTensor).from_address(self.at)
        self.memory = self.managed.tensor.data

    def end(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(self.at)


class Case(TestCase):
    def setUp(self):
        self.driver = Driver(ORDINAL)
        self.library = self.driver.library
        self.library.fake_cuda_count.restype = ctypes.c_long
        self.a, self.b, self.c = (self.driver.stream() for _ in range(3))
        self.engine = build(["n"], lambda x: x + 1, device=GPU)
        _gpu.get(ORDINAL)
        gc.collect()
        self.before = self.left()

    def tearDown(self):
        gc.collect()
        self.assertEqual(self.count("strays"), 0)
        self.assertEqual(self.count("nodes"), 0)
        self.assertEqual(self.left(), self.before)
        self.assertEqual((len(_gpu_tensor._exported), len(_gpu_tensor._fresh)), (0, 0))
        self.driver.leave()

    def count(self, what):
        return self.library.fake_cuda_count(what.encode())

    def left(self):
        return self.count("live memory"), self.count("live events")

    def races(self):
        """Since the last call."""
        count = self.count("races")
        new, self.counted = count - getattr(type(self), "counted", 0), count
        type(self).counted = count
        return new

    def use(self, tensor, stream, write=False):
        """A kernel of somebody else."""
        memory = tensor if isinstance(tensor, int) else address(tensor)
        self.library.fake_cuda_use(ctypes.c_ulonglong(memory), ctypes.c_void_p(stream), int(write))

    def waits(self, stream, other):
        return bool(self.library.fake_cuda_is_behind(ctypes.c_void_p(stream), ctypes.c_void_p(other)))

    def new(self, stream=None):
        x = self.engine(np.zeros(4, np.float32), out="device")
        return x if stream is None else self.engine(x, stream=stream)


class TheFake(Case):
    def test_finds_races(self):
        self.races()
        x = self.new()
        y = self.engine(x, stream=self.a)
        self.use(y, self.a)
        self.assertEqual(self.races(), 0)
        self.use(y, self.b, write=True)  # not behind the run
        self.assertEqual(self.races(), 1)
        self.driver.wait(self.b)
        self.use(y, self.c, write=True)
        self.assertEqual(self.races(), 0)
        self.driver.wait(self.c)


class Order(Case):
    def test_a_consumer_waits_for_the_run(self):
        x = self.new()
        y = self.engine(x, stream=self.a)
        for arguments in {}, {"max_version": (1, 0)}:
            t = Consumer(y, self.b, **arguments)
            self.use(t.memory, self.b)
            t.end()
        self.races()
        t = Consumer(y, -1)  # does not ask for it
        self.use(t.memory, self.c)
        self.assertEqual(self.races(), 1)
        self.driver.wait(self.c)
        t.end()

    def test_what_a_consumer_wrote_is_waited_for(self):
        self.races()
        y = self.new(self.a)
        t = Consumer(y, self.b)
        self.use(t.memory, self.b, write=True)
        t.end()
        self.engine(y, stream=self.c)
        self.engine(y)
        y.numpy()
        self.assertEqual(self.races(), 0)

    def test_each_default_stream(self):
        self.races()
        y = self.new(self.a)
        for stream in None, 1, 2:
            t = Consumer(y, stream)
            self.use(t.memory, stream or 1)
            t.end()
        del y, t
        self.assertEqual(self.races(), 0)

    def test_memory_is_freed_behind_a_consumer(self):
        self.races()
        y = self.new(self.a)
        t = Consumer(y, self.b)
        del y
        self.use(t.memory, self.b)
        live = self.count("live memory")
        t.end()
        self.assertEqual(self.count("live memory"), live - 1)
        self.assertEqual(self.races(), 0)

    def test_memory_is_freed_behind_the_own_stream(self):
        self.races()
        y = self.new(self.a)
        self.use(y, self.a)
        before = self.count("calls cuStreamWaitEvent")
        del y
        self.assertEqual(self.count("calls cuStreamWaitEvent"), before)
        self.assertEqual(self.races(), 0)

    @unittest.skipUnless(POOLS, "the host waits for frees")
    def test_no_stream_of_the_caller_waits_for_a_free(self):
        y = self.new(self.a)
        t = Consumer(y, self.b)
        self.use(t.memory, self.b)
        t.end()
        del y, t
        self.new(self.a)
        self.assertFalse(self.waits(self.a, self.b))

    @unittest.skipUnless(POOLS, "the host waits for frees")
    def test_two_readers_do_not_wait_for_each_other(self):
        x = self.new()
        made = [self.engine(x, stream=stream) for _ in range(3) for stream in (self.a, self.b)]
        self.assertEqual(len(made), 6)
        self.assertFalse(self.waits(self.a, self.b) or self.waits(self.b, self.a))

    def test_a_writer_waits_for_readers(self):
        self.races()
        x, y = self.new(), self.engine(self.new(), out="device")
        z = self.engine(x, stream=self.a)
        self.engine(y, out=x, stream=self.b)
        self.assertTrue(self.waits(self.b, self.a))
        self.engine(x, stream=self.c)  # reads what b writes
        self.assertTrue(self.waits(self.c, self.b))
        np.testing.assert_array_equal(x.numpy(), np.full(4, 3))
        self.engine(x, out=y, stream=self.a)
        self.assertEqual(self.engine(y)[0], 5)
        self.engine(np.zeros(4, np.float32), out=z)  # on the host
        self.engine(z, stream=self.b)
        self.engine(np.zeros(4, np.float32), out=z)
        self.assertEqual(self.races(), 0)

    def test_a_run_does_not_wait_on_the_host(self):
        x = self.new()
        self.engine(x, stream=self.a)
        before = [self.count("calls " + name) for name in ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize")]
        y = self.engine(self.engine(x, stream=self.a), stream=self.b)
        self.engine(x, out=y, stream=self.c)
        t = Consumer(y, self.a)
        t.end()
        del t, y
        if POOLS:
            self.assertEqual(before, [self.count("calls " + name) for name in ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize")])

    def test_a_thread_frees_what_another_ones_default_stream_uses(self):
        self.races()
        made = []

        def work():
            self.driver.enter()
            made.append(Consumer(self.new(PER_THREAD), PER_THREAD))
            made.append(self.new(PER_THREAD))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        before = self.count("calls cuCtxSynchronize")
        made[0].end()
        np.testing.assert_array_equal(made[1].numpy(), np.full(4, 2))
        made.clear()
        self.assertGreaterEqual(self.count("calls cuCtxSynchronize"), before + 2)
        self.assertEqual(self.races(), 0)

    def test_a_handle_that_belongs_to_another_stream_now(self):
        self.races()
        x, out, handles = self.new(), self.new(), []
        for how in {}, {"out": out}:
            for _ in range(50):
                handles.append(self.driver.stream())
                self.engine(x, stream=handles[-1], **how)
                self.driver.destroy(handles[-1])
        self.assertLess(len(set(handles)), 50)
        del x, out, how
        self.assertEqual(self.races(), 0)

    def test_a_stream_object_is_kept(self):
        class Stream:  # ends with its object, as CuPy's do
            def __init__(self, driver):
                self.driver, self.ptr = driver, driver.stream()

            def __del__(self):
                self.driver.destroy(self.ptr)

        streams, before = self.count("live streams"), self.count("calls cuCtxSynchronize")
        y = self.new(Stream(self.driver))
        self.assertEqual(self.count("live streams"), streams + 1)
        del y
        self.assertEqual((self.count("live streams"), self.count("calls cuCtxSynchronize")), (streams, before))

    def test_a_stream_that_is_gone(self):
        stream = self.driver.stream()
        y = self.new(stream)
        self.driver.destroy(stream)
        before = self.count("calls cuCtxSynchronize")
        with self.assertNoLogs("fusec", logging.WARNING) if hasattr(self, "assertNoLogs") else self.subTest():
            del y
        self.assertEqual(self.count("calls cuCtxSynchronize"), before + 1)


class Capsules(Case):
    def test_unused_ones_end(self):
        y = self.new(self.a)
        capsules = [y.__dlpack__(), y.__dlpack__(max_version=(1, 0), stream=self.b), y.__dlpack__(copy=True, stream=self.c)]
        live = self.count("live memory")
        del y
        self.assertEqual(self.count("live memory"), live)  # the capsules have it
        del capsules
        self.new()
        self.assertEqual(self.count("live memory"), live - 2)

    def test_a_deleter_on_a_thread_of_its_own(self):
        y = self.new(self.a)
        t = Consumer(y, self.b, max_version=(1, 0))
        del y
        thread = threading.Thread(target=t.end)
        thread.start()
        thread.join()

    def test_many_threads(self):
        self.races()
        y = self.new(self.a)

        def work():
            self.driver.enter()
            stream = self.driver.stream()
            for i in range(50):
                t = Consumer(y, stream, max_version=(1, i % 2))
                self.use(t.memory, stream)
                y.__dlpack__()
                self.engine(y, stream=stream)
                t.end()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del y
        self.assertEqual(self.races(), 0)

    def test_a_copy_is_a_consumer(self):
        self.races()
        y = self.new(self.a)
        for stream in self.b, -1:
            live = self.count("live memory")
            t = Consumer(y, stream, copy=True, max_version=(1, 0))
            self.assertEqual(list((ctypes.c_float * 4).from_address(t.memory)), [2] * 4)
            if stream != -1:
                self.use(t.memory, stream)
            t.end()
            self.assertEqual(self.count("live memory"), live)
        del y
        self.assertEqual(self.races(), 0)


class Producer:
    """A library with memory of the GPU, here that of a GpuTensor of rank 1, whose elements it may give in reverse order."""

    def __init__(self, tensor, old=False, reverse=False, read_only=False):
        self.tensor, self.old, self.reverse, self.read_only, self.streams = tensor, old, reverse, read_only, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None, **more):
        if more and self.old:
            raise TypeError("no max_version")
        self.streams.append(stream)
        capsule = self.tensor.__dlpack__(stream=stream, **more)
        managed = (_structs.OldManagedTensor if self.old else _structs.ManagedTensor).from_address(_pointer(capsule, _name(capsule)))
        if self.reverse:
            managed.tensor.strides[0] = -1
            managed.tensor.byte_offset = self.tensor.nbytes - 4
        if self.read_only:
            managed.flags = 1
        return capsule


class Producers(Case):
    def test_are_asked_for_the_stream_of_the_run(self):
        self.races()
        x, waits = self.new(self.b), self.count("calls cuStreamSynchronize")
        for old in False, True:
            for stream, asked in (self.a, self.a), (0, 1), (2, 2):
                producer = Producer(x, old)
                y = self.engine(producer, stream=stream)
                self.assertEqual(producer.streams, [asked])
        if POOLS:
            self.assertEqual(self.count("calls cuStreamSynchronize"), waits)
        np.testing.assert_array_equal(y.numpy(), [3] * 4)
        del x, y
        self.assertEqual(self.races(), 0)

    def test_strides(self):
        x = self.engine(np.arange(4, dtype=np.float32), out="device")
        y = self.engine(Producer(x, reverse=True), stream=self.a)
        np.testing.assert_array_equal(y.numpy(), [5, 4, 3, 2])
        self.assertIsInstance(self.engine(x, out=Producer(y, reverse=True), stream=self.a), Producer)
        np.testing.assert_array_equal(y.numpy(), [5, 4, 3, 2])

    def test_what_is_dense_is_used_by_its_address(self):
        cube = build([2, "n", 3], lambda x: x + 1, device=GPU)(np.zeros((2, 1, 3), np.float32), out="device")
        gpu = _gpu.get(ORDINAL)
        with gpu.inside():
            self.assertEqual(_streams.place(Producer(cube), "x", gpu, self.a, False).address, address(cube))
            self.assertIsNone(_streams.place(Producer(self.new(), reverse=True), "x", gpu, self.a, False).address)

    def test_read_only(self):
        x, y = self.new(), self.new()
        with self.assertRaisesRegex(fusec.InvalidArgument, "output 'y' is read-only"):
            self.engine(x, out=Producer(y, read_only=True), stream=self.a)

    def test_jit_waits_for_nothing(self):
        x, waits = self.new(self.b), self.count("calls cuStreamSynchronize")
        producer = Producer(x)
        y = fusec.jit(lambda x: x * 2, device=GPU)(producer, stream=self.a)
        self.assertEqual(producer.streams, [-1, self.a])
        if POOLS:
            self.assertEqual(self.count("calls cuStreamSynchronize"), waits)
        np.testing.assert_array_equal(y.numpy(), [4] * 4)

    def test_without_a_stream_the_host_waits(self):
        producer = Producer(self.new(self.a))
        np.testing.assert_array_equal(self.engine(producer), [3] * 4)
        self.assertEqual(producer.streams, [1])


class Captures(Case):
    def test_nothing_becomes_a_part_of_the_graph(self):
        self.races()
        x, y, z = self.new(), self.new(self.a), self.new(self.a)
        t = Consumer(z, self.a)
        other = Consumer(self.new(self.b), self.a)
        self.use(other.memory, self.a)
        elsewhere = self.engine(x, stream=self.b)
        live = self.count("live memory")
        self.driver.begin_capture(self.a)
        try:
            self.engine(x, out=y, stream=self.a)
            self.engine(elsewhere, out=y, stream=self.a)
            u = Consumer(elsewhere, self.a)  # for a kernel of the graph
            u.end()
            with self.assertRaisesRegex(BufferError, "a copy would be a part of the graph"):
                x.__dlpack__(copy=True, stream=self.a)
            with self.assertRaisesRegex(fusec.InvalidArgument, "is being captured, and nothing outside can wait for it"):
                y.__dlpack__(stream=self.c)
            t.end()
            del z, t
            other.end()
            self.new(self.b)
            self.assertEqual(self.count("live memory"), live)  # what the captured stream used stays
        finally:
            self.driver.end_capture(self.a)
        self.new()
        self.assertEqual(self.count("live memory"), live - 2)
        self.assertEqual(self.races(), 0)

    def test_the_legacy_stream_beside_a_capture(self):
        y = self.new(1)
        self.driver.begin_capture(self.a)
        try:
            with self.assertRaisesRegex(fusec.DeviceError, "cuStreamIsCapturing"):
                self.engine(y, stream=1)
            live = self.count("live memory")
            del y
            self.assertEqual(self.count("live memory"), live)
        finally:
            self.driver.end_capture(self.a)
        self.new()

    def test_a_graph_keeps_its_session(self):
        x, y = self.new(), self.new(self.a)
        self.driver.begin_capture(self.a)
        try:
            self.engine(x, out=y, stream=self.a)
            self.engine(y, out=x, stream=self.a)
            for out in None, "device":
                with self.assertRaisesRegex(fusec.InvalidArgument, "give them by out="):
                    self.engine(x, stream=self.a, out=out)
        finally:
            self.driver.end_capture(self.a)
        self.assertEqual(len(set(self.engine._of_graphs)), 2)


class Sessions(Case):
    def test_each_stream_has_one(self):
        x = self.new()
        for _ in range(3):
            for stream in self.a, self.b:
                self.engine(x, stream=stream)
        self.assertEqual(list(self.engine._local.on_streams), [self.a, self.b])

    def test_their_number_is_bounded(self):
        x = self.new()
        streams = [self.driver.stream() for _ in range(20)]
        self.engine(x, stream=streams[0])
        first = self.engine._local.on_streams[streams[0]]
        for stream in streams:
            self.engine(x, stream=streams[0])
            self.engine(x, stream=stream)
        kept = self.engine._local.on_streams
        self.assertEqual((len(kept), kept[streams[0]] is first, streams[19] in kept), (8, True, True))


class Faults(Case):
    def tearDown(self):
        os.environ.pop("FUSEC_FAKE_FAIL", None)
        super().tearDown()

    def test_no_memory(self):
        gpu = _gpu.get(ORDINAL)
        with gpu.inside(), self.assertRaisesRegex(fusec.OutOfMemory, f"no memory left on {GPU} for an output of {1 << 60} bytes"):
            _gpu_tensor.new(gpu, (1 << 58,), "f32", self.a)

    def test_memory_that_cannot_be_freed(self):
        y = self.new(self.a)
        os.environ["FUSEC_FAKE_FAIL"] = "cuMemFreeAsync" if POOLS else "cuMemFree"
        with self.assertLogs("fusec", logging.WARNING) as logs:
            del y
        self.assertRegex(logs.output[0], f"memory of a tensor is lost: cuMemFree.* on {GPU} answered CUDA_ERROR_OF_THE_FAKE")
        os.environ.pop("FUSEC_FAKE_FAIL")
        self.before = (self.before[0] + 1, self.before[1])

    def test_an_event_that_fails(self):
        y = self.new(self.a)
        os.environ["FUSEC_FAKE_FAIL"] = "cuEventRecord"
        with self.assertRaisesRegex(fusec.DeviceError, f"cuEventRecord on {GPU} answered CUDA_ERROR_OF_THE_FAKE"):
            y.__dlpack__(stream=self.b)

    def test_a_stream_that_is_no_stream(self):
        with self.assertRaisesRegex(fusec.DeviceError, "cuStreamIsCapturing"):
            self.engine(self.new(), stream=12345)

    @unittest.skipIf(ORDINAL == 0, "one GPU")
    def test_another_gpu(self):
        other = Driver(0)
        stream = other.stream()
        other.leave()
        x = self.new()
        for run in self.engine, self.engine.session():
            with self.assertRaisesRegex(fusec.InvalidArgument, f"the stream belongs to another GPU, .* the primary one of {GPU}"):
                run(x, stream=stream)
        there = build(["n"], lambda x: x + 1, device="cuda:0")(np.zeros(4, np.float32), out="device")
        with self.assertRaisesRegex(fusec.InvalidArgument, f"on device \\(2, 0\\) of DLPack, and a run on a stream takes tensors of {GPU}"):
            self.engine(there, stream=self.a)
        self.assertEqual((there.device, x.device), ("cuda:0", GPU))


if __name__ == "__main__":
    unittest.main()
