// SPDX-License-Identifier: Apache-2.0
// Block loops as threads of a GPU, in numbers: what all writers decide alike, so that their bits are equal.
#pragma once

#include <functional>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The threads that run a statement together: block loops split them into ever smaller teams.
struct TeamSize {
  int64_t size = 1;
  int64_t alignment = 0;    // divides the number in the block of its first thread; 0: that is thread 0
  bool whole_block = true;  // all threads of the block are at this point of the program
  bool in_loop = false;     // what is written here may run again
};

// Threads that the block loops of a statement ask for; `extent` of such a loop.
int64_t threads_of(const ir::Stmt& stmt, const std::function<int64_t(const ir::LoopHead&)>& extent);
// Whether threads wait for each other in it.
bool is_collective(const ir::Block& block);

// Of the first `total` threads of a team, a team of `size` each.
TeamSize split(const TeamSize& team, int64_t total, int64_t size);
// Whether a warp then has threads that do not take part.
bool splits_warps(const TeamSize& team, int64_t total);
bool in_one_warp(const TeamSize& team);

enum class FoldWay : uint8_t {
  by_xor,    // shuffles with the thread whose number differs in one bit
  by_index,  // any number of threads of one warp: shuffles from the first thread of the neighbouring run
  by_warps,  // by_xor inside of warps where `stride` is below 32, then `runs` warps, `unit` apart, through shared
             // memory
  in_shared  // a tree in shared memory, whatever the numbers
};
struct ThreadFold {
  FoldWay way = FoldWay::in_shared;
  int64_t runs = 1, unit = 1;
};
// The fold of `count` threads, `stride` apart, of every run of stride * count threads.
ThreadFold plan_fold(const TeamSize& team, int64_t stride, int64_t count);
// Whether the values of that many warps are folded by the threads of each warp, by_xor, instead of by each thread.
bool warps_fold_runs(int64_t runs, int64_t block_threads);

}  // namespace fusec::codegen
