// SPDX-License-Identifier: Apache-2.0
// Sliding windows as index maps: what one place of every window reads.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::compiler {

// For each result of `window`, a conv or pool whose spatial extents are known, the element of its first operand that
// lies at `tap` of the result's window: a slice, padded with the scalar `padding` where windows leave the image.
// nullopt: they all do.
std::optional<ir::ValueId> moved_by_tap(ir::Graph& graph, const ir::Node& window, const std::vector<int64_t>& tap,
                                        ir::ValueId padding);

}  // namespace fusec::compiler
