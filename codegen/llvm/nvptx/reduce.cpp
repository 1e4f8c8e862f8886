// SPDX-License-Identifier: Apache-2.0
// Writes reductions over threads as LLVM IR, following codegen/kernel/thread_group.h. Reductions of a single thread
// go to codegen/llvm/reduce.cpp; if their order is free, with the cheapest tree.

#include <algorithm>

#include "codegen/kernel/thread_group.h"
#include "codegen/llvm/counter.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

struct PlannedReduction : ReductionPlan {
  const ir::Reduce& stmt;
  CombineOp op;
  std::string id;
};

PlannedReduction plan_reduction(GpuWriter& w, const ir::Reduce& stmt) {
  for (const ir::LoopHead& loop : stmt.loops) {
    if (loop.tag > ir::LoopTag::block) throw UnsupportedKernel("clusters are not written");
    if (loop.tag == ir::LoopTag::block) constant_extent(w, loop);
  }
  PlannedReduction plan{plan_reduce(w.kernel, stmt, [&](const IndexExpr& d) { return w.index.resolve(d); }),
                        stmt,
                        {stmt.combiner, {}},
                        {}};
  for (const ir::RegId dst : stmt.dst) plan.op.types.push_back(w.kernel.regs[dst].dtype);
  plan.id = std::to_string(stmt.dst[0].index);
  if (plan.counted) {
    throw UnsupportedKernel("its threads do not split into lanes and chunks of tree(" +
                            std::to_string(stmt.tree.lanes) + ", " + std::to_string(stmt.tree.chunk) + ")");
  }
  return plan;
}

struct Threads {
  std::vector<ir::LoopHead> loops;
  int64_t total = 1;
};

// Adds the element of this iteration to the accumulators from number `at` on, or stores it there.
void write_element(GpuWriter& w, const PlannedReduction& plan, const Accumulators& a, int64_t at, bool adds) {
  Parts yield;
  for (const ir::Operand& operand : plan.stmt.yield) yield.push_back(splat(w.ir, raw_operand(w, operand), plan.width));
  Value* mask = guard_mask(w, plan.stmt.guard, plan.width);
  if (mask) mask = splat(w.ir, mask, plan.width);
  const Parts nothing = identity(w.ir, plan.op, a.lanes());
  for (int k = 0; k < plan.per; ++k) {
    Parts lane;
    for (Value* part : yield) lane.push_back(extract_lanes(w.ir, part, k, a.lanes()));
    Value* holds = mask ? extract_lanes(w.ir, mask, k, a.lanes()) : nullptr;
    if (adds) {
      a.set(at + k, combine_masked(w.ir, plan.op, a.get(at + k), lane, holds));
      continue;
    }
    for (std::size_t p = 0; p < lane.size() && holds; ++p) lane[p] = w.ir.b.CreateSelect(holds, lane[p], nothing[p]);
    a.set(at + k, lane);
  }
}

// Writes the loops inside a thread, from number `i` on, then `body`.
void write_thread_loops(GpuWriter& w, const PlannedReduction& plan, std::size_t i, const std::function<void()>& body) {
  while (i < plan.loops.size() && plan.loops[i].is_block()) ++i;
  if (i == plan.loops.size()) return body();
  ir::LoopHead head = plan.loops[i].head;
  if (plan.loops[i].is_array()) head.tag = ir::LoopTag::unroll;
  write_loop(w, head, [&] { write_thread_loops(w, plan, i + 1, body); });
}

// Writes the body and the element for the threads that take part.
void write_iteration(GpuWriter& w, const PlannedReduction& plan, const Threads& threads,
                     const std::function<void()>& element) {
  const ThreadGroupVars thread_group = w.thread_group;
  for_threads(w, threads.total, [&] {
    if (threads.total < thread_group.size) w.thread_group.uniform = false;
    w.thread_group.size = 1;
    w.thread_group.thread = w.ir.b.getInt32(0);
    write_block(w, plan.stmt.body);
    element();
  });
  w.thread_group = thread_group;
}

// Folds from the innermost loop outwards; loops before number `until` are left. Returns whether idle threads have the
// result.
bool fold_loops(GpuWriter& w, const PlannedReduction& plan, const Accumulators& a, std::size_t until) {
  int64_t array_stride = plan.per, thread_stride = 1;
  bool everywhere = false;
  combine_accumulators(w, a, 1, plan.per);
  for (std::size_t i = plan.loops.size(); i-- > until;) {
    const ReduceLoop& loop = plan.loops[i];
    if (loop.is_array()) {
      combine_accumulators(w, a, array_stride, loop.extent.value());
      array_stride *= loop.extent.value();
    } else if (loop.is_block()) {
      int64_t count = constant_extent(w, loop.head);
      // Neighbouring block loops of one kind are folded together.
      while (i > until && plan.loops[i - 1].is_block() && plan.loops[i - 1].kind == loop.kind) {
        count *= constant_extent(w, plan.loops[--i].head);
      }
      if (count > 1) everywhere = combine_threads(w, a, thread_stride, count, array_stride);
      thread_stride *= count;
    }
  }
  return everywhere;
}

