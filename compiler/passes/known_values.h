// SPDX-License-Identifier: Apache-2.0
// What passes know of values whose shapes they may not know: constants that repeat along unknown axes, and index
// expressions. fold_constants stores values; this only looks at them, and stops at what depends on an input. What is
// known holds where no extent is 0.
#pragma once

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// offset + steps . index, with one step for each axis of the value; steps along axes of extent 1 are 0.
struct IndexSum {
  Dim offset;
  std::vector<int64_t> steps;
  bool operator==(const IndexSum&) const = default;
};
// At least 0 just where the sum is not.
IndexSum negated(IndexSum sum);

// Tensors of one element: `yes` where at >= 0, `no` elsewhere.
struct IndexChoice {
  IndexSum at;
  Tensor yes, no;
};

// monostate: nothing is known. A Tensor has the rank of the value, and extent 1 along axes on which the value does not
// depend. An IndexSum is an i32 or i64.
using KnownValue = std::variant<std::monostate, Tensor, IndexSum, IndexChoice>;

// Remembers what it found: masks are shared by the layers of a model. Nodes may be added to the graph.
class KnownValues {
 public:
  explicit KnownValues(const ir::Graph& graph) : graph_(graph) {}
  const KnownValue& of(ir::ValueId v) { return find(v, 0); }

 private:
  const KnownValue& find(ir::ValueId v, int depth);
  KnownValue derive(ir::ValueId v, int depth);

  const ir::Graph& graph_;
  std::map<ir::ValueId, KnownValue> found_;
};

}  // namespace fusec::compiler
