// SPDX-License-Identifier: Apache-2.0
// Writes reductions, in the order that their tree prescribes, and scans as CUDA C++. Where the plan cannot use the
// tree's structure, lanes and chunks are counted element by element at run time.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/writer.h"
#include "codegen/kernel/thread_group.h"

namespace fusec::codegen::cuda {
namespace {

// The most tree lanes of a reduction whose lanes are found at run time.
constexpr int64_t kMaxLanes = 1024;

struct PlannedReduction : ReductionPlan {
  const ir::Reduce& stmt;
  CombineOp op;
  std::string id;
};

PlannedReduction plan_reduction(Writer& w, const ir::Reduce& stmt) {
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
  if (plan.counted && has_block_loop(stmt)) {
    throw UnsupportedKernel("its threads do not split into lanes and chunks of tree(" +
                            std::to_string(stmt.tree.lanes) + ", " + std::to_string(stmt.tree.chunk) + ")");
  }
  if (plan.counted && stmt.tree.lanes > kMaxLanes)
    throw UnsupportedKernel("a tree of more than " + std::to_string(kMaxLanes) + " lanes");
  return plan;
}

// Accumulators.

std::string array_suffix(int64_t count, int lanes) {
  return "[" + std::to_string(count) + "]" + (lanes > 1 ? "[" + std::to_string(lanes) + "]" : "");
}

Accumulators declare_accumulators(Writer& w, const PlannedReduction& plan, const std::string& letter, int64_t count) {
  Accumulators a{plan.op, {}, count, plan.lane_wise ? plan.width : 1, plan.id};
  for (std::size_t p = 0; p < plan.op.types.size(); ++p) {
    a.names.push_back(letter + plan.id + "_" + std::to_string(p));
    w.out.line(register_type(plan.op.types[p]) + " " + a.names.back() + array_suffix(count, a.lanes) + ";");
  }
  return a;
}

void copy_parts(Writer& w, int lanes, const Parts& to, const Parts& from) {
  for (std::size_t p = 0; p < to.size(); ++p) w.out.line(for_lanes(w, lanes) + to[p] + " = " + from[p] + ";");
}

void reset(Writer& w, const Accumulators& a) {
  if (a.count == 1) return copy_parts(w, a.lanes, a.element("0"), identity(a.op));
  w.out.line("#pragma unroll");
  w.out.open(fmt::format("for (int k = 0; k < {}; ++k)", a.count));
  copy_parts(w, a.lanes, a.element("k"), identity(a.op));
  w.out.close();
}

// Adds the element of this iteration (and lane) to accumulator `at`, or stores it there.
void write_element(Writer& w, const PlannedReduction& plan, const Accumulators& a, const std::string& at, bool adds) {
  const LaneScope scope(w.index, plan.width);
  Parts yield;
  for (const ir::Operand& operand : plan.stmt.yield) yield.push_back(raw_operand(w, operand));
  const std::string guard = guard_text(w, plan.stmt.guard, plan.width);
  const Parts to = a.element(at);
  const std::string head = for_lanes(w, plan.width);
  if (adds) {
    w.out.line(head + (guard.empty() ? "" : "if (" + guard + ") ") + combine(w.prelude, plan.op, to, yield));
    return;
  }
  const Parts nothing = identity(plan.op);
  for (std::size_t p = 0; p < to.size(); ++p) {
    w.out.line(head + to[p] + " = " +
               (guard.empty() ? yield[p] : guard + " ? " + operand(yield[p]) + " : " + operand(nothing[p])) + ";");
  }
}

std::string place(Writer& w, const PlannedReduction& plan, const IndexExpr& position) {
  const IndexExpr at = w.index.resolve(position);
  if (plan.per == 1) return w.index.text(at);
  return at.is(0) ? "lane" : w.index.text(at) + " + lane";
}

// Writes the loops inside a thread, from number `i` on, then `body`.
void write_thread_loops(Writer& w, const PlannedReduction& plan, std::size_t i, const std::function<void()>& body) {
  while (i < plan.loops.size() && plan.loops[i].is_block()) ++i;
  if (i == plan.loops.size()) return body();
  ir::LoopHead head = plan.loops[i].head;
  if (plan.loops[i].is_array()) head.tag = ir::LoopTag::unroll;
  write_loop(w, head, [&] { write_thread_loops(w, plan, i + 1, body); });
}

// A balanced tree over a number of values that is known only at run time. After n values, subtree l is present if bit l
// of n is set. A new value merges with the subtrees of the trailing ones of n.
class Counter {
 public:
  Counter(Writer& w, const PlannedReduction& plan) : w_(w), trees_(declare_accumulators(w, plan, "trees", 32)) {
    count_ = "count" + plan.id;
    w_.out.line("u32 " + count_ + " = 0;");
  }
  // Overwrites `value`.
  void add(const Accumulators& value) {
    w_.out.line("u32 level" + value.id + " = 0;");
    const std::string level = "level" + value.id;
    w_.out.open(fmt::format("for (; {} >> {} & 1; ++{})", count_, level, level));
    merge(value, level);
    w_.out.close();
    copy_parts(w_, value.lanes, trees_.element(level), value.element("0"));
    w_.out.line("++" + count_ + ";");
  }
  void finish(const Accumulators& value) {
    reset(w_, value);
    w_.out.line("bool any" + value.id + " = false;");
    w_.out.open(fmt::format("for (int l = 0; l < 32; ++l) if ({} >> l & 1)", count_));
    w_.out.open("if (any" + value.id + ")");
    merge(value, "l");
    w_.out.close();
    w_.out.open("else");
    copy_parts(w_, value.lanes, value.element("0"), trees_.element("l"));
    w_.out.close();
    w_.out.line("any" + value.id + " = true;");
    w_.out.close();
  }

