# SPDX-License-Identifier: Apache-2.0
"""Runs of an engine on tensors of torch: pointers in, new tensors of torch's allocator out, on torch's current stream."""
import struct
import threading
from ctypes import addressof, c_int64, create_string_buffer

import torch

from .. import _cuda, _ending, _library
from .._errors import InvalidArgument
from . import _dims, _layouts

_run_raw = _library.function("session_run_raw")
_address = torch.Tensor.data_ptr
_is_contiguous = torch.Tensor.is_contiguous
_MOST_PLANS = 1024
_NOWHERE = create_string_buffer(64)  # of inputs that are there for their extents


def _allocator(device):
    """A function (size, stride, dtype) -> tensor. Dynamo has a faster one, which on a GPU means the device that is current at the call."""
    fast = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cpu", None)
    if fast is not None and device.type == "cpu":
        return fast
    return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)


def values_of(sources, names, arguments):
    """The values of symbols, by what _graph.symbol_sources says of them."""
    values = []
    for i, axis, factor, rest in [sources[name] for name in names]:
        size = arguments[i] if axis is None else arguments[i].size(axis)
        values.append((size - rest) // factor)
    return tuple(values)


class _Session:
    """A session, and what runs of it need beside the data, by the values of the symbols."""

    __slots__ = ("handle", "plans", "_busy", "__weakref__")

    def __init__(self, engine):
        self.handle = _library.Handle("session", _library.make("session_new", engine._handle.value), engine._handle.keep)
        self.plans, self._busy = {}, threading.Lock()
        _ending.add_session(self)


class _Plan:
    __slots__ = ("extents", "extents_at", "inputs", "inputs_at", "outputs", "outputs_at", "strides", "made")


class Runner:
    """An engine of a piece. `call(arguments)` answers the list of the piece's results."""

    def __init__(self, engine, piece, inputs):
        self._engine = engine
        tensors = [item for item in inputs if not isinstance(item, str)]
        self._positions = [i for i, _ in tensors]
        self._orders = [order for _, order in tensors]
        self._all_plain = all(order == sorted(order) for order in self._orders)
        fakes = [piece._placeholders[i].meta["val"] for i in self._positions]
        shapes = [[fake.shape[axis] for axis in order] for fake, order in zip(fakes, self._orders)]
        carried = [item for item in inputs if isinstance(item, str)]
        names = piece.symbols
        self._names, self._sources = names, piece.sources
        self._places = None  # of symbols that are sizes as they are
        if all(piece.sources[name][2:] == (1, 0) for name in names):
            self._places = [piece.sources[name][:2] for name in names]
        flat = [e for shape in shapes for e in shape]
        self._in_extents = _dims.evaluator(flat, names)
        self._in_ranks = [len(shape) for shape in shapes]
        self._carried = [names.index(name) for name in carried]
        self._outputs = []
        for node in piece.results:
            fake = node.meta["val"]
            self._outputs.append((_dims.evaluator(fake.shape, names), piece.order(fake), fake.dtype))
        self._device = piece.results[0].meta["val"].device if piece.results else torch.device("cpu")
        self._pack_in = struct.Struct(f"{len(tensors) + len(carried)}P").pack_into
        self._pack_out = struct.Struct(f"{len(piece.results)}P").pack_into
        self._empty = _allocator(self._device)
        self._nowhere = [addressof(_NOWHERE)] * len(carried)
        self._local = threading.local()
        self._on_gpu = self._device.type == "cuda"
        self._of_graphs = []

    def call(self, arguments):
        if self._places is None:
            values = values_of(self._sources, self._names, arguments)
        else:
            values = tuple([arguments[i] if axis is None else arguments[i].size(axis) for i, axis in self._places])
        stream = None
        if self._on_gpu:
            stream = torch._C._cuda_getCurrentRawStream(self._device.index or 0)
            session = self._session_for_graph(values) if torch.cuda.is_current_stream_capturing() else self._session_on(stream)
        else:
            try:
                session = self._local.session
            except AttributeError:
                session = self._local.session = _Session(self._engine)
        plan = session.plans.get(values)
        if plan is None:
            plan = self._make_plan(session, values)
        tensors = [arguments[i] for i in self._positions]
        if not self._all_plain or not all(map(_is_contiguous, tensors)):
            tensors = self._dense(tensors, plan)
        empty = self._empty
        made = [empty(size, stride, dtype) for size, stride, dtype in plan.made]
        if not session._busy.acquire(False):
            if _ending.ended():
                _ending.stop_thread()
            raise InvalidArgument("a compiled function was called while it runs in the same thread")
        try:
            self._pack_in(plan.inputs, 0, *map(_address, tensors), *self._nowhere)
            self._pack_out(plan.outputs, 0, *map(_address, made))
            error = _run_raw(session.handle.value, plan.extents_at, plan.inputs_at, plan.outputs_at, stream)
        finally:
            session._busy.release()
        if error:
            _library.raise_error(error)
        return made

    def _session_on(self, stream):
        """Runs on two streams may overlap, so each has a session."""
        try:
            sessions = self._local.sessions
        except AttributeError:
            sessions = self._local.sessions = {}
        session = sessions.get(stream)
        if session is None:
            session = sessions[stream] = _Session(self._engine)
        return session

    def _session_for_graph(self, values):
        """For a call on a stream that is being captured: the graph uses memory of a session, which does nothing else from then on."""
        with _cuda.capture_relaxed():
            session = _Session(self._engine)
            _library.call("session_prepare", session.handle.value, self._make_plan(session, values).extents)
        self._of_graphs.append(session)
        return session

    def _make_plan(self, session, values):
        plan = _Plan()
        flat = list(self._in_extents(*values)) + [values[i] for i in self._carried]
        plan.extents = (c_int64 * max(len(flat), 1))(*flat)
        count = len(self._positions) + len(self._carried)
        plan.inputs, plan.outputs = (c_int64 * max(count, 1))(), (c_int64 * max(len(self._outputs), 1))()
        plan.extents_at, plan.inputs_at, plan.outputs_at = addressof(plan.extents), addressof(plan.inputs), addressof(plan.outputs)
        plan.strides, at = [], 0
        for order, rank in zip(self._orders, self._in_ranks):
            shape = [0] * rank
            for place, axis in enumerate(order):
                shape[axis] = flat[at + place]
            plan.strides.append(_layouts.dense_strides(shape, order))
            at += rank
        plan.made = []
        for size, order, dtype in self._outputs:
            shape = size(*values)
            plan.made.append((shape, _layouts.dense_strides(shape, order), dtype))
        if len(session.plans) >= _MOST_PLANS:
            session.plans.clear()
        session.plans[values] = plan
        return plan

    def _dense(self, tensors, plan):
        """The tensors as the engine reads them; a copy where memory is in another order than when the graph was made."""
        return [t if t.stride() == stride else t.permute(order).contiguous() for t, order, stride in zip(tensors, self._orders, plan.strides)]