// Puts the elements of the loops from number `from` on into all accumulators.
void write_elements(GpuWriter& w, const PlannedReduction& plan, const Threads& threads, const Accumulators& a,
                    std::size_t from) {
  const bool sequence = has_sequence(plan);
  if (sequence || threads.total < w.thread_group.size) a.reset();
  write_thread_loops(w, plan, from, [&] {
    write_iteration(w, plan, threads, [&] {
      const IndexExpr at = w.index.resolve(array_position(plan));
      if (!at.is_const()) throw UnsupportedKernel("accumulator " + at.str());
      write_element(w, plan, a, at.value(), sequence);
    });
  });
}

// Distributes the tuple in accumulator 0 to all threads and stores it in the registers.
void write_result(GpuWriter& w, const PlannedReduction& plan, const Accumulators& a, const Threads& threads,
                  bool everywhere) {
  if (threads.total < w.thread_group.size && !everywhere) broadcast(w, a);
  Parts result = a.get(0);
  if (identity_changes(plan.op.combiner, plan.op.types[0]))
    result = combine(w.ir, plan.op, result, identity(w.ir, plan.op, a.lanes()));
  for (std::size_t p = 0; p < plan.stmt.dst.size(); ++p) define(w, plan.stmt.dst[p], result[p]);
}

// Computes one value for each run of the loops inside loop `at` and combines these in a balanced tree; then folds over
// the threads outside.
bool write_chunks_at_run_time(GpuWriter& w, const PlannedReduction& plan, const Threads& threads,
                              const Accumulators& result, std::size_t at) {
  for (std::size_t i = 0; i < at; ++i) {
    if (!plan.loops[i].is_block()) throw UnsupportedKernel("a loop of unknown extent inside of loops over chunks");
  }
  Counter counter(w, plan.op, result.lanes());
  const Accumulators a(w, plan.op, array_size(plan), result.lanes(), plan.id + "x");
  write_loop(w, plan.loops[at].head, [&] {
    write_elements(w, plan, threads, a, at + 1);
    fold_loops(w, plan, a, at + 1);
    counter.put(w.index.wide(IndexExpr::symbol(plan.loops[at].head.var)), a.get(0));
  });
  result.set(0, counter.finish(w.index.wide(plan.loops[at].extent)));
  bool everywhere = false;
  int64_t stride = 1;
  for (std::size_t i = plan.loops.size(); i-- > 0;) {
    if (!plan.loops[i].is_block()) continue;
    const int64_t extent = constant_extent(w, plan.loops[i].head);
    if (i < at) everywhere = combine_threads(w, result, stride, extent, 1);
    stride *= extent;
  }
  return everywhere;
}

// A tree that gives the same bits with only as many accumulators as there are lanes.
ir::Tree free_tree(const GpuWriter& w, const ir::Reduce& stmt) {
  int width = 1;
  for (const ir::Operand& operand : stmt.yield) width = std::max(width, ir::width_of(w.kernel, operand));
  return {width == w.kernel.regs[stmt.dst[0]].width ? 1 : width, 0};
}

}  // namespace

void GpuWriter::write_reduce(const ir::Reduce& stmt) {
  if (!has_block_loop(stmt)) {
    if (!is_order_free(stmt.combiner, kernel.regs[stmt.dst[0]].dtype)) return write_plain_reduce(*this, stmt);
    ir::Reduce plain = stmt;
    plain.tree = free_tree(*this, stmt);
    return write_plain_reduce(*this, plain);
  }
  const PlannedReduction plan = plan_reduction(*this, stmt);
  Threads threads;
  for (const ReduceLoop& loop : plan.loops) {
    if (loop.is_block()) threads.loops.push_back(loop.head), threads.total *= constant_extent(*this, loop.head);
  }
  const auto variables = block_variables;
  bind_threads(*this, threads.loops, 1);  // out of range in idle threads, and not used there
  for (const ir::LoopHead& loop : threads.loops) block_variables.insert(loop.var);
  const std::size_t at_run_time = run_time_loop(plan);
  const int lanes = plan.lane_wise ? plan.width : 1;
  if (at_run_time < plan.loops.size()) {
    const Accumulators a(*this, plan.op, 1, lanes, plan.id);
    write_result(*this, plan, a, threads, write_chunks_at_run_time(*this, plan, threads, a, at_run_time));
  } else {
    const Accumulators a(*this, plan.op, array_size(plan), lanes, plan.id);
    write_elements(*this, plan, threads, a, 0);
    write_result(*this, plan, a, threads, fold_loops(*this, plan, a, 0));
  }
  for (const ir::LoopHead& loop : threads.loops) index.unbind(loop.var);
  block_variables = variables;
}

}  // namespace fusec::codegen::nvptx
