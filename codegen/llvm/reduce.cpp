// SPDX-License-Identifier: Apache-2.0
// Writes reductions of a single thread, in the order that their tree prescribes, and scans as LLVM IR.
//
// Element e = (iteration, lane) of a reduction belongs to tree lane e mod L. The trailing unrolled loops and the vector
// lanes form a group of P elements. If P is a multiple of L, or there is only one group, the tree lane of every element
// is known at write time and the accumulators are values. Otherwise they are in memory, indexed at run time.

#include <algorithm>
#include <numeric>

#include "codegen/llvm/counter.h"
#include "codegen/llvm/values.h"
#include "codegen/llvm/writer.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// With more tree lanes than this, folding them would take too much code.
constexpr int64_t kMaxLanes = 1024;
// Balanced trees up to this size are expanded.
constexpr int64_t kMaxBalanced = 64;

// A reduction, with what the writer derives from it.
struct PlannedReduction {
  const ir::Reduce& stmt;
  CombineOp op;
  int width = 1;           // lanes of the yielded value
  bool lane_wise = false;  // each vector lane is an independent reduction
  int per = 1;             // elements per iteration
  int64_t lanes = 1;       // of the tree
  // A loop that contains a chunk boundary is written as two loops. Its variable `cut` then stands for an expression in
  // theirs.
  std::optional<ir::VarId> cut = {};
  IndexExpr cut_value = 0;
};

int yield_width(const Writer& w, const ir::Reduce& reduce) {
  int width = 1;
  for (const ir::Operand& operand : reduce.yield) width = std::max(width, ir::width_of(w.kernel, operand));
  return width;
}

IndexExpr compute_count(const Writer& w, const std::vector<ir::LoopHead>& loops) {
  IndexExpr out(1);
  for (const ir::LoopHead& loop : loops) out *= w.index.resolve(loop.extent);
  return out;
}

// Row-major position of the current iteration.
IndexExpr compute_position(const std::vector<ir::LoopHead>& loops) {
  IndexExpr out;
  for (const ir::LoopHead& loop : loops) out = out * loop.extent + IndexExpr::symbol(loop.var);
  return out;
}

PlannedReduction plan_reduction(Writer& w, const ir::Reduce& stmt) {
  PlannedReduction plan{stmt, {stmt.combiner, {}}};
  for (const ir::RegId dst : stmt.dst) plan.op.types.push_back(w.kernel.regs[dst].dtype);
  plan.width = yield_width(w, stmt);
  plan.lane_wise = plan.width > 1 && w.kernel.regs[stmt.dst[0]].width == plan.width;
  plan.per = plan.lane_wise ? 1 : plan.width;
  plan.lanes = stmt.tree.lanes;
  return plan;
}

void write_loops(Writer& w, const std::vector<ir::LoopHead>& loops, const std::function<void()>& body,
                 std::size_t at = 0) {
  if (at == loops.size()) return body();
  write_loop(w, loops[at], [&] { write_loops(w, loops, body, at + 1); });
}

// Runs the body of one iteration. Returns the parts of the yield and sets the mask, null if nothing is masked.
Parts iteration(Writer& w, const PlannedReduction& plan, Value*& mask) {
  if (plan.cut) w.index.alias(*plan.cut, w.index.resolve(plan.cut_value));
  write_block(w, plan.stmt.body);
  Parts out;
  for (const ir::Operand& operand : plan.stmt.yield) out.push_back(splat(w.ir, raw_operand(w, operand), plan.width));
  mask = guard_mask(w, plan.stmt.guard, plan.width);
  if (mask) mask = splat(w.ir, mask, plan.width);
  if (plan.cut) w.index.unbind(*plan.cut);
  return out;
}

Parts extract_lanes(Ir& ir, const Parts& parts, int from, int count) {
  Parts out;
  for (Value* part : parts) out.push_back(extract_lanes(ir, part, from, count));
  return out;
}

