// SPDX-License-Identifier: Apache-2.0
// Lower: the library call of a region that has an anchor, with its bias and its epilogues.
#pragma once

#include <functional>

#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

namespace fusec::compiler {

// `view` says where a value lies.
Result<ir::LibraryStep> make_library_step(const ir::Graph& graph, const Region& region,
                                          const std::function<Result<ir::View>(ir::ValueId)>& view);

}  // namespace fusec::compiler
