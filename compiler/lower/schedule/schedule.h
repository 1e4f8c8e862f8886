// SPDX-License-Identifier: Apache-2.0
// schedule: the semantic nest of a region becomes the loops of a target. One family per shape of work; facts choose.
// Here is what host/ and cuda/ share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/lower/nest/nest.h"
#include "fusec/target.h"

namespace fusec::compiler {

// Makes launch arguments of extents and strides, so that one kernel serves many shapes. `launch` gets the value of each
// of Kernel::extents over the model's symbols.
void abstract_extents(Nest& nest, std::vector<Dim>& launch);
// Merges loops that together walk every buffer evenly, and orders pointwise loops by the strides of the first store.
void collapse(Nest& nest);

// The family that suits each top-level nest, for a target of the kind. `launch`: as from abstract_extents.
Status schedule_host(Nest& nest, const Target& target, const std::vector<Dim>& launch);
Status schedule_cuda(Nest& nest, const Target& target, const std::vector<Dim>& launch);

// After scheduling for the host: where a launch moves more than the caches hold, stores that go around them (of
// results, which the model does not read again, and of what no cache could keep) and hints ahead of loads.
void stream(Nest& nest, const Target& target, const std::vector<Dim>& launch,
            const std::function<bool(ir::ValueId)>& is_result);

// A perfect nest of loops taken apart, and put together; there is at least one loop.
struct PerfectNest {
  std::vector<ir::LoopHead> heads;  // outermost first
  ir::Block body;
};
PerfectNest peel_loops(ir::Stmt stmt);
ir::Stmt rebuild_loops(const std::vector<ir::LoopHead>& heads, ir::Block body);

// What a family works on. Each takes one top-level nest of sequential loops and yields what replaces it.
struct Scheduling {
  ir::Kernel& kernel;
  const Target& target;
  const std::map<std::string, int64_t>& hints;  // what arguments are in the model at hand, where that is constant
};
std::map<std::string, int64_t> hints_of(const ir::Kernel& kernel, const std::vector<Dim>& launch);
// The extent where it is constant or hinted.
int64_t known_extent(const Scheduling& s, const Dim& extent, int64_t otherwise);

bool has_reduction(const ir::Block& block);
std::vector<std::string> vars_of(const std::vector<ir::LoopHead>& heads);
// The outer loop along which the reductions' loads are contiguous when they are not along the reduced one; empty: rows.
std::string columns_along(const PerfectNest& nest);
// The loop along which some load is contiguous while it strides along the innermost loop, both long enough for tiles;
// empty: none.
std::string strided_across(const PerfectNest& nest);
// Whether an extent is known to be a multiple of `n`.
bool divisible_by(const ir::Kernel& kernel, const Dim& extent, int64_t n);

}  // namespace fusec::compiler
