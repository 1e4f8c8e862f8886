// SPDX-License-Identifier: Apache-2.0
// Sliding windows as index maps: the elements that one tap of every window reads.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::compiler {

constexpr int64_t kMaxTaps = 49;  // 7 x 7: the largest window that passes unroll

// Emits, for each result of `window`, the element of its first operand that lies at `tap` of the result's window: a
// slice, padded with the scalar `padding` where windows leave the image. `window` is a conv or pool whose spatial
// extents are known. Returns nullopt if the tap lies outside the image for all results.
std::optional<ir::ValueId> moved_by_tap(ir::Graph& graph, const ir::Node& window, const std::vector<int64_t>& tap,
                                        ir::ValueId padding);

}  // namespace fusec::compiler
