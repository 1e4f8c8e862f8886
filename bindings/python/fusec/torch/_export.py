# SPDX-License-Identifier: Apache-2.0
"""Exported programs of torch as models and packages of fusec."""
from torch.export.graph_signature import InputKind, OutputKind

from .._errors import Unsupported
from . import _decompositions
from ._graph import Report
from ._piece import Piece, is_made
from ._refused import Refused


def export(program, path=None, targets=("cpu:native",), **options):
    """The fusec.Model of an ExportedProgram of torch.export.export. With a path, which ends in .fsc, it is compiled for each of the
    targets and written as a package; options are those of Model.save. Inputs have the names that torch gives them, and the output is y,
    or y0, y1, ..."""
    program = program.run_decompositions(_decompositions.table())
    module, constants = program.graph_module, {}
    report = Report(module)
    if report.refused:
        raise Unsupported(f"{report.line(0)}; a package needs all of them")
    changed = [spec.target for spec in program.graph_signature.output_specs if spec.kind not in (OutputKind.USER_OUTPUT,)]
    if changed:
        raise Unsupported(f"the program writes to {changed[0]}, and a package has inputs and outputs only")
    for i, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            constants[i] = program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            constants[i] = program.constants[spec.target]
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    outside = [item for item in output.args[0] if not is_made(item)]
    if outside:
        raise Unsupported(f"the program gives back {outside[0]}, which it does not compute")
    try:
        model, _ = Piece(module, {}, None).lower(constants, program.range_constraints, plain=True)
    except Refused as fault:
        raise Unsupported(str(fault)) from None
    if path is not None:
        model.save(path, targets, **options)
    return model
