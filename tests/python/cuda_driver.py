# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver, as a program without another library would use it."""
import ctypes
from ctypes import byref, c_int, c_longlong, c_size_t, c_uint, c_uint64, c_void_p

LEGACY, PER_THREAD = 1, 2


class Driver:
    """With the primary context of a GPU, which is current in the thread that makes this."""

    def __init__(self, ordinal=0):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = c_int(), c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(device), c_int(ordinal))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.context = context
        self.enter()

    def enter(self):
        """On another thread."""
        self.call("cuCtxPushCurrent_v2", self.context)

    def leave(self):
        self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answered {status}")

    def has(self, name):
        return hasattr(self.library, name)

    def stream(self):
        """Apart from the legacy default stream."""
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(1))
        return stream.value

    def destroy(self, stream):
        self.call("cuStreamDestroy_v2", c_void_p(stream))

    def wait(self, stream):
        self.call("cuStreamSynchronize", c_void_p(stream))

    def put(self, tensor, array, stream):
        """Copies to a tensor on a stream, and waits."""
        self.call("cuMemcpyHtoDAsync_v2", c_uint64(address(tensor)), c_void_p(array.ctypes.data), c_size_t(array.nbytes), c_void_p(stream))
        self.wait(stream)

    def begin_capture(self, stream, mode=0):
        self.call("cuStreamBeginCapture_v2", c_void_p(stream), c_int(mode))

    def end_capture(self, stream):
        graph = c_void_p()
        self.call("cuStreamEndCapture", c_void_p(stream), byref(graph))
        return graph

    def launcher(self, graph):
        """A function that launches the graph on a stream."""
        made = c_void_p()
        self.call("cuGraphInstantiateWithFlags", byref(made), graph, c_longlong(0))
        return lambda stream: self.call("cuGraphLaunch", made, c_void_p(stream))


def address(tensor):
    return tensor._memory.address