 private:
  // value = combination of the tree and value.
  void merge(const Accumulators& value, const std::string& level) {
    if (value.lanes > 1) w_.out.open(for_lanes(w_, value.lanes));
    Parts left;
    for (std::size_t p = 0; p < value.names.size(); ++p) {
      left.push_back("left" + std::to_string(p));
      w_.out.line(register_type(value.op.types[p]) + " " + left[p] + " = " + trees_.element(level)[p] + ";");
    }
    w_.out.line(combine(w_.prelude, value.op, left, value.element("0")));
    for (std::size_t p = 0; p < left.size(); ++p) w_.out.line(value.element("0")[p] + " = " + left[p] + ";");
    if (value.lanes > 1) w_.out.close();
  }

  Writer& w_;
  Accumulators trees_;
  std::string count_;
};

// Threads.

struct Threads {
  std::vector<ir::LoopHead> loops;
  int64_t total = 1;
  ThreadGroupVars outer;
  std::set<ir::SymbolId> variables;
};

// Binds the variables of the reduce's block loops. In idle threads they are out of range and not used.
Threads enter_threads(Writer& w, const PlannedReduction& plan) {
  Threads out{{}, 1, w.thread_group, w.block_variables};
  for (const ReduceLoop& loop : plan.loops) {
    if (loop.is_block()) out.loops.push_back(loop.head), out.total *= constant_extent(w, loop.head);
  }
  bind_threads(w, out.loops, 1);
  for (const ir::LoopHead& loop : out.loops) w.block_variables.insert(loop.var);
  return out;
}

void leave_threads(Writer& w, const Threads& threads) {
  for (const ir::LoopHead& loop : threads.loops) w.index.unbind(loop.var);
  w.block_variables = threads.variables;
}

// Writes the body and the element for the threads that take part.
void write_iteration(Writer& w, const PlannedReduction& plan, const Threads& threads,
                     const std::function<void()>& element) {
  const ThreadGroupVars thread_group = w.thread_group;
  const bool idle = threads.total < thread_group.size && !threads.loops.empty();
  if (idle)
    w.out.open("if (" + thread_group.thread + " < " + std::to_string(threads.total) + ")"),
        w.thread_group.uniform = false;
  if (!threads.loops.empty()) w.thread_group.size = 1;
  w.parallel += static_cast<int>(threads.loops.size());
  write_block(w, plan.stmt.body);
  w.parallel -= static_cast<int>(threads.loops.size());
  element();
  if (idle) w.out.close();
  w.thread_group = thread_group;
}

// Folds from the innermost loop outwards; loops before number `until` are left. Returns whether idle threads have the
// result.
bool fold_loops(Writer& w, const PlannedReduction& plan, const Accumulators& a, const Threads& threads,
                std::size_t until) {
  int64_t array_stride = 1, thread_stride = 1;
  bool everywhere = threads.loops.empty();
  fold_array(w, a, array_stride, plan.per);
  array_stride *= plan.per;
  for (std::size_t i = plan.loops.size(); i-- > until;) {
    const ReduceLoop& loop = plan.loops[i];
    if (loop.is_array()) {
      fold_array(w, a, array_stride, loop.extent.value());
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
void write_elements(Writer& w, const PlannedReduction& plan, const Threads& threads, const Accumulators& a,
                    std::size_t from) {
  const bool sequence = has_sequence(plan);
  const bool idle = threads.total < w.thread_group.size && !threads.loops.empty();
  if (sequence || idle) reset(w, a);
  write_thread_loops(w, plan, from, [&] {
    write_iteration(w, plan, threads,
                    [&] { write_element(w, plan, a, place(w, plan, array_position(plan)), sequence); });
  });
}

// Distributes the tuple in accumulator 0 to all threads and stores it in the registers.
void write_result(Writer& w, const PlannedReduction& plan, const Accumulators& a, const Threads& threads,
                  bool everywhere) {
  if (threads.total < w.thread_group.size && !everywhere) broadcast(w, a);
  if (identity_changes(plan.op.combiner, plan.op.types[0])) {
    w.out.line(for_lanes(w, a.lanes) + combine(w.prelude, plan.op, a.element("0"), identity(plan.op)));
  }
  for (std::size_t p = 0; p < plan.stmt.dst.size(); ++p) {
    w.out.line(for_lanes(w, a.lanes) + at_lane(ir::reg_name(plan.stmt.dst[p]), a.lanes) + " = " + a.element("0")[p] +
               ";");
  }
}

// Computes one value for each run of the loops inside loop `at`, and combines these in a balanced tree.
void write_chunks_at_run_time(Writer& w, const PlannedReduction& plan, const Threads& threads,
                              const Accumulators& result, std::size_t at) {
  for (std::size_t i = 0; i < at; ++i) {
    if (!plan.loops[i].is_block()) throw UnsupportedKernel("a loop of unknown extent inside of loops over chunks");
  }
  PlannedReduction inner = plan;
  inner.id += "x";
  Counter counter(w, plan);
  write_loop(w, plan.loops[at].head, [&] {
    const Accumulators a = declare_accumulators(w, inner, "a", array_size(plan));
    write_elements(w, plan, threads, a, at + 1);
    fold_loops(w, plan, a, threads, at + 1);
    counter.add(a);
  });
  counter.finish(result);
}

// Determines the tree lane and chunk of each element at run time.
void write_counted(Writer& w, const PlannedReduction& plan, const Threads& threads, const Accumulators& result) {
  const ir::Tree& tree = plan.stmt.tree;
  PlannedReduction lanes = plan;
  lanes.id += "x";
  const Accumulators a = declare_accumulators(w, lanes, "a", tree.lanes == 0 ? 1 : tree.lanes);
  Counter counter(w, plan);
  const std::string number = "e" + plan.id, chunk = "chunk" + plan.id;
  const bool chunks = tree.chunk != 0 || tree.lanes == 0;
  const int64_t size = tree.lanes == 0 ? 1 : tree.chunk;  // a balanced tree over all: chunks of one element
  if (tree.lanes == 0 && tree.chunk != 0) throw UnsupportedKernel("balanced chunks");
  w.out.line("i64 " + number + " = 0, " + chunk + " = 0;");
  reset(w, a);
  const auto close = [&] {
    fold_array(w, a, 1, a.count);
    counter.add(a);
    reset(w, a);
    w.out.line("++" + chunk + ";");
  };
  write_thread_loops(w, plan, 0, [&] {
    write_iteration(w, plan, threads, [&] {
      const LaneScope scope(w.index, plan.width);
      if (plan.per > 1) w.out.open(fmt::format("for ({} lane = 0; lane < {}; ++lane)", w.index.type(), plan.per));
      if (chunks) {
        w.out.open(fmt::format("if ({} / {} != {})", number, size, chunk));
        close();
        w.out.close();
      }
      Parts yield;
      for (const ir::Operand& operand : plan.stmt.yield) yield.push_back(raw_operand(w, operand));
      const std::string guard = guard_text(w, plan.stmt.guard, plan.width);
      w.out.line(for_lanes(w, a.lanes) + (guard.empty() ? "" : "if (" + guard + ") ") +
                 combine(w.prelude, plan.op, a.element(number + " % " + std::to_string(a.count)), yield));
      w.out.line("++" + number + ";");
      if (plan.per > 1) w.out.close();
    });
  });
  if (chunks) {
    w.out.open("if (" + number + " > 0)");
    close();
    w.out.close();
    return counter.finish(result);
  }
  fold_array(w, a, 1, a.count);
  copy_parts(w, a.lanes, result.element("0"), a.element("0"));
}

}  // namespace

void write_reduce(Writer& w, const ir::Reduce& stmt) {
  const PlannedReduction plan = plan_reduction(w, stmt);
  for (const ir::RegId dst : stmt.dst) declare(w, dst);
  w.out.open("");
  const Threads threads = enter_threads(w, plan);
  const std::size_t at_run_time = plan.counted ? plan.loops.size() : run_time_loop(plan);
  bool everywhere = threads.loops.empty();
  if (plan.counted) {
    const Accumulators a = declare_accumulators(w, plan, "a", 1);
    write_counted(w, plan, threads, a);
    write_result(w, plan, a, threads, true);
  } else if (at_run_time < plan.loops.size()) {
    const Accumulators a = declare_accumulators(w, plan, "a", 1);
    write_chunks_at_run_time(w, plan, threads, a, at_run_time);
    for (std::size_t i = at_run_time; i-- > 0;) {
      int64_t stride = 1;
      for (std::size_t k = i + 1; k < plan.loops.size(); ++k)
        stride *= plan.loops[k].is_block() ? constant_extent(w, plan.loops[k].head) : 1;
      everywhere = combine_threads(w, a, stride, constant_extent(w, plan.loops[i].head), 1);
    }
    write_result(w, plan, a, threads, everywhere);
  } else {
    const Accumulators a = declare_accumulators(w, plan, "a", array_size(plan));
    write_elements(w, plan, threads, a, 0);
    everywhere = fold_loops(w, plan, a, threads, 0);
    write_result(w, plan, a, threads, everywhere);
  }
  leave_threads(w, threads);
  w.out.close();
}

void write_scan(Writer& w, const ir::Scan& scan) {
  if (ir::tuple_size(scan.combiner) != 1) throw UnsupportedKernel("scans are of single values");
  const ir::RegInfo& info = w.kernel.regs[scan.dst];
  const CombineOp op{scan.combiner, {info.dtype}};
  const std::string name = ir::reg_name(scan.dst), running = "running" + std::to_string(scan.dst.index);
  const std::string type = register_type(info.dtype),
                    suffix = info.width > 1 ? "[" + std::to_string(info.width) + "]" : "";
  w.out.open("");
  w.out.line(type + " " + running + suffix + ";");
  w.out.line(for_lanes(w, info.width) + at_lane(running, info.width) + " = " + identity(op)[0] + ";");
  const ir::VarId step = derived(scan.loop.var, 1);
  write_loop(w, {scan.loop.tag, step, scan.loop.extent}, [&] {
    const IndexExpr at = IndexExpr::symbol(step);
    w.index.alias(scan.loop.var, w.index.resolve(scan.reverse ? scan.loop.extent - 1 - at : at));
    write_block(w, scan.body);
    const auto keep = [&] {
      w.out.line(type + " " + name + suffix + ";");
      w.out.line(for_lanes(w, info.width) + at_lane(name, info.width) + " = " + at_lane(running, info.width) + ";");
    };
    const std::string merge =
        for_lanes(w, info.width) + combine(w.prelude, op, {at_lane(running, info.width)}, {raw_operand(w, scan.yield)});
    if (scan.exclusive) keep();
    w.out.line(merge);
    if (!scan.exclusive) keep();
    write_block(w, scan.then);
    w.index.unbind(scan.loop.var);
  });
  w.out.close();
}

}  // namespace fusec::codegen::cuda
