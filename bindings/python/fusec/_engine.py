# SPDX-License-Identifier: Apache-2.0
"""Engines and sessions: compiled models, and their runs."""
import os
import threading
from collections import OrderedDict
from ctypes import addressof, c_char, c_int64, c_void_p

import numpy

from . import _cuda, _ending, _gpu, _gpu_tensor, _host, _library, _options, _streams, _tensor
from ._errors import InvalidArgument
from ._model import Model, describe, infos
from ._structs import Tensor

_MOST_PLANS = 64  # of a session; more shapes than these take turns at the price of making plans anew
_MOST_STREAMS = 8  # of an engine in a thread; each has a session, and the memory of one
_ON_DEVICE = object()  # in place of outputs: new ones in the memory of the engine's device
_from_buffer, _address_of = c_char.from_buffer, addressof
_run_raw = _library.function("session_run_raw")


class _Io:
    """What sessions need to know of their engine."""

    __slots__ = ("inputs", "outputs", "symbols", "device", "target", "names", "input_dtypes", "output_dtypes", "on_cpu", "ordinal")

    def __init__(self, io):
        self.inputs, self.outputs, self.symbols = infos(io["inputs"]), infos(io["outputs"]), tuple(io["symbols"])
        self.device, self.target = io["device"], io["target"]
        self.names = {info.name: i for i, info in enumerate(self.inputs)}
        self.input_dtypes = [info.numpy_dtype for info in self.inputs]
        self.output_dtypes = [info.numpy_dtype for info in self.outputs]
        self.on_cpu = self.device == "cpu"
        self.ordinal = None if self.on_cpu else int(self.device.split(":")[1])


class _Plan:
    """What a run with these input shapes needs beside the data: made once, used by each run."""

    __slots__ = ("extents", "in_pointers", "out_pointers", "made")

    def __init__(self, extents, inputs, made):
        self.extents = extents
        self.in_pointers = (c_void_p * inputs)()
        self.out_pointers = (c_void_p * len(made))()
        self.made = made  # [(shape, NumPy dtype)] of the outputs


def _address(array):
    try:
        return _address_of(_from_buffer(array))  # a quarter of the time of array.ctypes.data
    except (TypeError, ValueError):  # read-only, or without elements
        return array.__array_interface__["data"][0]


def _is_dense(array, dtype):
    if type(array) is not numpy.ndarray or array.dtype != dtype:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


