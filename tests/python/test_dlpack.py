# SPDX-License-Identifier: Apache-2.0
"""Objects with __dlpack__ as inputs and outputs, of both versions of the protocol, and in dtypes that NumPy lacks."""
import ctypes

import numpy as np

import fusec
from fusec import _structs
from support import TestCase, build, run_python

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Versioned:
    """What a library of DLPack 1.x makes over the memory of an array, here a dense one."""

    def __init__(self, array, code, read_only=False, major=1):
        self.array, self.calls = array, []
        self.managed = _structs.ManagedTensor()
        self.managed.version.major, self.managed.flags = major, int(read_only)
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = self.managed.tensor
        tensor.data, tensor.ndim, tensor.shape = array.ctypes.data, array.ndim, self.shape
        tensor.device.type, tensor.dtype = 1, _structs.DType(code, array.itemsize * 8, 1)

    def __dlpack__(self, **arguments):
        self.calls.append(arguments)
        return _new(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return (1, 0)


class Old:
    """A library that knows no max_version."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class Dlpack(TestCase):
    def test_both_versions(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        engine = build(["n", "m"], lambda x: x + 1)
        for item in (Versioned(x, 2), Old(x), Old(x.T)):
            np.testing.assert_array_equal(engine(item), item.array + 1)

    def test_bf16(self):
        bits = fusec.to_bf16([1, 2, -3])
        out = Versioned(np.zeros(3, np.uint16), 4)
        engine = build(["n"], lambda x: x * 2, "bf16")
        np.testing.assert_array_equal(fusec.from_bf16(engine(Versioned(bits, 4))), [2, 4, -6])
        self.assertIs(engine(bits, out=out), out)
        np.testing.assert_array_equal(fusec.from_bf16(out.array), [2, 4, -6])
        with self.assertRaisesRegex(fusec.InvalidArgument, "has dtype u16, and the engine has bf16"):
            engine(Versioned(bits, 1))

    def test_output_without_a_copy(self):
        out = np.zeros(3, np.float32)
        build(["n"], lambda x: x + 1)(np.ones(3, np.float32), out=Versioned(out, 2))
        np.testing.assert_array_equal(out, [2, 2, 2])

    def test_results_go_on_by_dlpack(self):
        y = build(["n"], lambda x: x + 1)(np.ones(3, np.float32))
        np.testing.assert_array_equal(np.from_dlpack(y), [2, 2, 2])

    def test_refusals(self):
        engine = build(["n"], lambda x: x + 1)
        x = np.ones(3, np.float32)
        with self.assertRaisesRegex(fusec.InvalidArgument, "output 'y' is read-only"):
            engine(x, out=Versioned(np.zeros(3, np.float32), 2, read_only=True))
        with self.assertRaisesRegex(fusec.InvalidArgument, "speaks DLPack 2"):
            engine(Versioned(x, 2, major=2))
        with self.assertRaisesRegex(fusec.InvalidArgument, "DLPack dtype code 5"):
            engine(Versioned(np.zeros(3, np.complex64), 5))

    def test_asks_for_version_one(self):
        item = Versioned(np.ones(3, np.float32), 2)
        build(["n"], lambda x: x + 1)(item)
        self.assertEqual(item.calls, [{"max_version": (1, 0)}])

    def test_a_gpu_tensor_is_waited_for(self):
        driver = self.shared_library(self.folder() / "libcuda.so.1", """
            #include <stdio.h>
            int cuInit(unsigned f) { printf("init\\n"); return 0; }
            int cuDeviceGet(int* d, int n) { *d = n + 40; return 0; }
            int cuDevicePrimaryCtxRetain(void** c, int d) { printf("retain %d\\n", d); *c = (void*)(long)(d + 1000); return 0; }
            int cuCtxPushCurrent_v2(void* c) { printf("push %ld\\n", (long)c); return 0; }
            int cuCtxPopCurrent_v2(void** c) { printf("pop\\n"); fflush(stdout); return 0; }
            int cuStreamSynchronize(void* s) { printf("wait %ld\\n", (long)s); static int calls; return calls++ ? 700 : 0; }""")
        code = ("from fusec import _cuda\n_cuda.wait_for_default_stream(2)\n"
                "try: _cuda.wait_for_default_stream(2)\nexcept Exception as fault: print(type(fault).__name__, fault)")
        status, out, errors = run_python(code, LD_PRELOAD=str(driver))
        self.assertEqual(status, 0, errors)
        self.assertEqual(out, "init\nretain 42\npush 1042\nwait 1\npop\npush 1042\nwait 1\npop\n"
                         "DeviceError waiting for the work on a GPU tensor failed: cuStreamSynchronize answered 700\n")

    def test_constant(self):
        weights = Versioned(np.arange(3, dtype=np.float32), 2)
        np.testing.assert_array_equal(build(["n", 3], lambda x: x * weights)(np.ones((1, 3), np.float32)), [[0, 1, 2]])
