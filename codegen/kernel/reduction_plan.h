// SPDX-License-Identifier: Apache-2.0
// How a GPU splits a reduction into loops and threads. All GPU writers use the same plan, so they produce the same
// bits.
//
// The loops, outermost first, are of three kinds: over chunks, over the elements that one tree lane of a chunk adds up
// in order, and over tree lanes. The accumulators of a thread, one for each of its chunks and lanes, form one array.
// The elements of a lane are first added up in it; then runs of the array and of threads are folded from the innermost
// loop outwards. Where the order is free, all loops of a thread add up in order and only threads are folded.
#pragma once

#include <functional>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using ir::IndexExpr;

enum class LoopKind : uint8_t { chunk, sequence, lane };

struct ReduceLoop {
  ir::LoopHead head;
  LoopKind kind;
  IndexExpr extent;  // resolved; a constant for block loops
  bool is_block() const { return head.tag == ir::LoopTag::block; }
  bool is_array() const { return kind != LoopKind::sequence && !is_block() && extent.is_const(); }
};

struct ReductionPlan {
  int width = 1;           // lanes of the yielded value
  bool lane_wise = false;  // each vector lane is an independent reduction
  int per = 1;             // elements per iteration
  std::vector<ReduceLoop> loops = {};
  bool counted = false;  // tree lanes are found at run time; impossible across threads
};

using Resolve = std::function<IndexExpr(const IndexExpr&)>;
ReductionPlan plan_reduce(const ir::Kernel& kernel, const ir::Reduce& stmt, const Resolve& resolve);

bool has_block_loop(const ir::Reduce& stmt);
bool has_sequence(const ReductionPlan& plan);
// Number of accumulators per thread.
int64_t array_size(const ReductionPlan& plan);
// The array index of the current iteration's first accumulator.
IndexExpr array_position(const ReductionPlan& plan);
// The loop over chunks whose extent is known only at run time; only block loops may enclose it. The number of loops if
// there is none.
std::size_t run_time_loop(const ReductionPlan& plan);

// Properties of a combiner whose first part has the dtype.
//
// Whether any order of the elements gives the same bits.
bool is_order_free(ir::Combiner combiner, DType dtype);
// Whether combine(a, b) and combine(b, a) give the same bits.
bool is_symmetric(ir::Combiner combiner);
// Whether combine(identity, x) may differ from x: for -0 in a sum, and for a single NaN with its sum of exponentials.
bool identity_changes(ir::Combiner combiner, DType dtype);

}  // namespace fusec::codegen