class Session:
    """Runs an engine, for one thread at a time. Made by Engine.session()."""

    def __init__(self, engine_handle, io):
        self._io = io
        self._handle = _library.Handle("session", _library.make("session_new", engine_handle.value), engine_handle.keep)
        self._plans = {}
        self._busy = threading.Lock()
        self._stream = None  # that was used last
        self._is_for_graph = False
        _ending.add_session(self)

    def run(self, *inputs, out=None, stream=None, **named):
        """Runs on inputs by position or by name. One output comes back as an array, several as a tuple. `out` gives the outputs to write
        to: an array, a sequence in the order of the engine's outputs, or a dict by name; "device": new ones in the memory of the engine's
        device, on a GPU as GpuTensors. With `stream`, a CUDA stream as an int or an object, the call returns when the run is queued there;
        its tensors lie on the GPU. A run on another stream than the one before waits for that one, as they share the session's memory."""
        if stream is not None:
            gpu, stream = _take_stream(self._io, stream)
            with gpu.inside():
                return self._queue(gpu, stream, gpu.is_capturing(stream.handle), inputs, out, named)
        if named or len(inputs) != len(self._io.inputs):
            inputs = self._order(inputs, named)
        if not self._busy.acquire(False):
            self._refuse_use()
        try:
            outputs = self._run(inputs, None if out is None else self._outs(out))
        finally:
            self._busy.release()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    __call__ = run

    def prepare(self, *shapes):
        """Does all that the first run with inputs of these shapes would do beside running."""
        if len(shapes) != len(self._io.inputs):
            raise InvalidArgument(f"{len(shapes)} shapes were given, and the engine has {len(self._io.inputs)} inputs: {describe(self._io)}")
        with self._busy:
            _library.call("session_prepare", self._handle.value, self._plan(tuple(tuple(shape) for shape in shapes)).extents)

    def profile(self, *inputs, runs=20, **named):
        """Runs many times, `runs` of them traced, and tells as a dict where the time of a run goes, in microseconds: "measured_us" of an
        untraced run, its parts "sum_us" (launches), "copies_us", "gaps_us", "host_us" and "unexplained_us", and "launches" one by one. It
        is what `fusec profile --json` prints."""
        if runs < 1:
            raise InvalidArgument(f"runs is {runs}; a profile needs at least one run")
        if named or len(inputs) != len(self._io.inputs):
            inputs = self._order(inputs, named)
        if not self._busy.acquire(False):
            self._refuse_use()
        try:
            reads = self._read(inputs)
            tensors = (Tensor * len(reads))(*(argument.tensor for argument in reads))
            return _library.read_json("session_profile_json", self._handle.value, tensors, len(reads), runs)
        finally:
            self._busy.release()

    @staticmethod
    def _refuse_use():
        if _ending.ended():
            _ending.stop_thread()
        raise InvalidArgument("this session is in use by another thread; make one for each thread by engine.session()")

    def _order(self, inputs, named):
        io = self._io
        found = dict(zip(io.names, inputs))
        for name in named:
            if name not in io.names or name in found:
                why = "is given twice" if name in found else "is no input"
                raise InvalidArgument(f"'{name}' {why}; the engine is {describe(io)}")
        found.update(named)
        missing = [name for name in io.names if name not in found]
        if missing or len(inputs) > len(io.inputs):
            what = f"input '{missing[0]}' is missing" if missing else f"{len(inputs)} inputs were given"
            raise InvalidArgument(f"{what}; the engine is {describe(io)}")
        return [found[name] for name in io.names]

    def _outs(self, out):
        io = self._io
        if isinstance(out, str):
            if out != "device":
                raise InvalidArgument(f"out is '{out}'; it is 'device', an array, a sequence of arrays, or a dict of them by name")
            return None if io.on_cpu else _ON_DEVICE
        if isinstance(out, dict):
            if set(out) != {info.name for info in io.outputs}:
                raise InvalidArgument(f"out names {sorted(out)}; the engine is {describe(io)}")
            return [out[info.name] for info in io.outputs]
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(outs) != len(io.outputs):
            raise InvalidArgument(f"out has {len(outs)} members, and the engine has {len(io.outputs)} outputs: {describe(io)}")
        return outs

    def _plan(self, shapes):
        plan = self._plans.get(shapes)
        if plan is None:
            plan = self._make_plan(shapes)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[shapes] = plan
        return plan

    def _make_plan(self, shapes):
        io = self._io
        for shape, info in zip(shapes, io.inputs):
            if len(shape) != len(info.shape):
                raise InvalidArgument(f"input '{info.name}' has shape {list(shape)}, and the engine takes {len(info.shape)} extents: {describe(io)}")
        flat = [extent for shape in shapes for extent in shape]
        extents = (c_int64 * len(flat))(*flat)
        ranks = [len(info.shape) for info in io.outputs]
        answered = (c_int64 * sum(ranks))()
        _library.call("session_output_shapes", self._handle.value, extents, answered)
        made, at = [], 0
        for rank, dtype in zip(ranks, io.output_dtypes):
            made.append((tuple(answered[at: at + rank]), dtype))
            at += rank
        return _Plan(extents, len(io.inputs), made)

    def _run(self, inputs, outs):
        io = self._io
        if io.on_cpu:
            for array, dtype in zip(inputs, io.input_dtypes):
                if not _is_dense(array, dtype):
                    break
            else:
                shapes = tuple([array.shape for array in inputs])
                plan = self._plans.get(shapes) or self._plan(shapes)
                if outs is None:
                    outputs = [numpy.empty(shape, dtype) for shape, dtype in plan.made]
                    return self._run_dense(plan, inputs, outputs)
                for item, (shape, dtype) in zip(outs, plan.made):
                    if not _is_dense(item, dtype) or item.shape != shape or not item.flags.writeable:
                        break
                else:
                    return self._run_dense(plan, inputs, outs)
        return self._run_tensors(inputs, outs)

    def _run_dense(self, plan, inputs, outputs):
        pointers = plan.in_pointers
        for i, array in enumerate(inputs):
            pointers[i] = _address(array)
        pointers = plan.out_pointers
        for i, array in enumerate(outputs):
            pointers[i] = _address(array)
        error = _run_raw(self._handle.value, plan.extents, plan.in_pointers, plan.out_pointers, None)
        if error:
            _library.raise_error(error)
        return outputs

    def _read(self, inputs):
        reads = [_tensor.read(item, f"input '{info.name}'", info.dtype) for item, info in zip(inputs, self._io.inputs)]
        for argument, info in zip(reads, self._io.inputs):
            _check_dtype(argument, "input", info)
        return reads

    def _run_tensors(self, inputs, outs):
        io = self._io
        reads = self._read(inputs)
        plan = self._plan(tuple([argument.shape for argument in reads]))
        if outs is _ON_DEVICE:
            outputs = self._ready_on_gpu(plan)
        else:
            outputs = [numpy.empty(shape, dtype) for shape, dtype in plan.made] if outs is None else outs
        writes = [_tensor.write(item, f"output '{info.name}'", info.dtype) for item, info in zip(outputs, io.outputs)]
        self._check_outputs(plan, writes)
        self._call("session_run", reads, writes)
        return outputs

    def _check_outputs(self, plan, writes):
        for argument, info, (shape, _) in zip(writes, self._io.outputs, plan.made):
            _check_dtype(argument, "output", info)
            if argument.shape != shape:
                raise InvalidArgument(f"output '{info.name}' has shape {list(argument.shape)}, and these inputs make {list(shape)}")

    def _call(self, function, reads, writes, *more):
        c_reads = (Tensor * len(reads))(*(argument.tensor for argument in reads))
        c_writes = (Tensor * len(writes))(*(argument.tensor for argument in writes))
        _library.call(function, self._handle.value, c_reads, len(reads), c_writes, len(writes), *more)

    def _new_on_gpu(self, gpu, plan, handle=None, keep=None):
        """Inside the GPU."""
        return [_gpu_tensor.new(gpu, shape, info.dtype, handle, keep) for info, (shape, _) in zip(self._io.outputs, plan.made)]

    def _ready_on_gpu(self, plan):
        """For a run that is over when the call returns."""
        gpu = _gpu.get(self._io.ordinal)
        with gpu.inside():
            made = self._new_on_gpu(gpu, plan)
            gpu.call("cuStreamSynchronize", gpu.waited)
        return made

    def _queue(self, gpu, stream, captured, inputs, out, named):
        """A run on a stream. Inside the GPU."""
        if named or len(inputs) != len(self._io.inputs):
            inputs = self._order(inputs, named)
        if not self._busy.acquire(False):
            self._refuse_use()
        try:
            outputs = self._run_on(gpu, stream, captured, inputs, None if out is None else self._outs(out))
        finally:
            self._busy.release()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run_on(self, gpu, stream, captured, inputs, outs):
        io, handle = self._io, stream.handle
        if self._stream != handle:
            gpu.check_stream(handle)
            self._stream = handle
        if captured:
            _check_outs_of_graph(outs)
        reads = [_streams.place(item, f"input '{info.name}'", gpu, handle, captured) for item, info in zip(inputs, io.inputs)]
        for placed, info in zip(reads, io.inputs):
            _check_dtype(placed, "input", info)
        shapes = tuple([placed.shape for placed in reads])
        plan = self._plans.get(shapes) or self._plan(shapes)
        outputs = self._new_on_gpu(gpu, plan, handle, stream.keep) if outs is None or outs is _ON_DEVICE else outs
        writes = [_streams.place(item, f"output '{info.name}'", gpu, handle, captured, write=True) for item, info in zip(outputs, io.outputs)]
        self._check_outputs(plan, writes)
        if captured and self._is_for_graph:
            _library.call("session_prepare", self._handle.value, plan.extents)
        try:
            self._put(plan, reads, writes, handle)
        finally:
            if not captured:
                for placed in reads:
                    if placed.memory is not None:
                        placed.memory.used(handle)
                for placed in writes:
                    if placed.memory is not None:
                        placed.memory.used(handle, write=True)
        return outputs

    def _put(self, plan, reads, writes, handle):
        ins, outs = [placed.address for placed in reads], [placed.address for placed in writes]
        if None in ins or None in outs:  # with strides
            self._call("session_run_async", [placed.argument() for placed in reads], [placed.argument() for placed in writes], handle)
            return
        plan.in_pointers[:], plan.out_pointers[:] = ins, outs
        error = _run_raw(self._handle.value, plan.extents, plan.in_pointers, plan.out_pointers, handle)
        if error:
            _library.raise_error(error)


