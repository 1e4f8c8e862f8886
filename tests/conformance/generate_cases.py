#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the node cases that the onnx package holds as Python to files, one folder each.

  generate_cases.py FOLDER      FOLDER/node/<case>/{model.onnx,test_data_set_<i>/{input,output}_<j>.pb}

Needs the packages of cmake/deps/cases_pinned.txt. FOLDER/complete is written last.
"""
import pathlib
import sys
import warnings

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def as_proto(value, info):
    """The TensorProto (SequenceProto, OptionalProto) of a value that the graph declares by `info`."""
    if hasattr(value, "SerializeToString"):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "tensor_type":
        return numpy_helper.from_array(numpy.asarray(value), info.name)
    makers = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
              "map_type": numpy_helper.from_dict}
    return makers[kind](value, info.name)


def write_case(case, folder):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for stem, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for i, (value, info) in enumerate(zip(values, infos)):
                (data / f"{stem}_{i}.pb").write_bytes(as_proto(value, info).SerializeToString())


def main():
    root = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")  # some cases divide by zero on purpose
    cases = load_node_model_tests()
    for case in cases:
        write_case(case, root / "node" / case.name)
    (root / "complete").write_text(f"onnx {onnx.__version__}\n")
    print(f"{len(cases)} cases of onnx {onnx.__version__}")


if __name__ == "__main__":
    main()
