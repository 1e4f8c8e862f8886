// SPDX-License-Identifier: Apache-2.0
// Model: what `compile` takes; made by load_onnx or a graph builder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/shape.h"

namespace fusec {

namespace ir {
struct Graph;
}

struct FUSEC_API TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  // Of an integer input whose elements are used as indices: the extents of the axes that they select from.
  std::vector<Dim> indexed_extents = {};
};

// Copies share the graph, which is immutable.
struct FUSEC_API Model {
  std::shared_ptr<const ir::Graph> graph;  // null: of a package, which is compiled already
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::string> symbols;           // free symbols of the input shapes
  std::map<std::string, ExtentRange> ranges;  // of symbols that may not have every value; other values are refused
};

}  // namespace fusec
