#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints fusec/_ops.pyi: the ops of the library as methods, for editors and type checkers.

usage: FUSEC_LIBRARY=build/release/lib python3 write_ops.py > fusec/_ops.pyi
"""
import sys
from pathlib import Path

TYPES = {"integer": "int", "number": "float", "flag": "bool", "name": "str", "text": "str", "dtype": "DTypeLike", "extent": "Extent",
         "integers": "Sequence[int]", "extents": "Sequence[Extent]"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by write_ops.py from the ops of the library; a test compares.
from typing import Any, Dict, List, Sequence, Union

from ._builder import Value

Extent = Union[int, str]
DTypeLike = Any
Argument = Any  # a Value, a number beside a Value, an array

OPS: List[Dict[str, Any]]
'''


OPERATORS = [f"__{r}{name}__" for name in ("add", "sub", "mul", "truediv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor")
             for r in ("", "r")] + [f"__{name}__" for name in ("lt", "le", "gt", "ge")]


def method(op, skip):
    """The stub of one method. `skip` arguments are given by self."""
    least, most = op["min_args"] - skip, op["max_args"] - skip
    parameters = [f"a{i}: Argument" for i in range(max(least, 0))] + [f"a{i}: Argument = ..." for i in range(max(least, 0), most)]
    parameters = ["self"] + parameters
    if parameters[1:] and op["max_args"] >= 0:
        parameters.append("/")
    attributes = sorted(op["attributes"], key=lambda a: not a["required"])
    if op["max_args"] < 0:
        parameters = ["self", "*arguments: Argument"]
    elif attributes:
        parameters.append("*")
    parameters += [f"{a['name']}: {TYPES[a['kind']]}" + ("" if a["required"] else " = ...") for a in attributes]
    return f"    def {op['op']}({', '.join(parameters)}) -> Value: ..."


def stub(ops):
    builder = [method(op, 0) for op in ops]
    value = [method(op, 1) for op in ops if op["min_args"] > 0 or op["max_args"] < 0]
    operators = [f"    def {name}(self, other: Argument) -> Value: ..." for name in OPERATORS]
    operators += [f"    def {name}(self) -> Value: ..." for name in ("__neg__", "__abs__", "__invert__")]
    return HEAD + "\n\nclass BuilderOps:\n" + "\n".join(builder) + "\n\n\nclass ValueOps:\n" + "\n".join(value + operators) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from fusec._ops import OPS
    sys.stdout.write(stub(OPS))
