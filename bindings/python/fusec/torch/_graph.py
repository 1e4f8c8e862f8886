# SPDX-License-Identifier: Apache-2.0
"""What fusec can take of a graph, and the graph with what it takes replaced by pieces."""
import collections
import logging

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from .._errors import InvalidArgument, Unsupported
from . import _dims, _dtypes
from ._lowering import Lowering, find_overload, is_compute
from ._refused import Refused

_log = logging.getLogger("fusec")

# A subgraph of these alone moves nothing in torch, and would be a copy in fusec.
_VIEWS = {find_overload(name) for name in (
    "view.default", "_unsafe_view.default", "reshape.default", "expand.default", "permute.default", "transpose.int", "t.default", "unsqueeze.default",
    "squeeze.dim", "squeeze.dims", "squeeze.default", "slice.Tensor", "select.int", "split.Tensor", "split_with_sizes.default", "unbind.int",
    "alias.default", "detach.default", "full.default", "empty.memory_format", "zeros.default", "ones.default", "scalar_tensor.default",
    "arange.start_step", "diagonal.default", "as_strided.default", "lift_fresh_copy.default")}

# What torch does by its own libraries in training, where weights are no constants.
_PRODUCTS = {find_overload(name) for name in (
    "mm.default", "bmm.default", "addmm.default", "baddbmm.default", "linear.default", "matmul.default", "convolution.default",
    "_scaled_dot_product_flash_attention_for_cpu.default", "_scaled_dot_product_flash_attention.default",
    "_scaled_dot_product_efficient_attention.default", "_scaled_dot_product_cudnn_attention.default", "scaled_dot_product_attention.default")}


def tensors_of(value):
    """The fake tensors of a node's value."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for member in value for t in tensors_of(member)]
    return []


def device_of(graph):
    """The device that most of a graph computes on."""
    counts = collections.Counter(t.device for node in graph.nodes if is_compute(node) for t in tensors_of(node.meta.get("val")))
    return counts.most_common(1)[0][0] if counts else torch.device("cpu")


def constant_of(module, node):
    """The tensor that a get_attr node names."""
    found = module
    for name in node.target.split("."):
        found = getattr(found, name)
    return found


def _equations(shape_env):
    return 0 if shape_env is None else len(shape_env.replacements)


class Report:
    """Which nodes of a graph fusec can take, and why not the others."""

    def __init__(self, module, shape_env=None, training=False):
        self.device, self.training = device_of(module.graph), training
        self.refused = {}  # {node: why}
        self.left = []  # nodes that fusec could take and that are better off with torch
        self.nodes = [node for node in module.graph.nodes if is_compute(node)]
        while True:
            known = _equations(shape_env)
            self.refused = {}
            self._try(module)
            if _equations(shape_env) == known:  # else handlers found symbols to be equal, which have one name from now on
                break

    def _try(self, module):
        lowering = Lowering()
        for node in module.graph.nodes:
            if node.op == "output":
                continue
            if node.op == "call_function" and node not in lowering.values:
                if not tensors_of(node.meta.get("val")):
                    if is_compute(node):
                        self.refused[node] = "it makes no tensor"
                    continue
                try:
                    self._check(node)
                    lowering.build(node)
                    continue
                except Refused as fault:
                    self.refused[node if is_compute(node) else node.args[0]] = str(fault)  # of a getitem: its producer
            if tensors_of(node.meta.get("val")) or node.op == "get_attr":
                self._stand_in(module, lowering, node)

    def _check(self, node):
        if self.training and node.target in _PRODUCTS:
            raise Refused("products of training are made by torch")
        for source in [node, *node.all_input_nodes]:
            for tensor in tensors_of(source.meta.get("val")):
                if tensor.device != self.device and not (source.op == "get_attr" and tensor.dim() == 0):
                    raise Refused(f"a tensor is on {tensor.device}, and the graph on {self.device}")
                if tensor.layout != torch.strided or tensor.is_quantized:
                    raise Refused("a tensor is sparse or quantized")

    def _stand_in(self, module, lowering, node):
        """An input in place of what torch computes. A dtype that fusec lacks is reported where the value is used."""
        value = node.meta.get("val")
        if value is None:
            value = node.meta["val"] = constant_of(module, node)
        try:
            if isinstance(value, torch.Tensor):
                lowering.values[node] = lowering.builder.input(node.name, _dtypes.name(value.dtype), _dims.texts(value.shape))
            else:
                lowering.values[node] = [None if not isinstance(v, torch.Tensor) else lowering.builder.input(
                    f"{node.name}.{i}", _dtypes.name(v.dtype), _dims.texts(v.shape)) for i, v in enumerate(value)]
        except (Refused, InvalidArgument):
            pass

    @property
    def taken(self):
        return len(self.nodes) - len(self.refused) - len(self.left)

    def line(self, pieces):
        """One line on what is taken and why not the rest."""
        text = f"fusec takes {self.taken} of {len(self.nodes)} nodes"
        if not self.refused and not self.left:
            return text
        groups = collections.Counter((str(node.target), why) for node, why in self.refused.items())
        if self.left:
            groups["views", "which move nothing there"] = len(self.left)
        rest = "; ".join(f"{count} {target} ({why})" for (target, why), count in groups.most_common(8))
        more = len(groups) - 8
        return f"{text}, in {pieces} {'piece' if pieces == 1 else 'pieces'}; torch keeps {rest}" + (f"; and {more} more kinds" if more > 0 else "")


class _Support(OperatorSupportBase):
    def __init__(self, report):
        self._report = report

    def is_node_supported(self, submodules, node):
        if node.op != "call_function" or not tensors_of(node.meta.get("val")):
            return False
        if not is_compute(node):  # a getitem goes with its producer
            return node.args[0] not in self._report.refused
        return node not in self._report.refused


def split(module, report):
    """[name of the submodule] after the nodes that fusec takes have become calls of submodules."""
    partitioner = CapabilityBasedPartitioner(module, _Support(report), allows_single_node_partition=True)
    proposed = []
    for partition in partitioner.propose_partitions():
        nodes = list(partition.nodes)
        if all(node.target in _VIEWS or not is_compute(node) for node in nodes):
            report.left += [node for node in nodes if is_compute(node)]
        else:
            order = {node: i for i, node in enumerate(module.graph.nodes)}
            proposed.append({node: None for node in sorted(nodes, key=order.get)})
    fuse_by_partitions(module, proposed, prefix="fusec_", always_return_tuple=True)
    calls = [node for node in module.graph.nodes if node.op == "call_module" and node.target.startswith("fusec_")]
    for call in calls:
        _pass_sizes(module, call)
    return [call.target for call in calls]


class _Rest(OperatorSupportBase):
    """What is left when fusec's pieces are calls of submodules."""

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and bool(tensors_of(node.meta.get("val")))