def _take_stream(io, stream):
    """(the GPU, the stream)"""
    stream = _streams.take(stream)
    if io.on_cpu:
        raise InvalidArgument("stream= is for engines on a GPU; this one runs on the CPU, where a run is over when the call returns")
    return _gpu.get(io.ordinal), stream


def _check_outs_of_graph(outs):
    if outs is None or outs is _ON_DEVICE or isinstance(outs, str):
        raise InvalidArgument("the stream is being captured, and the graph writes to the same outputs whenever it is launched: give them by out=")


def _check_dtype(argument, kind, info):
    if argument.dtype != info.dtype:
        raise InvalidArgument(f"{kind} '{info.name}' has dtype {argument.dtype}, and the engine has {info.dtype}; convert it, such as by "
                              f".astype('{info.numpy_dtype}')")


class Engine:
    """A compiled model. Call it with arrays: engine(x), engine(x, y), engine(name=x). Any number of threads may call it."""

    def __init__(self, handle, model=None, options=None):
        if not isinstance(handle, _library.Handle):
            raise TypeError("an Engine is made by fusec.compile or fusec.load")
        self._handle, self._model, self._options = handle, model, options
        self._io = _Io(_library.read_json("engine_io_json", handle.value))
        self._local = threading.local()
        self._of_graphs = []

    inputs = property(lambda self: self._io.inputs, doc="Name, dtype and shape of each input.")
    outputs = property(lambda self: self._io.outputs, doc="Name, dtype and shape of each output.")
    symbols = property(lambda self: self._io.symbols, doc="Names that the shapes use; a run gives them values.")
    device = property(lambda self: self._io.device, doc='"cpu" or "cuda:0".')
    target = property(lambda self: self._io.target, doc='What the code is made for, such as "x86-64-v4" or "sm_90".')

    @property
    def stats(self):
        """What compiling took and made, as a dict."""
        return _library.read_json("engine_stats_json", self._handle.value)

    @property
    def weights(self):
        """Those that set_weight replaces: the constants that the option replaceable_weights named."""
        return infos(_library.read_json("engine_weights_json", self._handle.value))

    def set_weight(self, name, array):
        """Replaces the contents of a weight for all sessions: runs that begin from here on see them. The array has the dtype and shape of the
        weight, and is copied. The next run packs weights anew and compiles nothing."""
        known = {info.name: info.dtype for info in self.weights}
        argument = _tensor.read(array, f"weight '{name}'", known.get(name))
        _library.call("engine_set_weight", self._handle.value, name.encode(), _tensor.pointer(argument))

    def session(self):
        """A session of its own, for one thread at a time."""
        return Session(self._handle, self._io)

    def _session_on(self, handle):
        """Runs on two streams may overlap, so each has a session in each thread. One that makes room is freed when its run is over."""
        try:
            sessions = self._local.on_streams
        except AttributeError:
            sessions = self._local.on_streams = OrderedDict()
        session = sessions.get(handle)
        if session is None:
            while len(sessions) >= _MOST_STREAMS:
                sessions.popitem(last=False)
            session = sessions[handle] = self.session()
        sessions.move_to_end(handle)
        return session

    def _session_for_graph(self, out):
        """The graph of the caller uses memory of a session, which does nothing else from then on."""
        _check_outs_of_graph(out)
        session = self.session()
        session._is_for_graph = True
        self._of_graphs.append(session)
        return session

    def _own_session(self):
        try:
            return self._local.session
        except AttributeError:
            session = self._local.session = self.session()
            return session

    def run(self, *inputs, out=None, stream=None, **named):
        """As Session.run, on a session of the calling thread, and with `stream` on one of the thread and the stream. In a capture it is a new
        one, which lives as long as the engine."""
        if stream is not None:
            gpu, stream = _take_stream(self._io, stream)
            with gpu.inside():
                captured = gpu.is_capturing(stream.handle)
                session = self._session_for_graph(out) if captured else self._session_on(stream.handle)
                return session._queue(gpu, stream, captured, inputs, out, named)
        try:
            session = self._local.session
        except AttributeError:
            session = self._own_session()
        return session.run(*inputs, out=out, **named) if named else session.run(*inputs, out=out)  # merging no names costs, too

    __call__ = run

    def prepare(self, *shapes):
        """Session.prepare for the calling thread."""
        self._own_session().prepare(*shapes)

    def profile(self, *inputs, runs=20, **named):
        """Session.profile with the session of the calling thread."""
        return self._own_session().profile(*inputs, runs=runs, **named)

    def save(self, path, targets=None, **options):
        """Writes a package of the model that this engine was compiled from, with the same options. Without targets: for this one."""
        if self._model is None:
            raise InvalidArgument("this engine was loaded from a package and has no model; copy the package, or compile the model")
        if targets is None:
            targets = [f"{self.device.split(':')[0]}:{self.target}"]
        kept = {name: value for name, value in self._options.items() if name not in ("device", "target")}
        self._model.save(path, targets, **{**kept, **options})

    def __repr__(self):
        return f"fusec.Engine({describe(self._io)} on {self.device})"

    def __reduce__(self):
        raise TypeError("an Engine is not pickled; save it by engine.save, and fusec.load the package")


