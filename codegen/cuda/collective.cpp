// SPDX-License-Identifier: Apache-2.0
// Writes the folds of a reduction over the threads of a thread group as CUDA C++: with shuffles inside warps, through
// shared memory between warps. `plan_thread_combine` has decided which is used.

#include <fmt/format.h>

#include "codegen/cuda/writer.h"
#include "codegen/kernel/thread_group.h"

namespace fusec::codegen::cuda {
namespace {

std::string statement(Writer& w, const Accumulators& a, const std::string& text) {
  return for_lanes(w, a.lanes) + text;
}

// body(i) for every `step`-th accumulator.
template <class F>
void each_accumulator(Writer& w, const Accumulators& a, int64_t step, const F& body) {
  if (a.count <= step) return body("0");
  w.out.line("#pragma unroll");
  w.out.open(fmt::format("for (int i = 0; i < {}; i += {})", a.count, step));
  body("i");
  w.out.close();
}

void check_warp(const Writer& w) {
  if (w.thread_group.mask.empty()) throw UnsupportedKernel("not all threads of the warp come here together");
}

// mine = combination of mine and other, with the lower thread's value on the left. `upper`: this thread is not the
// lower one.
void combine_exchanged(Writer& w, const Accumulators& a, const Parts& mine, const Parts& other,
                       const std::string& upper) {
  if (is_symmetric(a.op.combiner)) return w.out.line(combine(w.prelude, a.op, mine, other));
  Parts left, right;
  for (std::size_t p = 0; p < mine.size(); ++p) {
    const std::string type = register_type(a.op.types[p]), n = std::to_string(p);
    w.out.line(fmt::format("{0} left{1} = {2} ? {3} : {4};", type, n, upper, other[p], mine[p]));
    w.out.line(fmt::format("const {0} right{1} = {2} ? {4} : {3};", type, n, upper, other[p], mine[p]));
    left.push_back("left" + n), right.push_back("right" + n);
  }
  w.out.line(combine(w.prelude, a.op, left, right));
  for (std::size_t p = 0; p < mine.size(); ++p) w.out.line(mine[p] + " = " + left[p] + ";");
}

Parts exchanged(Writer& w, const Accumulators& a, const Parts& mine, const std::string& how) {
  Parts out;
  for (std::size_t p = 0; p < mine.size(); ++p) {
    const std::string name = "other" + std::to_string(p);
    w.out.line(
        fmt::format("const {} {} = {};", register_type(a.op.types[p]), name, fmt::format(fmt::runtime(how), mine[p])));
    out.push_back(name);
  }
  return out;
}

// Exchanges values by XOR of thread indices: from, 2*from, ... below `to`, powers of two.
void fold_by_xor(Writer& w, const Accumulators& a, const Parts& mine, int64_t from, int64_t to) {
  check_warp(w);
  w.out.line("#pragma unroll");
  w.out.open(fmt::format("for (int s = {}; s < {}; s *= 2)", from, to));
  if (a.lanes > 1) w.out.open(for_lanes(w, a.lanes));
  const Parts other = exchanged(w, a, mine, w.prelude.use("shuffle_xor") + "(" + w.thread_group.mask + ", {}, s)");
  combine_exchanged(w, a, mine, other, "(threadIdx.x & s)");
  if (a.lanes > 1) w.out.close();
  w.out.close();
}

// For any number of threads in one warp: reads from the first thread of the neighbouring run, where there is one.
void fold_by_index(Writer& w, const Accumulators& a, const Parts& mine, int64_t from, int64_t total) {
  check_warp(w);
  const std::string t = w.thread_group.thread;
  w.out.line("#pragma unroll");
  w.out.open(fmt::format("for (int s = {}; s < {}; s *= 2)", from, total));
  w.out.line(fmt::format("const int first = ({} ^ s) & -s;", t));
  if (a.lanes > 1) w.out.open(for_lanes(w, a.lanes));
  const std::string source = fmt::format("((threadIdx.x & 31) - {} + first) & 31", t);
  const Parts other =
      exchanged(w, a, mine, w.prelude.use("shuffle") + "(" + w.thread_group.mask + ", {}, " + source + ")");
  w.out.open(fmt::format("if (first < {})", total));
  combine_exchanged(w, a, mine, other, "(" + t + " & s)");
  w.out.close();
  if (a.lanes > 1) w.out.close();
  w.out.close();
}

// Declares shared arrays of `count` tuples, one tuple for each exchanged accumulator.
Parts shared_parts(Writer& w, const Accumulators& a, const std::string& use, int64_t count) {
  Parts out;
  for (std::size_t p = 0; p < a.names.size(); ++p) {
    const DType type = a.op.types[p];
    out.push_back(add_shared(w, memory_type(type), fmt::format("w{}_{}{}", a.id, use, p), count * a.lanes,
                             static_cast<int64_t>(size_of(type))));
  }
  return out;
}

Parts slots(const Accumulators& a, const Parts& shared, const std::string& at) {
  Parts out;
  for (const std::string& name : shared) {
    out.push_back(a.lanes > 1 ? fmt::format("{}[({}) * {} + lane]", name, at, a.lanes) : name + "[" + at + "]");
  }
  return out;
}

void assign(Writer& w, const Accumulators& a, const Parts& to, const Parts& from, const std::string& condition = "") {
  for (std::size_t p = 0; p < to.size(); ++p) {
    w.out.line(statement(w, a, (condition.empty() ? "" : "if (" + condition + ") ") + to[p] + " = " + from[p] + ";"));
  }
}

// Separates what an earlier iteration of a loop reads from what is written next.
void barrier_in_loops(Writer& w) {
  if (w.thread_group.in_loop) write_block_barrier(w);
}

// Folds `runs` runs of `unit` warps each. Every run has one value, and the first warps of the runs are `unit` apart.
void fold_warps(Writer& w, const Accumulators& a, int64_t runs, int64_t unit, int64_t step, const std::string& use) {
  const int64_t warps = w.block_warps, entries = (a.count + step - 1) / step;
  const Parts shared = shared_parts(w, a, use, warps * entries);
  const std::string slot = entries > 1 ? fmt::format(" + i / {} * {}", step, warps) : "";
  barrier_in_loops(w);
  each_accumulator(w, a, step, [&](const std::string& i) {
    assign(w, a, slots(a, shared, "threadIdx.x / 32" + slot), a.element(i), "threadIdx.x % 32 == 0");
  });
  write_block_barrier(w);
  const std::string base =
      w.thread_group.alignment == 0 ? "" : fmt::format("threadIdx.x / 32 - {} / 32 + ", w.thread_group.thread);
  each_accumulator(w, a, step, [&](const std::string& i) {
    if (warps_fold_runs(runs, w.block_threads)) {
      assign(
          w, a, a.element(i),
          slots(a, shared,
                fmt::format("{}threadIdx.x % {}{}{}", base, runs, unit > 1 ? " * " + std::to_string(unit) : "", slot)));
      return fold_by_xor(w, a, a.element(i), 1, runs);
    }
    Accumulators all = a;
    all.count = runs;
    for (std::size_t p = 0; p < a.names.size(); ++p) {
      all.names[p] = "all" + std::to_string(p);
      const std::string lanes = a.lanes > 1 ? "[" + std::to_string(a.lanes) + "]" : "";
      w.out.line(fmt::format("{} {}[{}]{};", register_type(a.op.types[p]), all.names[p], runs, lanes));
    }
    w.out.line("#pragma unroll");
    w.out.open(fmt::format("for (int k = 0; k < {}; ++k)", runs));
    assign(w, a, all.element("k"),
           slots(a, shared, fmt::format("{}k{}{}", base, unit > 1 ? " * " + std::to_string(unit) : "", slot)));
    w.out.close();
    fold_array(w, all, 1, runs);
    assign(w, a, a.element(i), all.element("0"));
  });
}

// Works for any counts: a tree in shared memory.
void fold_in_shared(Writer& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step,
                    const std::string& use) {
  const Parts shared = shared_parts(w, a, use, w.block_threads);
  const std::string t = w.thread_group.thread;
  each_accumulator(w, a, step, [&](const std::string& i) {
    if (w.thread_group.in_loop || a.count > step) write_block_barrier(w);
    assign(w, a, slots(a, shared, "threadIdx.x"), a.element(i));
    write_block_barrier(w);
    w.out.open(fmt::format("for (int s = 1; s < {}; s *= 2)", count));
    w.out.line(fmt::format("const int run = {} / {};", t, stride));
    w.out.open(fmt::format("if (run % (2 * s) == 0 && run + s < {})", count));
    w.out.line(statement(w, a,
                         combine(w.prelude, a.op, slots(a, shared, "threadIdx.x"),
                                 slots(a, shared, fmt::format("threadIdx.x + s * {}", stride)))));
    w.out.close();
    write_block_barrier(w);
    w.out.close();
    assign(w, a, a.element(i), slots(a, shared, "threadIdx.x - " + t));
  });
}

}  // namespace

Parts Accumulators::element(const std::string& at) const {
  Parts out;
  for (const std::string& name : names) out.push_back(name + "[" + at + "]" + (lanes > 1 ? "[lane]" : ""));
  return out;
}

void fold_array(Writer& w, const Accumulators& a, int64_t stride, int64_t count) {
  if (count <= 1) return;
  const int64_t run = stride * count;
  const bool many = a.count > run;
  if (many) {
    w.out.line("#pragma unroll");
    w.out.open(fmt::format("for (int r = 0; r < {}; r += {})", a.count, run));
  }
  w.out.line("#pragma unroll");
  w.out.open(fmt::format("for (int s = {}; s < {}; s *= 2)", stride, run));
  w.out.line("#pragma unroll");
  w.out.line(fmt::format(
      "for (int k = 0; k + s < {}; k += 2 * s) {}", run,
      statement(w, a,
                combine(w.prelude, a.op, a.element(many ? "r + k" : "k"), a.element(many ? "r + k + s" : "k + s")))));
  w.out.close();
  if (many) w.out.close();
}

bool combine_threads(Writer& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step) {
  if (count <= 1) return false;
  const int64_t total = stride * count;
  const std::string use = stride > 1 ? "outer" : "";
  const ThreadCombine fold = plan_thread_combine(w.thread_group, stride, count);
  switch (fold.way) {
    case CombineMethod::by_xor:
      each_accumulator(w, a, step, [&](const std::string& i) { fold_by_xor(w, a, a.element(i), stride, total); });
      return false;
    case CombineMethod::by_index:
      each_accumulator(w, a, step, [&](const std::string& i) { fold_by_index(w, a, a.element(i), stride, total); });
      return false;
    case CombineMethod::by_warps:
      if (stride < 32) {
        each_accumulator(w, a, step, [&](const std::string& i) { fold_by_xor(w, a, a.element(i), stride, 32); });
      }
      fold_warps(w, a, fold.runs, fold.unit, step, use);
      return true;
    case CombineMethod::in_shared:
      fold_in_shared(w, a, stride, count, step, use);
      return true;
  }
  return true;
}

void broadcast(Writer& w, const Accumulators& a) {
  if (w.thread_group.size <= 32 && in_one_warp(w.thread_group)) {
    check_warp(w);
    const std::string source = fmt::format("(threadIdx.x - {}) & 31", w.thread_group.thread);
    for (const std::string& part : a.element("0")) {
      w.out.line(statement(
          w, a, fmt::format("{0} = {1}({2}, {0}, {3});", part, w.prelude.use("shuffle"), w.thread_group.mask, source)));
    }
    return;
  }
  const Parts shared = shared_parts(w, a, "all", w.block_threads / w.thread_group.size + 1);
  const std::string slot = fmt::format("(threadIdx.x - {}) / {}", w.thread_group.thread, w.thread_group.size);
  barrier_in_loops(w);
  assign(w, a, slots(a, shared, slot), a.element("0"), w.thread_group.thread + " == 0");
  write_block_barrier(w);
  assign(w, a, a.element("0"), slots(a, shared, slot));
}

}  // namespace fusec::codegen::cuda
