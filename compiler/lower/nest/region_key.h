// SPDX-License-Identifier: Apache-2.0
// Which regions lower to the same kernel: a network repeats its blocks, and each repetition would be scheduled anew.
#pragma once

#include <string>
#include <vector>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// `text` says all that lower reads of a region but the names and numbers of its values: regions of one graph with equal
// texts become equal steps on `values`, which correspond by position.
struct RegionKey {
  std::string text;
  std::vector<ir::ValueId> values;  // what the region computes and reads, by rising id
};

RegionKey region_key(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage, const Region& region);

}  // namespace fusec::compiler