def split_rest(module):
    """[name of the submodule] after what fusec left has become calls of submodules, too."""
    order = {node: i for i, node in enumerate(module.graph.nodes)}
    partitions = CapabilityBasedPartitioner(module, _Rest(), allows_single_node_partition=True).propose_partitions()
    proposed = [{node: None for node in sorted(partition.nodes, key=order.get)} for partition in partitions
                if any(is_compute(node) and node.target not in _VIEWS for node in partition.nodes)]
    fuse_by_partitions(module, proposed, prefix="rest_", always_return_tuple=True)
    return [node.target for node in module.graph.nodes if node.op == "call_module" and node.target.startswith("rest_")]


def _pass_sizes(module, call):
    """Gives a submodule the sizes that its extents are made of and none of its arguments has."""
    graph = getattr(module, call.target).graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    known = set(symbol_sources(inputs))
    sources = symbol_sources([node for node in module.graph.nodes if node.op == "placeholder"])
    parents = [node for node in module.graph.nodes if node.op == "placeholder"]
    for name in symbols_of(graph):
        if name in known or name not in sources or sources[name][2:] != (1, 0):
            continue
        i, axis = sources[name][:2]
        size = parents[i]
        if axis is not None:
            extent = parents[i].meta["val"].shape[axis]
            with module.graph.inserting_before(call):
                size = module.graph.call_function(torch.ops.aten.sym_size.int, (parents[i], axis))
            size.meta["val"] = extent
        with graph.inserting_after(inputs[-1]) if inputs else graph.inserting_before(next(iter(graph.nodes))):
            added = graph.placeholder(f"size_{name}")
        added.meta["val"] = size.meta["val"]
        inputs.append(added)
        call.args = (*call.args, size)


def symbols_of(graph):
    """The names of all symbols in extents of a graph."""
    values = [node.meta.get("val") for node in graph.nodes]
    return _dims.symbols([e for v in values for e in ([v] if isinstance(v, torch.SymInt) else [e for t in tensors_of(v) for e in t.shape])])


def symbol_sources(placeholders):
    """{symbol: (i, axis, a, b)}: the size of argument i along axis is a * symbol + b; without an axis it is the argument itself."""
    sources = {}

    def note(extent, source):
        affine = _dims.affine(extent) if _dims.is_symbolic(extent) else None
        if affine is not None and (affine[0] not in sources or affine[1:] == (1, 0) != sources[affine[0]][2:]):
            sources[affine[0]] = (*source, *affine[1:])

    for i, node in enumerate(placeholders):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            note(value, (i, None))
        for axis, extent in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            note(extent, (i, axis))
    return sources


def announce(report, pieces, strict, what):
    line = report.line(pieces)
    if report.refused and strict:
        raise Unsupported(f"{line} (options={{\"strict\": True}} asks for all)")
    _log.log(logging.WARNING if report.refused and what == "inference" else logging.INFO, "torch.compile, %s: %s", what, line)


