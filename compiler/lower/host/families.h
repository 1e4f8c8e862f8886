// SPDX-License-Identifier: Apache-2.0
// The schedule families of a CPU: grid over tasks, vectors as lanes.
#pragma once

#include <optional>

#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

// Elements per task: enough to pay for its start, few enough to share among threads.
inline constexpr int64_t kTaskElements = 4096;

// Lanes that an element-wise loop over `extent` takes at a time: one vector or several, for memory and for long chains.
int lanes_in_flight(const Scheduling& s, const ir::Block& body, const Dim& extent);
ir::Block schedule_pointwise(const Scheduling& s, PerfectNest nest);
ir::Block schedule_transpose(const Scheduling& s, PerfectNest nest, const std::string& across);
// A few planes become the innermost axis of what is stored (an image of colours, channels last): vectors of all planes
// at one place are mixed in registers.
std::optional<ir::Block> schedule_interleave(const Scheduling& s, const PerfectNest& nest);
ir::Block schedule_rows(const Scheduling& s, PerfectNest nest);
ir::Block schedule_columns(const Scheduling& s, PerfectNest nest, const std::string& along);
// A column reduction with few columns and many rows: partial sums of row chunks, then their sum.
std::optional<ir::Block> schedule_column_chunks(const Scheduling& s, const PerfectNest& nest);

// Lanes for the widest type the block computes in, times `unroll`.
int lanes_for(const ir::Kernel& kernel, const ir::Block& block, const Target& target, int unroll = 1);

// `loop` over vectors of `lanes` of its iterations, then the rest under a guard; `length` is the extent. At `base` +
// ....
ir::Block vector_loops(ir::Kernel& kernel, const ir::Block& body, const std::string& var, const Dim& base,
                       const Dim& length, int lanes, bool divisible);

}  // namespace fusec::compiler
