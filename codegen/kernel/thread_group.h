// SPDX-License-Identifier: Apache-2.0
// How block loops are mapped to GPU threads. All GPU writers share these decisions, so they produce the same bits.
#pragma once

#include <functional>

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

}  // namespace fusec::codegen
