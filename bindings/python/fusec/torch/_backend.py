# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile."""
import logging

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode

from .. import _options
from .._errors import InvalidArgument, Unsupported
from . import _decompositions, _dims, _graph
from ._piece import WEIGHT, Piece, is_made
from ._refused import Refused
from ._run import values_of

_log = logging.getLogger("fusec")
_OWN = ("strict", "rest")


def split_options(options):
    """(those of the backend, those of fusec.compile)."""
    options = dict(options or {})
    own = {name: options.pop(name) for name in _OWN if name in options}
    if own.get("rest", "eager") not in ("eager", "inductor"):
        raise InvalidArgument(f"rest is {own['rest']!r}; what fusec does not take is run by 'eager' or 'inductor'")
    if "device" in options:
        raise InvalidArgument("'device' is no option of torch.compile: the device is that of the tensors")
    _options.split(options, "compile")
    return own, options


def backend(module, example_inputs, *, options=None, mode=None):
    """torch.compile(model, backend="fusec", options={...}). Options: strict=True makes it an error if fusec cannot take every node;
    rest="inductor" gives to Inductor what fusec does not take; the others are those of fusec.compile."""
    if mode not in (None, "default"):
        raise InvalidArgument(f"mode {mode!r} is one of Inductor; options of fusec are given by options={{...}}")
    own, options = split_options(options)

    def compiler(what):
        return lambda graph_module, inputs: compile_graph(graph_module, options, what, **own)

    return aot_autograd(
        fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
        decompositions=_decompositions.table(), partition_fn=_partition_fn())(module, example_inputs)


def _partition_fn():
    from functorch.compile import min_cut_rematerialization_partition
    return min_cut_rematerialization_partition


def compile_graph(module, options, what, strict=False, rest="eager"):
    """A function of the list of a graph's inputs."""
    training = what != "inference"
    if not training:
        _mark_weights(module)
    fake_mode = detect_fake_mode([node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"])
    shape_env = fake_mode.shape_env if fake_mode is not None else None
    report = _graph.Report(module, shape_env, training)
    options = {**options, "device": _device_name(report.device)}
    if report.taken and not report.refused and not _extra_work(module):
        try:
            piece = Piece(module, options, shape_env, strict)
        except Refused as fault:
            report.refused = dict.fromkeys(report.nodes, str(fault))
        else:
            _graph.announce(report, 1, strict and not training, what)
            return boxed(_whole(module, piece))
    names = _graph.split(module, report) if report.taken else []
    for name in names:
        try:
            piece = Piece(getattr(module, name), options, shape_env, strict)
        except Refused as fault:
            report.refused.update(dict.fromkeys((n for n in getattr(module, name).graph.nodes if _graph.is_compute(n)), str(fault)))
            continue
        _replace(module, name, lambda arguments, piece=piece: piece.call(arguments))
    _graph.announce(report, len(names), strict and not training, what)
    if rest == "inductor":
        for name in _graph.split_rest(module):
            _replace(module, name, _by_inductor(getattr(module, name), fake_mode))
    module.recompile()
    forward = module.forward
    return boxed(lambda arguments: forward(*arguments))


def boxed(function):
    """A function that may empty the list of its arguments, as AOTAutograd calls it."""
    def call(arguments):
        results = function(arguments)
        arguments.clear()
        return results
    call._boxed_call = True
    return call


def _device_name(device):
    if device.type == "cpu":
        return "cpu"
    if device.type == "cuda" and torch.version.hip is None:
        return f"cuda:{device.index or 0}"
    raise Unsupported(f"fusec runs on CPUs and NVIDIA GPUs, and the graph is on {device}")


def _mark_weights(module):
    """Parameters and buffers that nobody writes to: torch says which inputs stay where they are."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for i in metadata.static_input_indices:
        if i < len(placeholders) and i not in written and isinstance(placeholders[i].meta.get("val"), torch.Tensor):
            placeholders[i].meta[WEIGHT] = True
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta[WEIGHT] = True


def _results(module):
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    return list(output.args[0])


def _extra_work(module):
    """Whether results are neither inputs, nor computed tensors, nor sizes: these are left to the graph's own code."""
    return any(isinstance(item, torch.fx.Node) and item.op != "placeholder" and not is_made(item) and
               not isinstance(item.meta.get("val"), (int, torch.SymInt)) for item in _results(module))


def _whole(module, piece):
    """A graph that is one piece."""
    items = _results(module)
    if items == piece.results:
        return lambda arguments: piece.call(arguments)
    placeholders = {node: i for i, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder")}
    made = {node: i for i, node in enumerate(piece.results)}

    def getter(item):
        if item in made:
            return lambda _, results, i=made[item]: results[i]
        if item in placeholders:
            return lambda arguments, _, i=placeholders[item]: arguments[i]
        if isinstance(item, torch.fx.Node):
            size = _dims.evaluator([item.meta["val"]], piece.symbols)
            return lambda arguments, _: size(*values_of(piece.sources, piece.symbols, arguments))[0]
        return lambda *_: item

    getters = [getter(item) for item in items]

    def call(arguments):
        results = piece.call(arguments)
        return [get(arguments, results) for get in getters]
    return call


class _Call(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self._call = call

    def forward(self, *arguments):
        return self._call(list(arguments))


def _replace(module, name, call):
    setattr(module, name, _Call(call))


def _by_inductor(module, fake_mode):
    """A function of the list of a graph's inputs, compiled by Inductor, which wants ops taken apart in its own way."""
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx
    inputs = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    with fake_mode:
        traced = make_fx(module, decomposition_table=select_decomp_table())(*inputs)
    context = TracingContext.try_get()
    told = None if context is None else context.output_strides
    if context is not None:
        context.output_strides = None  # where Inductor would note the strides of the whole graph's results
    try:
        return compile_fx_inner(traced, inputs)
    finally:
        if context is not None:
            context.output_strides = told
