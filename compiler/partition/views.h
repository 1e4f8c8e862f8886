// SPDX-License-Identifier: Apache-2.0
// Values that need no work because they are strided windows of other values.
#pragma once

#include <optional>
#include <vector>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// A value as a window: the element at coordinates c lies at offset + sum c[i] * strides[i] of `owner`'s allocation.
struct Window {
  ir::ValueId owner;
  Dim offset;
  Shape shape, strides;
  std::vector<bool> backwards;  // axes with negative strides; an expression such as -n*n + n does not show its sign
};

// The window of the result of `node` (broadcast, reshape, transpose or slice) if `in` is the window of its input;
// nullopt when no strides can express it.
std::optional<Window> through(const ir::Graph& graph, const ir::Node& node, const Window& in);

// The window of `value`: its own storage, or a window of the value that it views; nullopt when that value is not
// materialized.
std::optional<Window> window_of(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                ir::ValueId value);

}  // namespace fusec::compiler
