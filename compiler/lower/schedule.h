// SPDX-License-Identifier: Apache-2.0
// schedule: the semantic nest of a region becomes the loops of a target. One family per shape of work; facts choose.
#pragma once

#include <functional>
#include <optional>

#include "compiler/lower/nest.h"
#include "fusec/target.h"

namespace fusec::compiler {

// Makes launch arguments of extents and strides, so that one kernel serves many shapes. `launch` gets the value of each
// of Kernel::extents over the model's symbols.
void parametrize(Nest& nest, std::vector<Dim>& launch);
// Merges loops that together walk every buffer evenly, and orders pointwise loops by the strides of the first store.
void collapse(Nest& nest);

// A perfect nest of loops taken apart, and put together; there is at least one loop.
struct PerfectNest {
  std::vector<ir::LoopHead> heads;  // outermost first
  ir::Block body;
};
PerfectNest take_nest(ir::Stmt stmt);
ir::Stmt put_nest(const std::vector<ir::LoopHead>& heads, ir::Block body);

// The family that suits the nest, applied for the CPU: grid over tasks, vectors as lanes. `launch`: as from parametrize.
Status schedule_host(Nest& nest, const Target& target, const std::vector<Dim>& launch);

// Elements per task: enough to pay for its start, few enough to share among threads.
inline constexpr int64_t kTaskElements = 4096;

// Families. Each takes one top-level nest of sequential loops and yields what replaces it.
struct HostSchedule {
  ir::Kernel& kernel;
  const Target& target;
  const std::map<std::string, int64_t>& hints;  // what arguments are in the model at hand, where that is constant
};
// The extent where it is constant or hinted.
int64_t known_extent(const HostSchedule& s, const Dim& extent, int64_t otherwise);
// Lanes that an element-wise loop over `extent` takes at a time: one vector or several, for memory and for long chains.
int lanes_in_flight(const HostSchedule& s, const ir::Block& body, const Dim& extent);
ir::Block schedule_pointwise(const HostSchedule& s, PerfectNest nest);
ir::Block schedule_transpose(const HostSchedule& s, PerfectNest nest, const std::string& across);
// A few planes become the innermost axis of what is stored (an image of colours, channels last): vectors of all planes at
// one place are mixed in registers.
std::optional<ir::Block> schedule_interleave(const HostSchedule& s, const PerfectNest& nest);
ir::Block schedule_rows(const HostSchedule& s, PerfectNest nest);
ir::Block schedule_columns(const HostSchedule& s, PerfectNest nest, const std::string& along);
// A column reduction with few columns and many rows: partial sums of row chunks, then their sum.
std::optional<ir::Block> schedule_column_chunks(const HostSchedule& s, const PerfectNest& nest);

// After scheduling: where a launch moves more than the caches hold, stores that go around them (of results, which the
// model does not read again, and of what no cache could keep) and hints ahead of loads.
void stream(Nest& nest, const Target& target, const std::vector<Dim>& launch,
            const std::function<bool(ir::ValueId)>& is_result);

// The outer loop along which the reductions' loads are contiguous when they are not along the reduced one; empty: rows.
std::string columns_along(const PerfectNest& nest);

// Lanes for the widest type the block computes in, times `unroll`.
int lanes_for(const ir::Kernel& kernel, const ir::Block& block, const Target& target, int unroll = 1);

// `loop` over vectors of `lanes` of its iterations, then the rest under a guard; `length` is the extent. At `base` + ....
ir::Block vector_loops(ir::Kernel& kernel, const ir::Block& body, const std::string& var, const Dim& base,
                       const Dim& length, int lanes, bool divisible);

// Whether an extent is known to be a multiple of `n`.
bool divisible_by(const ir::Kernel& kernel, const Dim& extent, int64_t n);

}  // namespace fusec::compiler
