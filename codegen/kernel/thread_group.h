// SPDX-License-Identifier: Apache-2.0
// How a kernel is mapped to GPU threads: its block loops, and its reductions. All GPU writers share these decisions, so
// they produce the same bits.
#pragma once

#include <functional>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The threads that run a statement together. Block loops split them into smaller thread groups.
struct ThreadGroup {
  int64_t size = 1;
  int64_t alignment = 0;  // divides the block-relative index of the thread group's first thread; 0: that is thread 0
  bool uniform = true;    // all threads of the block reach this point together
  bool in_loop = false;   // inside a loop: shared memory written here may be written again
};

// Number of threads that the block loops of a statement need; `extent` returns the extent of such a loop.
int64_t count_threads(const ir::Stmt& stmt, const std::function<int64_t(const ir::LoopHead&)>& extent);
// Whether threads synchronize or exchange values in the block.
bool is_collective(const ir::Block& block);

// Splits the first `total` threads of a thread group into groups of `size`.
ThreadGroup split(const ThreadGroup& thread_group, int64_t total, int64_t size);
// Whether that split may leave a warp with both participating and idle threads.
bool splits_warps(const ThreadGroup& thread_group, int64_t total);
bool in_one_warp(const ThreadGroup& thread_group);

enum class CombineMethod : uint8_t {
  by_xor,    // shuffles with the thread whose index differs in one bit
  by_index,  // any number of threads in one warp: shuffles from the first thread of the neighbouring run
  by_warps,  // by_xor inside warps where `stride` is below 32, then `runs` warps, `unit` apart, through shared memory
  in_shared  // a tree in shared memory, for any counts
};
struct ThreadCombine {
  CombineMethod way = CombineMethod::in_shared;
  int64_t runs = 1, unit = 1;
};
// How to fold `count` threads, `stride` apart, in every run of stride * count threads.
ThreadCombine plan_thread_combine(const ThreadGroup& thread_group, int64_t stride, int64_t count);
// Whether the values of `runs` warps are folded by_xor by the threads of each warp, instead of by each thread alone.
bool warps_fold_runs(int64_t runs, int64_t block_threads);

// How a GPU splits a reduction into loops and threads. All GPU writers use the same plan, so they produce the same
// bits.
//
// The loops, outermost first, are of three kinds: over chunks, over the elements that one tree lane of a chunk adds up
// in order, and over tree lanes. The accumulators of a thread, one for each of its chunks and lanes, form one array.
// The elements of a lane are first added up in it; then runs of the array and of threads are folded from the innermost
// loop outwards. Where the order is free, all loops of a thread add up in order and only threads are folded.

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
