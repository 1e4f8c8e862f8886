# SPDX-License-Identifier: Apache-2.0
"""A subgraph as engines. An engine is compiled when the piece is first called, as the contents of weights are known then."""
import collections
import logging
import threading
from ctypes import byref, c_int32

import torch

from .. import _engine, _library
from .._builder import Builder, Value
from .._errors import CompileFailed, Internal, Unsupported
from . import _dims, _dtypes, _layouts
from ._graph import constant_of, symbol_sources, symbols_of, tensors_of
from ._lowering import Lowering
from ._refused import Refused
from ._run import Runner

_log = logging.getLogger("fusec")
_address = torch.Tensor.data_ptr
_version = torch.Tensor._version.__get__
_MOST_SETS = 64  # of weights that have engines of their own, as layers that share one compiled function
WEIGHT = "fusec_weight"  # in the meta of a placeholder whose contents stay


def _no_batch(tensors, pointers, places):
    return all(tensors[i].data_ptr() == pointers[i] for i in places)


_same_pointers = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", _no_batch)


def _versions_of(weights):
    """A tensor made in inference mode does not count its changes."""
    return [0 if tensor.is_inference() else _version(tensor) for tensor in weights]


class _Weights:
    """The engine for one set of weights. `tensors` keeps their memory, so that no other tensor has the addresses."""

    __slots__ = ("runner", "tensors", "versions", "changes", "fixed")

    def __init__(self, runner, tensors, changes, fixed):
        self.runner, self.tensors, self.versions, self.changes, self.fixed = runner, tensors, None, changes, fixed


class _Interpreter:
    """Runs a piece by torch."""

    def __init__(self, module, results):
        (output,) = [node for node in module.graph.nodes if node.op == "output"]
        self._forward, self._places = module.forward, [list(output.args[0]).index(node) for node in results]

    def call(self, arguments):
        made = self._forward(*arguments)
        return [made[i] for i in self._places]


