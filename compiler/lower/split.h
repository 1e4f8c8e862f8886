// SPDX-License-Identifier: Apache-2.0
// Where a generated region may be two kernels in place of one. The lower stage lists such a split as a candidate.
#pragma once

#include <string>
#include <vector>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

// `first` computes a value and keeps it in memory; `second` reads it there.
struct SplitRegion {
  Region first, second;
  ir::ValueId between;
  std::string why;
};

// The splits that may pay: behind a value that several nodes read, which a fused kernel may compute several times, and
// behind a reduction that another one needs. Only values whose type is the one that kernels compute in, so that memory
// rounds nothing.
std::vector<SplitRegion> list_splits(const ir::Graph& graph, const Region& region);

// Whether the region adds or multiplies floats, so that the order matters.
bool sums_floats(const ir::Graph& graph, const Region& region);
// Of a GPU's kernels that reduce one axis: whether the parts add what the whole does, in the same order; false if that
// is not evident.
bool parts_add_alike(const ir::Kernel& whole, const std::vector<const ir::Kernel*>& parts);

}  // namespace fusec::compiler
