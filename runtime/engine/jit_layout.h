// SPDX-License-Identifier: Apache-2.0
// Layouts of the caller's memory that a graph can read where it lies.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::runtime {

// Dense memory of the axes in `order`, outermost first; axes that are absent have stride 0 (one element for all
// indices).
struct Layout {
  std::vector<int> order;
  auto operator<=>(const Layout&) const = default;
};

Layout row_major_layout(int rank);
// nullopt: the memory has gaps, overlaps or runs backwards.
std::optional<Layout> infer_layout(const Tensor& tensor);
// The memory itself, as a row-major tensor of the axes in `layout`.
Tensor borrow_memory(const Tensor& tensor, const Layout& layout);

// The graph with each input replaced by its memory, followed by the transpose and broadcast that give back the input.
ir::Graph with_layouts(const ir::Graph& graph, std::span<const Layout> layouts);

}  // namespace fusec::runtime
