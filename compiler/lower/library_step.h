// SPDX-License-Identifier: Apache-2.0
// The step of a region that a library computes: the anchor's attributes, its operands, its bias and its epilogues.
#pragma once

#include <functional>

#include "compiler/partition/partition.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

namespace fusec::compiler {

// `view` gives where an operand or the result lies, or says why it has no place.
Result<ir::LibraryStep> make_library_step(const ir::Graph& graph, const Region& region,
                                          const std::function<Result<ir::View>(ir::ValueId)>& view);

}  // namespace fusec::compiler