def compile(model, progress=None, **options):
    """Compiles a Model, an ONNX file, the bytes of one, or a Builder, into an Engine. Options: fusec.option_keys(), such as
    device="cuda:0", tf32=True, precision="f16", threads=4. progress(stage, done) is told how far a stage is, from 0 to 1; if it answers
    True, the call raises fusec.Cancelled. Ctrl-C cancels, too."""
    if isinstance(model, Model):
        (compiles,) = _options.split(options, "compile")
    elif hasattr(model, "finish"):
        (compiles,) = _options.split(options, "compile")
        model = model.finish()
    else:
        compiles, imports = _options.split(options, "compile", "import")
        if isinstance(model, (bytes, bytearray, memoryview)):
            model = Model.load_onnx_bytes(model, **imports)
        elif isinstance(model, (str, os.PathLike)):
            model = Model.load_onnx(model, **imports)
        else:
            raise InvalidArgument(f"a {type(model).__name__} is no model; give the path of an ONNX file, its bytes, a Model or a Builder")
    _cuda.prepare(compiles.get("device", ""))
    told = _host.Progress(progress)
    handle = _options.make(compiles, told)
    return Engine(told.run(lambda: _library.Handle(
        "engine", _library.make("engine_compile", model._handle.value, handle.value), (model._handle.keep, told))), model, compiles)


def load(package, progress=None, **options):
    """Loads the code of a package that fits the device of the options: of a file (.fsc), or of its bytes, which need trust=True or
    verify_key=, because nothing tells whose they are. progress: as compile has it."""
    compiles, loads = _options.split(options, "compile", "load")
    _cuda.prepare(compiles.get("device", ""))
    told = _host.Progress(progress)
    handle = _options.make({**compiles, **loads}, told)
    if isinstance(package, (bytes, bytearray, memoryview)):
        data = bytes(package)
        call = ("engine_load_bytes", data, len(data), handle.value)
    else:
        call = ("engine_load", os.fsencode(package), handle.value)
    return Engine(told.run(lambda: _library.Handle("engine", _library.make(*call), told)))


def devices():
    """The CPU, then the GPUs that this process can use: [{"device": "cuda:0", "name": ..., "target": ...}, ...]."""
    return _library.read_json("devices_json")
