// SPDX-License-Identifier: Apache-2.0
// How a reduction is cut into loops and threads on a GPU: one plan for all writers, so that their bits are equal.
//
// The loops, outermost first, are of three kinds: over chunks, over the elements that one tree lane of a chunk adds up
// in order, and over tree lanes. All accumulators of a thread, one for each of its chunks and lanes, are one array;
// elements of a lane are added up in it, then runs of the array and of threads are folded from the innermost loop
// outwards. Where the order is free, all loops of a thread add up in order and only threads are folded.
#pragma once

#include <functional>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

enum class LoopKind : uint8_t { chunk, sequence, lane };

struct ReduceLoop {
  ir::LoopHead head;
  LoopKind kind;
  Dim extent;  // resolved; a constant of block loops
  bool is_block() const { return head.tag == ir::LoopTag::block; }
  bool is_array() const { return kind != LoopKind::sequence && !is_block() && extent.is_const(); }
};

struct ReducePlan {
  int width = 1;           // of the yield
  bool lane_wise = false;  // each vector lane is a reduction of its own
  int per = 1;             // elements of an iteration
  std::vector<ReduceLoop> loops = {};
  bool counted = false;  // tree lanes are found at run time: not for threads
};

using Resolve = std::function<Dim(const Dim&)>;
ReducePlan plan_reduce(const ir::Kernel& kernel, const ir::Reduce& stmt, const Resolve& resolve);

bool has_block_loop(const ir::Reduce& stmt);
bool has_sequence(const ReducePlan& plan);
// Number of accumulators of a thread.
int64_t array_size(const ReducePlan& plan);
// Where the current iteration's first accumulator is.
Dim array_position(const ReducePlan& plan);
// The loop over chunks whose number is known at run time; only threads may be outside of it. The number of loops: none.
std::size_t run_time_loop(const ReducePlan& plan);

// Of a combiner whose first part has the dtype:
// whether any order of the elements gives the same bits,
bool is_order_free(ir::Combiner combiner, DType dtype);
// whether combine(a, b) and combine(b, a) are the same bits,
bool is_symmetric(ir::Combiner combiner);
// whether combine(identity, x) may be other than x: -0 of sums, a lone NaN with its sum of exponentials.
bool identity_changes(ir::Combiner combiner, DType dtype);

}  // namespace fusec::codegen
