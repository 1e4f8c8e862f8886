// SPDX-License-Identifier: Apache-2.0
// Identifies regions that lower to the same kernel. A network repeats its blocks, and each repetition would otherwise
// be scheduled again.
#pragma once

#include <string>
#include <vector>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// `text` contains all that lower reads of a region except the names and numbers of its values. Regions of one graph
// with equal texts become equal steps on `values`, which correspond by position.
struct RegionKey {
  std::string text;
  std::vector<ir::ValueId> values;  // the values that the region computes and reads, by rising id
};

RegionKey region_key(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage, const Region& region);

}  // namespace fusec::compiler
