// SPDX-License-Identifier: Apache-2.0
// Computes during emit how many threads the block loops of a kernel need, how thread groups split, and which method
// folds values across the threads of a thread group. Both GPU writers call it, so its answers must not depend on the
// writer.

#include "codegen/kernel/thread_group.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace fusec::codegen {
namespace {

constexpr int64_t kWarp = 32;

bool is_power(int64_t v) { return std::has_single_bit(static_cast<uint64_t>(v)); }

bool aligned_to(const ThreadGroup& thread_group, int64_t to) { return thread_group.alignment % to == 0; }

}  // namespace

int64_t count_threads(const ir::Stmt& stmt, const std::function<int64_t(const ir::LoopHead&)>& extent) {
  int64_t out = 1;
  for (const ir::Block* nested : ir::nested_blocks(stmt)) {
    for (const ir::Stmt& inner : *nested) out = std::max(out, count_threads(inner, extent));
  }
  if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) {
    if (loop->head.tag == ir::LoopTag::block) out *= extent(loop->head);
  }
  if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
    for (const ir::LoopHead& loop : reduce->loops) {
      if (loop.tag == ir::LoopTag::block) out *= extent(loop);
    }
  }
  return out;
}

bool is_collective(const ir::Block& block) {
  bool found = false;
  ir::for_each_stmt(block, [&](const ir::Stmt& stmt) {
    found |= std::holds_alternative<ir::Sync>(stmt.v);
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    found |= reduce != nullptr && has_block_loop(*reduce);
  });
  return found;
}

ThreadGroup split(const ThreadGroup& thread_group, int64_t total, int64_t size) {
  return {size, std::gcd(thread_group.alignment, size), thread_group.uniform && total >= thread_group.size,
          thread_group.in_loop};
}

bool splits_warps(const ThreadGroup& thread_group, int64_t total) {
  return total < thread_group.size && !(aligned_to(thread_group, kWarp) && total % kWarp == 0);
}

bool in_one_warp(const ThreadGroup& thread_group) {
  return aligned_to(thread_group, kWarp) ||
         (thread_group.size <= kWarp && is_power(thread_group.size) && aligned_to(thread_group, thread_group.size));
}

ThreadCombine plan_thread_combine(const ThreadGroup& thread_group, int64_t stride, int64_t count) {
  const int64_t total = stride * count;
  if (total <= kWarp && is_power(total) && aligned_to(thread_group, total)) return {CombineMethod::by_xor};
  if (total <= kWarp && is_power(stride) && in_one_warp(thread_group)) return {CombineMethod::by_index};
  if (total % kWarp != 0 || !aligned_to(thread_group, kWarp)) return {CombineMethod::in_shared};
  if (stride % kWarp == 0) return {CombineMethod::by_warps, count, stride / kWarp};
  return stride < kWarp && is_power(stride) ? ThreadCombine{CombineMethod::by_warps, total / kWarp, 1}
                                            : ThreadCombine{};
}

bool warps_fold_runs(int64_t runs, int64_t block_threads) {
  return runs > 4 && runs <= kWarp && is_power(runs) && block_threads % kWarp == 0;
}

}  // namespace fusec::codegen
