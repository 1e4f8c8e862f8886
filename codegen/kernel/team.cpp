// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/team.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/kernel/reduce_plan.h"

namespace fusec::codegen {
namespace {

constexpr int64_t kWarp = 32;

bool is_power(int64_t v) { return std::has_single_bit(static_cast<uint64_t>(v)); }

bool aligned_to(const TeamSize& team, int64_t to) { return team.alignment % to == 0; }

}  // namespace

int64_t threads_of(const ir::Stmt& stmt, const std::function<int64_t(const ir::LoopHead&)>& extent) {
  int64_t out = 1;
  for (const ir::Block* nested : ir::nested_blocks(stmt)) {
    for (const ir::Stmt& inner : *nested) out = std::max(out, threads_of(inner, extent));
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

TeamSize split(const TeamSize& team, int64_t total, int64_t size) {
  return {size, std::gcd(team.alignment, size), team.whole_block && total >= team.size, team.in_loop};
}

bool splits_warps(const TeamSize& team, int64_t total) {
  return total < team.size && !(aligned_to(team, kWarp) && total % kWarp == 0);
}

bool in_one_warp(const TeamSize& team) {
  return aligned_to(team, kWarp) || (team.size <= kWarp && is_power(team.size) && aligned_to(team, team.size));
}

ThreadFold plan_fold(const TeamSize& team, int64_t stride, int64_t count) {
  const int64_t total = stride * count;
  if (total <= kWarp && is_power(total) && aligned_to(team, total)) return {FoldWay::by_xor};
  if (total <= kWarp && is_power(stride) && in_one_warp(team)) return {FoldWay::by_index};
  if (total % kWarp != 0 || !aligned_to(team, kWarp)) return {FoldWay::in_shared};
  if (stride % kWarp == 0) return {FoldWay::by_warps, count, stride / kWarp};
  return stride < kWarp && is_power(stride) ? ThreadFold{FoldWay::by_warps, total / kWarp, 1} : ThreadFold{};
}

bool warps_fold_runs(int64_t runs, int64_t block_threads) {
  return runs > 4 && runs <= kWarp && is_power(runs) && block_threads % kWarp == 0;
}

}  // namespace fusec::codegen