// Accumulators in stack slots, which are promoted to values.
class Accumulators {
 public:
  Accumulators(Writer& w, const CombineOp& op, int64_t count, int width) : w_(w), op_(op) {
    const Parts start = identity(w.ir, op, width);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<llvm::AllocaInst*>& slots = slots_.emplace_back();
      for (Value* part : start) {
        slots.push_back(stack_slot(w.ir, part->getType()));
        w.ir.b.CreateStore(part, slots.back());
      }
      w.promotable.insert(w.promotable.end(), slots.begin(), slots.end());
    }
  }

  Parts get(int64_t i) {
    Parts out;
    for (llvm::AllocaInst* slot : slots_[static_cast<std::size_t>(i)]) {
      out.push_back(w_.ir.b.CreateLoad(slot->getAllocatedType(), slot));
    }
    return out;
  }

  void add(int64_t i, const Parts& element, Value* mask) {
    const Parts next = combine_masked(w_.ir, op_, get(i), element, mask);
    for (std::size_t p = 0; p < next.size(); ++p) w_.ir.b.CreateStore(next[p], slots_[static_cast<std::size_t>(i)][p]);
  }

  std::vector<Parts> all() {
    std::vector<Parts> out;
    for (std::size_t i = 0; i < slots_.size(); ++i) out.push_back(get(static_cast<int64_t>(i)));
    return out;
  }

 private:
  Writer& w_;
  const CombineOp& op_;
  std::vector<std::vector<llvm::AllocaInst*>> slots_;
};

// Reduces elements whose tree lanes are known. `group`: the loops whose position is known at write time.
Parts reduce_static(Writer& w, const PlannedReduction& plan, const std::vector<ir::LoopHead>& loops,
                    const std::vector<ir::LoopHead>& group) {
  const auto L = static_cast<int>(plan.lanes);
  const int chunk = plan.lane_wise ? 1 : std::gcd(plan.per, L);  // vector lanes that share one accumulator
  const int width = plan.lane_wise ? plan.width : chunk;
  Accumulators accumulators(w, plan.op, L / chunk, width);
  write_loops(w, loops, [&] {
    Value* mask = nullptr;
    const Parts element = iteration(w, plan, mask);
    const IndexExpr position = w.index.resolve(compute_position(group));
    FUSEC_CHECK(position.is_const()) << "position " << position.str();
    for (int from = 0; from < plan.per; from += chunk) {
      const int64_t lane = (position.value() * plan.per + from) % L;
      const int first = plan.lane_wise ? 0 : from;
      Value* part_mask = mask ? extract_lanes(w.ir, mask, first, width) : nullptr;
      accumulators.add(lane / chunk, extract_lanes(w.ir, element, first, width), part_mask);
    }
  });
  const std::vector<Parts> all = accumulators.all();
  return plan.lane_wise ? fold_pairs(w.ir, plan.op, all) : fold_lanes(w.ir, plan.op, all);
}

// Accumulators in stack memory, one per tree lane, indexed at run time.
class IndexedLanes {
 public:
  IndexedLanes(Writer& w, const PlannedReduction& plan)
      : w_(w), plan_(plan), width_(plan.lane_wise ? plan.width : 1), start_(identity(w.ir, plan.op, width_)) {
    for (Value* part : start_) {
      memory_.push_back(stack_slot(w.ir, llvm::ArrayType::get(part->getType(), static_cast<uint64_t>(plan.lanes))));
    }
  }

  void reset() {
    runtime_loop(w_.ir, w_.ir.b.getInt64(static_cast<uint64_t>(plan_.lanes)),
                 [&](Value* lane) { store(lane, start_); });
  }
  // Adds element k of an iteration; its number is `position`.
  void add(const IndexExpr& position, int k, const Parts& element, Value* mask) {
    Value* lane = w_.index.value(w_.index.resolve(mod(position, plan_.lanes)));
    Value* lane_mask = mask ? codegen::extract_lanes(w_.ir, mask, k, width_) : nullptr;
    store(lane, combine_masked(w_.ir, plan_.op, load(lane), extract_lanes(w_.ir, element, k, width_), lane_mask));
  }
  Parts fold() {
    std::vector<Parts> all;
    for (int64_t i = 0; i < plan_.lanes; ++i) all.push_back(load(w_.ir.b.getInt64(static_cast<uint64_t>(i))));
    return fold_pairs(w_.ir, plan_.op, std::move(all));
  }

 private:
  Value* at(std::size_t part, Value* lane) { return w_.ir.b.CreateGEP(start_[part]->getType(), memory_[part], lane); }
  Parts load(Value* lane) {
    Parts out;
    for (std::size_t p = 0; p < start_.size(); ++p)
      out.push_back(w_.ir.b.CreateLoad(start_[p]->getType(), at(p, lane)));
    return out;
  }
  void store(Value* lane, const Parts& parts) {
    for (std::size_t p = 0; p < parts.size(); ++p) w_.ir.b.CreateStore(parts[p], at(p, lane));
  }