class Piece:
    """Calls an engine in place of a graph module whose nodes all have handlers. `call(arguments)` answers the list of results."""

    def __init__(self, module, options, shape_env, strict=False):
        graph = module.graph
        self._module, self._options, self._shape_env, self._strict = module, options, shape_env, strict
        self._lock = threading.RLock()
        self._placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self._weights = [i for i, node in enumerate(self._placeholders) if node.meta.get(WEIGHT)]
        (output,) = [node for node in graph.nodes if node.op == "output"]
        self.results = list(dict.fromkeys(node for node in output.args[0] if is_made(node)))
        self.symbols, self.sources = symbols_of(graph), symbol_sources(self._placeholders)
        missing = [name for name in self.symbols if name not in self.sources]
        if missing:
            raise Refused(f"nothing that the subgraph reads has the size {missing[0]}")
        self._sets, self._general = {}, None  # engines by the addresses of the weights; one that has none as constants
        self._run, self._current = None, (None, None, None)  # versions and pointers of the weights, and the call of their engine
        if not self._weights:
            self.call = self._first_call

    # --- calls

    def call(self, arguments):
        weights = [arguments[i] for i in self._weights]
        try:
            versions = list(map(_version, weights))
        except RuntimeError:
            versions = _versions_of(weights)
        known, pointers, run = self._current
        if versions == known and _same_pointers(arguments, pointers, self._weights):
            return run(arguments)
        return self._choose(arguments, tuple(map(_address, weights)), versions)(arguments)

    def _first_call(self, arguments):
        with self._lock:
            if self._run is None:
                self._run = self._compile({}).call
                self.call = self._run
        return self._run(arguments)

    def _choose(self, arguments, key, versions):
        """The call of the engine of these weights."""
        with self._lock:
            entry = self._sets.get(key)
            if entry is None and len(self._sets) >= _MOST_SETS:
                if self._general is None:
                    self._general = self._compile({})
                return self._general.call
            changed = [] if entry is None else [i for i, (a, b) in enumerate(zip(entry.versions, versions)) if a != b]
            if entry is None or any(i in entry.fixed for i in changed):
                entry = self._sets[key] = self._make_set(arguments, entry, changed)
            entry.versions = versions
            pointers = [None] * len(self._placeholders)
            for i, pointer in zip(self._weights, key):
                pointers[i] = pointer
            self._current = versions, pointers, entry.runner.call
            return entry.runner.call

    def _make_set(self, arguments, old, changed):
        """An engine for weights that are new or have changed. What changed a second time becomes an input."""
        changes = collections.Counter(changed)
        if old is not None:
            changes.update(old.changes)
            _log.info("torch.compile: %d of %d weights changed; compiling anew", len(changed), len(self._weights))
        fixed = frozenset(i for i in range(len(self._weights)) if changes[i] < 2)
        runner = self._compile({self._weights[i]: arguments[self._weights[i]] for i in sorted(fixed)})
        return _Weights(runner, [arguments[i].detach() for i in self._weights], changes, fixed)

    # --- compiling

    def _compile(self, constants):
        """A Runner of an engine with the tensors of some placeholders as constants."""
        options = dict(self._options)
        if options.get("device", "cpu") == "cpu":
            options.setdefault("threads", torch.get_num_threads())
        try:
            model, inputs = self.lower(constants)
            engine = _engine.compile(model, **options)
        except (Refused, Unsupported, CompileFailed, Internal) as fault:
            if self._strict:
                raise
            _log.warning("torch.compile: a subgraph of %d nodes did not compile and is run by torch: %s", len(self._module.graph.nodes), fault)
            return _Interpreter(self._module, self.results)
        return Runner(engine, self, inputs)

    def lower(self, constants, ranges=None, plain=False):
        """(the Model, its inputs). An input is (placeholder, its order in memory), or the name of a
        symbol of which it is the carrier. plain: inputs and outputs are row-major, whatever their order in memory."""
        builder, keep, inputs = Builder(), [], []
        builder._handle.keep = keep
        lowering = Lowering(builder)
        bound = set()
        for i, node in enumerate(self._placeholders):
            fake = node.meta.get("val")
            if not isinstance(fake, torch.Tensor) or not node.users:
                continue
            if i in constants:
                lowering.values[node] = self._constant(lowering, constants[i].detach(), keep)
                continue
            order = self.order(fake, plain)
            shape = [fake.shape[axis] for axis in order]
            value = builder.input(node.name, _dtypes.name(fake.dtype), _dims.texts(shape))
            lowering.values[node] = lowering.transpose(value, _layouts.inverse(order))
            inputs.append((i, order))
            bound |= {str(_dims.expression(e)) for e in shape if _dims.is_symbolic(e) and _dims.expression(e).is_Symbol}
        for symbol in self.symbols:
            if symbol not in bound:  # a size that no tensor has: an input whose contents nobody reads
                builder.input(f"size.{symbol}", "u8", [symbol])
                inputs.append(symbol)
        bounds = self._shape_env.var_to_range if ranges is None and self._shape_env is not None else ranges or {}
        for symbol, (least, most) in _dims.ranges(bounds, self.symbols).items():
            builder.range(symbol, least, most)
        for node in self._module.graph.nodes:
            if node.op == "get_attr":
                lowering.values[node] = self._constant(lowering, constant_of(self._module, node).detach(), keep)
            elif node.op == "call_function" and tensors_of(node.meta.get("val")):
                lowering.build(node)
        for i, node in enumerate(self.results):
            name = "y" if len(self.results) == 1 else f"y{i}"
            builder.output(name, lowering.transpose(lowering.values[node], self.order(node.meta["val"], plain)))
        return builder.finish(), inputs

    @staticmethod
    def order(fake, plain=False):
        """The order in memory in which an engine has a tensor."""
        return (None if plain else _layouts.memory_order(fake)) or list(range(fake.dim()))

    def _constant(self, lowering, tensor, keep):
        """Memory of the host is shared, that of a GPU copied."""
        order = _layouts.memory_order(tensor)
        if order is None:
            order, tensor = list(range(tensor.dim())), tensor.contiguous()
        dense = tensor.permute(order)
        out = c_int32()
        if dense.device.type == "cpu" and dense.data_ptr() % dense.element_size() == 0 and dense.numel():
            shape, managed = _dtypes.borrowed(dense)
            keep.append(dense)
            _library.call("builder_constant_managed", lowering.builder._handle.value, byref(managed), byref(out))
        else:
            shape, struct = _dtypes.copied(dense)
            _library.call("builder_constant", lowering.builder._handle.value, byref(struct), byref(out))
        assert shape is not None  # lived until here
        return lowering.transpose(Value(lowering.builder, out.value), _layouts.inverse(order))


def is_made(node):
    """Whether an output is computed: no input, no number, no None."""
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and bool(tensors_of(node.meta.get("val")))
