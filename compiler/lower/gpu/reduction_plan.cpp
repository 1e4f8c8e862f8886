// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: decides how a reduction is split into chunks, sequences and tree lanes, over loops and threads.

#include <algorithm>
#include <bit>

#include "compiler/lower/gpu/threads.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {
namespace {

using ir::Combiner;

// A larger array of accumulators would not stay in registers.
constexpr int64_t kMaxAccumulators = 256;

bool is_two_power(int64_t v) { return v > 0 && std::has_single_bit(static_cast<uint64_t>(v)); }

IndexExpr count_elements(const ReductionPlan& plan) {
  IndexExpr out(plan.per);
  for (const ReduceLoop& loop : plan.loops) out *= loop.extent;
  return out;
}

// Assigns `kind` to loops from the innermost outwards while their product is below `wanted`; returns the product.
int64_t take(ReductionPlan& plan, size_t& at, int64_t product, int64_t wanted, LoopKind kind) {
  while (at > 0 && product < wanted && plan.loops[at - 1].extent.is_const()) {
    --at;
    plan.loops[at].kind = kind;
    product *= plan.loops[at].extent.value();
  }
  return product;
}

// False if the loops do not split into the lanes and chunks of the tree.
bool classify(ReductionPlan& plan, const ir::Tree& tree, bool order_free) {
  if (order_free) {
    for (ReduceLoop& loop : plan.loops) loop.kind = loop.is_block() ? LoopKind::lane : LoopKind::sequence;
    return true;
  }
  for (ReduceLoop& loop : plan.loops) loop.kind = LoopKind::chunk;
  const IndexExpr count = count_elements(plan);
  const bool one_chunk = tree.chunk == 0 || (count.is_const() && count.value() <= tree.chunk);
  if (tree.lanes == 0) return one_chunk;
  size_t at = plan.loops.size();
  const int64_t lanes = take(plan, at, plan.per, tree.lanes, LoopKind::lane);
  if (lanes != tree.lanes && !(at == 0 && lanes < tree.lanes)) return false;
  if (one_chunk) {
    for (size_t i = 0; i < at; ++i) plan.loops[i].kind = LoopKind::sequence;
  } else {
    if (tree.chunk % tree.lanes != 0) return false;
    if (take(plan, at, tree.lanes, tree.chunk, LoopKind::sequence) != tree.chunk) return false;
  }
  return std::none_of(plan.loops.begin(), plan.loops.end(), [](const ReduceLoop& loop) {
    return loop.kind == LoopKind::sequence && loop.is_block() && !loop.extent.is(1);
  });
}

// Folding loop by loop equals folding neighbours if, within each kind, every loop but the outermost has a power-of-two
// extent.
bool folds_by_loops(const ReductionPlan& plan, const ir::Tree& tree) {
  for (const LoopKind kind : {LoopKind::lane, LoopKind::chunk}) {
    // The elements of an iteration are lanes, or else parts of a balanced tree.
    int64_t inner = (kind == LoopKind::lane) == (tree.lanes > 0) ? plan.per : 1;
    for (size_t i = plan.loops.size(); i-- > 0;) {
      if (plan.loops[i].kind != kind) continue;
      if (!is_two_power(inner)) return false;
      inner = plan.loops[i].extent.is_const() ? plan.loops[i].extent.value() : 0;
    }
  }
  return true;
}

// Whether the accumulators form an array of constant size. One loop over chunks of run-time extent is allowed outside a
// thread's other loops.
bool fits_registers(const ReductionPlan& plan) {
  int64_t count = plan.per;
  bool inside_of_array = false, at_run_time = false;
  for (const ReduceLoop& loop : plan.loops) {
    if (loop.kind == LoopKind::sequence || loop.is_block()) continue;
    if (!loop.is_array() && (inside_of_array || at_run_time)) return false;
    at_run_time |= !loop.is_array();
    inside_of_array |= loop.is_array() && !loop.extent.is(1);
    count *= loop.is_array() ? loop.extent.value() : 1;
  }
  return count <= kMaxAccumulators;
}

}  // namespace

ReductionPlan plan_reduce(const ThreadLowering& l, const ir::Reduce& stmt) {
  const ir::Kernel& kernel = l.kernel;
  ReductionPlan plan;
  for (const ir::Operand& operand : stmt.yield) plan.width = std::max(plan.width, ir::width_of(kernel, operand));
  plan.lane_wise = plan.width > 1 && kernel.regs[stmt.dst[0]].width == plan.width;
  plan.per = plan.lane_wise ? 1 : plan.width;
  for (const ir::LoopHead& loop : stmt.loops) plan.loops.push_back({loop, LoopKind::sequence, resolve(l, loop.extent)});
  const bool order_free = ir::is_order_free(stmt.combiner, kernel.regs[stmt.dst[0]].dtype);
  plan.counted = !(classify(plan, stmt.tree, order_free) && (order_free || folds_by_loops(plan, stmt.tree)) &&
                   fits_registers(plan));
  return plan;
}

bool has_block_loop(const ir::Reduce& stmt) {
  return std::any_of(stmt.loops.begin(), stmt.loops.end(),
                     [](const ir::LoopHead& loop) { return loop.tag >= ir::LoopTag::block; });
}

bool has_sequence(const ReductionPlan& plan) {
  return std::any_of(plan.loops.begin(), plan.loops.end(),
                     [](const ReduceLoop& loop) { return loop.kind == LoopKind::sequence && !loop.extent.is(1); });
}

int64_t array_size(const ReductionPlan& plan) {
  int64_t out = plan.per;
  for (const ReduceLoop& loop : plan.loops) out *= loop.is_array() ? loop.extent.value() : 1;
  return out;
}

IndexExpr array_position(const ReductionPlan& plan) {
  IndexExpr out;
  for (const ReduceLoop& loop : plan.loops) {
    if (loop.is_array()) out = out * loop.extent + IndexExpr::symbol(loop.head.var);
  }
  return out * plan.per;
}

size_t run_time_loop(const ReductionPlan& plan) {
  for (size_t i = 0; i < plan.loops.size(); ++i) {
    if (plan.loops[i].kind != LoopKind::sequence && !plan.loops[i].extent.is_const()) return i;
  }
  return plan.loops.size();
}

}  // namespace fusec::compiler