  Writer& w_;
  const PlannedReduction& plan_;
  const int width_;
  const Parts start_;
  std::vector<llvm::AllocaInst*> memory_;
};

// Accumulators indexed by (position * per + lane) mod L.
Parts reduce_indexed(Writer& w, const PlannedReduction& plan, const std::vector<ir::LoopHead>& loops) {
  IndexedLanes lanes(w, plan);
  lanes.reset();
  write_loops(w, loops, [&] {
    Value* mask = nullptr;
    const Parts element = iteration(w, plan, mask);
    for (int k = 0; k < plan.per; ++k) lanes.add(compute_position(loops) * plan.per + k, k, element, mask);
  });
  return lanes.fold();
}

// Reduces one chunk with L tree lanes.
Parts reduce_lanes(Writer& w, const PlannedReduction& plan, const std::vector<ir::LoopHead>& loops) {
  std::size_t outer = loops.size();
  int64_t group_size = plan.per;
  while (outer > 0) {
    const ir::LoopHead& loop = loops[outer - 1];
    const IndexExpr extent = w.index.resolve(loop.extent);
    if (!extent.is_const() || (loop.tag != ir::LoopTag::unroll && !extent.is(1))) break;
    group_size *= extent.value();
    --outer;
  }
  const std::vector<ir::LoopHead> group(loops.begin() + static_cast<std::ptrdiff_t>(outer), loops.end());
  if (plan.lanes == 1 || outer == 0 || group_size % plan.lanes == 0) return reduce_static(w, plan, loops, group);
  return reduce_indexed(w, plan, loops);
}

// A tree of {0, 0} over any number of elements.
Parts reduce_counted(Writer& w, const PlannedReduction& plan, const std::vector<ir::LoopHead>& loops) {
  const int width = plan.lane_wise ? plan.width : 1;
  Counter counter(w, plan.op, width);
  write_loops(w, loops, [&] {
    Value* mask = nullptr;
    const Parts element = iteration(w, plan, mask);
    for (int k = 0; k < plan.per; ++k) {
      Value* index = w.index.wide(w.index.resolve(compute_position(loops) * plan.per + k));
      counter.add(index, extract_lanes(w.ir, element, k, width), mask ? extract_lanes(w.ir, mask, k, width) : nullptr);
    }
  });
  return counter.finish(w.index.wide(compute_count(w, loops) * plan.per));
}

// A tree of {0, 0}: every element has its own tree lane.
Parts reduce_balanced(Writer& w, PlannedReduction plan, std::vector<ir::LoopHead> loops) {
  const IndexExpr count = compute_count(w, loops) * plan.per;
  if (!count.is_const() || count.value() > kMaxBalanced) return reduce_counted(w, plan, loops);
  for (ir::LoopHead& loop : loops) loop.tag = ir::LoopTag::unroll;
  while (plan.lanes < count.value()) plan.lanes = std::max<int64_t>(1, 2 * plan.lanes);
  plan.lanes = std::max<int64_t>(1, plan.lanes);
  return reduce_lanes(w, plan, loops);
}

struct Split {
  std::vector<ir::LoopHead> outer, inner;
};

// Splits the loops into loops over chunks and loops inside a chunk of `chunk` elements; may cut one loop in two. False
// if they do not split.
bool split_loops(const Writer& w, PlannedReduction& plan, int64_t chunk, Split& out) {
  out = {plan.stmt.loops, {}};
  int64_t size = plan.per;
  while (size < chunk && !out.outer.empty()) {
    ir::LoopHead loop = out.outer.back();
    const IndexExpr extent = w.index.resolve(loop.extent);
    if (!extent.is_const() || chunk % size != 0) break;
    out.outer.pop_back();
    if (const int64_t wanted = chunk / size; wanted < extent.value()) {
      if (extent.value() % wanted != 0) break;
      plan.cut = loop.var;
      plan.cut_value =
          IndexExpr::symbol(derived(loop.var, kChunkLoop)) * wanted + IndexExpr::symbol(derived(loop.var, kInnerLoop));
      out.outer.push_back({loop.tag, derived(loop.var, kChunkLoop), extent.value() / wanted});
      loop = {loop.tag, derived(loop.var, kInnerLoop), wanted};
    }
    size *= std::min(extent.value(), chunk / size);
    out.inner.insert(out.inner.begin(), loop);
  }
  if (size != chunk) plan.cut.reset();
  return size == chunk;
}

