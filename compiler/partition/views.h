// SPDX-License-Identifier: Apache-2.0
// Values that need no work because they are strided views of other values.
#pragma once

#include <optional>
#include <vector>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// A value as a view: the element at coordinates c lies at offset + sum c[i] * strides[i] of `base`'s allocation.
struct StridedView {
  ir::ValueId base;
  Dim offset;
  Shape shape, strides;
  std::vector<bool> backwards;  // axes with negative strides; an expression such as -n*n + n does not show its sign
};

// The view of the result of `node` (broadcast, reshape, transpose or slice) if `in` is the view of its input;
// nullopt when no strides can express it.
std::optional<StridedView> view_through(const ir::Graph& graph, const ir::Node& node, const StridedView& in);

// The view of `value`: its own storage, or a view of the value that it views; nullopt when that value is not
// materialized.
std::optional<StridedView> find_view(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                     ir::ValueId value);

}  // namespace fusec::compiler