// For loops that do not split into chunks: tests for every element whether it is the last of its chunk.
Parts reduce_chunks_indexed(Writer& w, const PlannedReduction& plan) {
  auto& b = w.ir.b;
  const std::vector<ir::LoopHead>& loops = plan.stmt.loops;
  const int64_t chunk = plan.stmt.tree.chunk;
  IndexedLanes lanes(w, plan);
  Counter counter(w, plan.op, plan.lane_wise ? plan.width : 1);
  const IndexExpr count = compute_count(w, loops) * plan.per;
  lanes.reset();
  write_loops(w, loops, [&] {
    Value* mask = nullptr;
    const Parts element = iteration(w, plan, mask);
    for (int k = 0; k < plan.per; ++k) {
      const IndexExpr position = compute_position(loops) * plan.per + k;
      lanes.add(position, k, element, mask);
      Value* next = w.index.wide(w.index.resolve(position + 1));
      Value* full = b.CreateICmpEQ(w.index.wide(w.index.resolve(mod(position + 1, chunk))), b.getInt64(0));
      branch(
          w.ir, b.CreateOr(full, b.CreateICmpEQ(next, w.index.wide(count))),
          [&]() -> Value* {
            counter.put(w.index.wide(w.index.resolve(floordiv(position, chunk))), lanes.fold());
            lanes.reset();
            return nullptr;
          },
          [] { return nullptr; });
    }
  });
  return counter.finish(w.index.wide(w.index.resolve(ceildiv(count, chunk))));
}

// Reduces each chunk by its tree lanes, and the partial results by a balanced tree.
Parts reduce_chunks(Writer& w, PlannedReduction plan) {
  Split split;
  if (!split_loops(w, plan, plan.stmt.tree.chunk, split)) return reduce_chunks_indexed(w, plan);
  Counter counter(w, plan.op, plan.lane_wise ? plan.width : 1);
  write_loops(w, split.outer, [&] {
    const Parts result = reduce_lanes(w, plan, split.inner);
    counter.put(w.index.wide(w.index.resolve(compute_position(split.outer))), result);
  });
  return counter.finish(w.index.wide(compute_count(w, split.outer)));
}

Parts reduce(Writer& w, const PlannedReduction& plan) {
  const ir::Tree& tree = plan.stmt.tree;
  const IndexExpr count = compute_count(w, plan.stmt.loops) * plan.per;
  const bool one_chunk = tree.chunk == 0 || (count.is_const() && count.value() <= tree.chunk);
  if (tree.lanes > kMaxLanes) throw UnsupportedKernel("a tree of more than " + std::to_string(kMaxLanes) + " lanes");
  if (!one_chunk) return reduce_chunks(w, plan);
  return tree.lanes == 0 ? reduce_balanced(w, plan, plan.stmt.loops) : reduce_lanes(w, plan, plan.stmt.loops);
}

}  // namespace

void write_plain_reduce(Writer& w, const ir::Reduce& stmt) {
  const PlannedReduction plan = plan_reduction(w, stmt);
  const Parts result = reduce(w, plan);
  for (std::size_t i = 0; i < stmt.dst.size(); ++i) define(w, stmt.dst[i], result[i]);
}

void write_scan(Writer& w, const ir::Scan& scan) {
  const ir::RegInfo& info = w.kernel.regs[scan.dst];
  const CombineOp op{scan.combiner, {info.dtype}};
  if (ir::tuple_size(scan.combiner) != 1) throw UnsupportedKernel("scans are of single values");
  Accumulators running(w, op, 1, info.width);
  const ir::VarId step = derived(scan.loop.var, kStepLoop);
  write_loop(w, {scan.loop.tag, step, scan.loop.extent}, [&] {
    const IndexExpr at = IndexExpr::symbol(step);
    w.index.alias(scan.loop.var, w.index.resolve(scan.reverse ? scan.loop.extent - 1 - at : at));
    write_block(w, scan.body);
    const Parts before = running.get(0);
    running.add(0, {splat(w.ir, raw_operand(w, scan.yield), info.width)}, nullptr);
    define(w, scan.dst, scan.exclusive ? before[0] : running.get(0)[0]);
    write_block(w, scan.then);
    w.index.unbind(scan.loop.var);
  });
}

}  // namespace fusec::codegen
