// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: writes reductions, in the order that their tree prescribes, and scans as loops over accumulators in
// reg buffers, followed by folds of values. Where the plan cannot use the tree's structure, lanes and chunks are
// counted element by element at run time.

#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {
namespace {

// The most tree lanes of a reduction whose lanes are found at run time.
constexpr int64_t kMaxLanes = 1024;

// The accumulators of a thread, or other tuples: a reg buffer for each part.
class Tuples {
 public:
  Tuples(ThreadLowering& l, const CombineOp& op, int64_t count) : l_(l), op_(op), count_(count) {
    for (const DType type : op.types) buffers_.push_back(append_buffer(l, ir::Space::reg, type, count * op.width));
  }

  // Element `at`, or `lanes` elements from `at` on.
  Parts get(const IndexExpr& at, int lanes = 1) const {
    Parts out;
    for (const BufferId buffer : buffers_) out.push_back(append_load(l_, buffer, {at * op_.width}, op_.width * lanes));
    return out;
  }
  void set(const IndexExpr& at, const Parts& value, const ir::Guard& guard = {}) const {
    for (size_t p = 0; p < buffers_.size(); ++p) append_store(l_, buffers_[p], {at * op_.width}, value[p], guard);
  }
  std::vector<Parts> all() const {
    std::vector<Parts> out;
    for (int64_t k = 0; k < count_; ++k) out.push_back(get(k));
    return out;
  }
  // Sets all of them to the identity, `lanes` at a time.
  void reset(int lanes) const {
    Parts nothing = identity(op_);
    for (size_t p = 0; p < nothing.size(); ++p)
      nothing[p] = append_copy(l_, {op_.types[p], op_.width * lanes}, nothing[p]);
    const ir::VarId k = add_var(l_.kernel);
    append_loop(l_, {LoopTag::unroll, k, count_ / lanes}, [&] { set(IndexExpr::symbol(k) * lanes, nothing); });
  }
  const CombineOp& op() const { return op_; }

 private:
  ThreadLowering& l_;
  const CombineOp op_;
  const int64_t count_;
  std::vector<BufferId> buffers_;
};

struct Reduction : ReductionPlan {
  const ir::Reduce& stmt;
  CombineOp op;                         // of one value of the result
  int64_t threads;                      // that take part
  bool shares;                          // the work with other threads
  std::optional<IndexExpr> place = {};  // of argmax and its variants, if a thread's elements come in order of place
};

// The place of an element, if a thread has one accumulator and one loop, along which places rise.
std::optional<IndexExpr> rising_place(const ir::Reduce& stmt, const ReductionPlan& plan, bool shares) {
  if (stmt.yield.size() != 2 || stmt.combiner == ir::Combiner::max_sum || shares || plan.counted) return std::nullopt;
  if (!plan.lane_wise && plan.width > 1) return std::nullopt;
  if (!stmt.guard.empty() || plan.loops.size() != 1) return std::nullopt;
  const ReduceLoop& loop = plan.loops[0];
  if (loop.kind != LoopKind::sequence || !loop.extent.is_const() || loop.extent.value() < 1) return std::nullopt;
  for (const ir::Stmt& part : stmt.body) {
    const auto* place = std::get_if<ir::IndexValue>(&part.v);
    if (place == nullptr || !(stmt.yield[1] == ir::Operand(place->dst))) continue;
    const IndexExpr first = place->value.substitute({{loop.head.var, IndexExpr(0)}});
    const auto stride = (place->value - first).exact_div(IndexExpr::symbol(loop.head.var));
    if (stride && stride->is_const() && stride->value() > 0) return place->value;
  }
  return std::nullopt;
}

void check_loops(ThreadLowering& l, const ir::Reduce& stmt) {
  for (const LoopHead& loop : stmt.loops) {
    if (loop.tag == LoopTag::grid) throw UnsupportedSchedule("a grid loop must be outermost");
    if (loop.tag >= LoopTag::block) constant_extent(l, loop);
  }
}

// Binds the variables of its block loops. In idle threads they are out of range and not used.
Reduction plan_reduction(ThreadLowering& l, const ir::Reduce& stmt) {
  check_loops(l, stmt);
  const ReductionPlan plan = plan_reduce(l, stmt);
  CombineOp op{stmt.combiner, {}, plan.lane_wise ? plan.width : 1};
  for (const RegId dst : stmt.dst) op.types.push_back(l.kernel.regs[dst].dtype);
  const bool shares = has_block_loop(stmt);
  if (plan.counted && shares) {
    throw UnsupportedSchedule("its threads do not split into lanes and chunks of tree(" +
                              std::to_string(stmt.tree.lanes) + ", " + std::to_string(stmt.tree.chunk) + ")");
  }
  if (plan.counted && stmt.tree.lanes > kMaxLanes)
    throw UnsupportedSchedule("a tree of more than " + std::to_string(kMaxLanes) + " lanes");
  std::vector<LoopHead> loops;
  for (const ReduceLoop& loop : plan.loops)
    if (loop.is_block()) loops.push_back(loop.head);
  return {plan, stmt, std::move(op), bind_threads(l, loops, 1), shares, rising_place(stmt, plan, shares)};
}

bool has_idle_threads(const ThreadLowering& l, const Reduction& r) { return r.shares && r.threads < l.group.size; }

// The values of this iteration, `width` lanes of each.
Parts yielded(ThreadLowering& l, const Reduction& r) {
  Parts out;
  for (size_t p = 0; p < r.stmt.yield.size(); ++p) {
    const Operand& value = r.stmt.yield[p];
    const bool spread = r.width > 1 && ir::width_of(l.kernel, value) == 1;
    out.push_back(spread ? append_copy(l, {r.op.types[p], r.width}, value) : value);
  }
  return out;
}

// Adds the elements of this iteration to the accumulators from `at` on, or stores them there.
void add_elements(ThreadLowering& l, const Reduction& r, const Tuples& accumulators, const IndexExpr& at, bool adds) {
  Parts value = yielded(l, r);
  CombineOp op = r.op;
  op.width = r.width;
  if (adds && r.place) value = combine_in_order(l, op, accumulators.get(at, r.per), value);
  if (adds && !r.place) value = combine(l, op, accumulators.get(at, r.per), value);
  accumulators.set(at, value, r.stmt.guard);
}

// The loops inside a thread, from number `i` on, around body().
void in_thread_loops(ThreadLowering& l, const Reduction& r, size_t i, const std::function<void()>& body) {
  while (i < r.loops.size() && r.loops[i].is_block()) ++i;
  if (i == r.loops.size()) return body();
  LoopHead head = r.loops[i].head;
  if (r.loops[i].is_array()) head.tag = LoopTag::unroll;
  append_loop(l, head, [&] { in_thread_loops(l, r, i + 1, body); });
}

// The body, then element(), in the threads that take part.
void iteration(ThreadLowering& l, const Reduction& r, const std::function<void()>& element) {
  const ThreadGroup group = l.group;
  ir::Guard takes_part;
  if (has_idle_threads(l, r)) takes_part.push_back(r.threads - 1 - group.thread);
  append_if(l, takes_part, [&] {
    if (r.shares) l.group.size = 1, l.group.thread = 0;
    lower_block(l, r.stmt.body);
    element();
  });
  l.group = group;
}

// Folds from the innermost loop outwards; loops before number `until` are left. Returns whether idle threads have the
// result.
bool fold_loops(ThreadLowering& l, const Reduction& r, std::vector<Parts>& values, size_t until) {
  int64_t array_stride = r.per, thread_stride = 1;
  bool everywhere = !r.shares;
  fold_values(l, r.op, values, 1, r.per);
  for (size_t i = r.loops.size(); i-- > until;) {
    const ReduceLoop& loop = r.loops[i];
    if (loop.is_array()) {
      fold_values(l, r.op, values, array_stride, loop.extent.value());
      array_stride *= loop.extent.value();
    } else if (loop.is_block()) {
      int64_t count = constant_extent(l, loop.head);
      // Neighbouring block loops of one kind are folded together.
      while (i > until && r.loops[i - 1].is_block() && r.loops[i - 1].kind == loop.kind)
        count *= constant_extent(l, r.loops[--i].head);
      if (count > 1) everywhere = combine_threads(l, r.op, values, thread_stride, count, array_stride);
      thread_stride *= count;
    }
  }
  return everywhere;
}

// The least value, at the place of the first element: if no element is better, that is where it is.
void start_at_first_place(ThreadLowering& l, const Reduction& r, const Tuples& accumulators) {
  Parts first = identity(r.op);
  first[0] = append_copy(l, r.op.part(0), first[0]);
  const RegId place = add_reg(l.kernel, r.op.types[1], r.op.width);
  const IndexExpr at = r.place->substitute({{r.loops[0].head.var, IndexExpr(0)}});
  l.out->push_back({ir::IndexValue{place, resolve(l, at)}});
  first[1] = place;
  accumulators.set(0, first);
}

// The accumulators, after the elements of the loops from number `from` on.
std::vector<Parts> accumulate(ThreadLowering& l, const Reduction& r, size_t from) {
  const Tuples accumulators(l, r.op, array_size(r));
  const bool adds = has_sequence(r);
  if (adds && r.place) {
    start_at_first_place(l, r, accumulators);
  } else if (adds || has_idle_threads(l, r) || !r.stmt.guard.empty()) {
    accumulators.reset(r.per);
  }
  in_thread_loops(l, r, from,
                  [&] { iteration(l, r, [&] { add_elements(l, r, accumulators, array_position(r), adds); }); });
  return accumulators.all();
}

// A balanced tree over values that come one after another. After n values, subtree b is present if bit b of n is set; a
// new value merges with the subtrees of the trailing ones of n.
class BalancedTree {
 public:
  // `most`: a bound on the number of values.
  BalancedTree(ThreadLowering& l, const CombineOp& op, int64_t most)
      : l_(l), levels_(std::bit_width(static_cast<uint64_t>(most))), trees_(l, op, levels_), value_(l, op, 1) {}

  // Adds the value number n.
  void add(const IndexExpr& n, const Parts& value) const {
    value_.set(0, value);
    merge(n, 0);
  }
  // The combination of n values.
  Parts finish(const IndexExpr& n) const {
    value_.set(0, identity_values());
    for (int64_t b = 0; b < levels_; ++b) {
      const int64_t unit = int64_t{1} << b;
      append_if(l_, {mod(floordiv(n, unit), 2) - 1}, [&] {
        const IndexExpr lower = mod(n, unit);
        append_if(l_, {lower - 1}, [&] { value_.set(0, combine(l_, value_.op(), trees_.get(b), value_.get(0))); });
        append_if(l_, {-lower}, [&] { value_.set(0, trees_.get(b)); });
      });
    }
    return value_.get(0);
  }

 private:
  Parts identity_values() const {
    Parts out = identity(value_.op());
    for (size_t p = 0; p < out.size(); ++p) out[p] = append_copy(l_, value_.op().part(p), out[p]);
    return out;
  }
  void merge(const IndexExpr& n, int64_t b) const {
    if (b + 1 == levels_) return trees_.set(b, value_.get(0));
    const int64_t unit = int64_t{1} << b;
    const IndexExpr low = mod(n, 2 * unit);  // the bits below b are set
    append_if(l_, {2 * unit - 2 - low}, [&] { trees_.set(b, value_.get(0)); });
    append_if(l_, {low - (2 * unit - 1)}, [&] {
      value_.set(0, combine(l_, value_.op(), trees_.get(b), value_.get(0)));
      merge(n, b + 1);
    });
  }

  ThreadLowering& l_;
  const int64_t levels_;
  const Tuples trees_, value_;
};

constexpr int64_t kMostChunks = int64_t{1} << 31;

int64_t bound(const ThreadLowering& l, const IndexExpr& count) {
  return std::clamp<int64_t>(upper_bound(resolve(l, count), l.ranges).value_or(kMostChunks), 1, kMostChunks);
}

// One value for each run of the loops inside loop `at`, combined in a balanced tree; then folds over the threads
// outside.
bool reduce_chunks(ThreadLowering& l, const Reduction& r, size_t at, std::vector<Parts>& result) {
  for (size_t i = 0; i < at; ++i) {
    if (!r.loops[i].is_block()) throw UnsupportedSchedule("a loop of unknown extent inside of loops over chunks");
  }
  const BalancedTree tree(l, r.op, bound(l, r.loops[at].extent));
  append_loop(l, r.loops[at].head, [&] {
    std::vector<Parts> values = accumulate(l, r, at + 1);
    fold_loops(l, r, values, at + 1);
    tree.add(IndexExpr::symbol(r.loops[at].head.var), values[0]);
  });
  result = {tree.finish(r.loops[at].extent)};
  bool everywhere = !r.shares;
  int64_t stride = 1;
  for (size_t i = r.loops.size(); i-- > 0;) {
    if (!r.loops[i].is_block()) continue;
    const int64_t extent = constant_extent(l, r.loops[i].head);
    if (i < at) everywhere = combine_threads(l, r.op, result, stride, extent, 1);
    stride *= extent;
  }
  return everywhere;
}

// The tree over `count` accumulators by adjacent pairs, in place.
void fold_in_place(ThreadLowering& l, const Tuples& a, int64_t count) {
  for (int64_t s = 1; s < count; s *= 2) {
    const ir::VarId k = add_var(l.kernel);
    const IndexExpr at = IndexExpr::symbol(k) * (2 * s);
    append_loop(l, {LoopTag::seq, k, (count - s + 2 * s - 1) / (2 * s)}, [&] {
      const Parts left = a.get(at);
      a.set(at, combine(l, a.op(), left, a.get(at + s)));
    });
  }
}

// The number of this iteration's first element, and of all elements.
IndexExpr element_number(const Reduction& r) {
  IndexExpr out = 0;
  for (const ReduceLoop& loop : r.loops) out = out * loop.extent + IndexExpr::symbol(loop.head.var);
  return out * r.per;
}
IndexExpr count_elements(const Reduction& r) {
  IndexExpr out = r.per;
  for (const ReduceLoop& loop : r.loops) out *= loop.extent;
  return out;
}

// Finds the tree lane and chunk of each element at run time.
Parts reduce_counted(ThreadLowering& l, const Reduction& r) {
  const ir::Tree& tree = r.stmt.tree;
  if (tree.lanes == 0 && tree.chunk != 0) throw UnsupportedSchedule("balanced chunks");
  const bool has_chunks = tree.chunk != 0 || tree.lanes == 0;
  const int64_t lanes = std::max<int64_t>(1, tree.lanes);
  const int64_t size = tree.lanes == 0 ? 1 : tree.chunk;  // a balanced tree over all: chunks of one element
  const IndexExpr total = count_elements(r);
  const Tuples accumulators(l, r.op, lanes), value(l, r.op, r.per);
  const BalancedTree chunks(l, r.op, has_chunks ? bound(l, ceildiv(total, size)) : 1);
  const auto close = [&](const IndexExpr& chunk) {
    fold_in_place(l, accumulators, lanes);
    chunks.add(chunk, accumulators.get(0));
    accumulators.reset(1);
  };
  accumulators.reset(1);
  in_thread_loops(l, r, 0, [&] {
    iteration(l, r, [&] {
      value.reset(r.per);
      value.set(0, yielded(l, r));
      for (int k = 0; k < r.per; ++k) {
        const IndexExpr number = element_number(r) + k;
        if (has_chunks) append_if(l, {number - 1, -mod(number, size)}, [&] { close(floordiv(number, size) - 1); });
        ir::Guard guard;
        for (const IndexExpr& g : r.stmt.guard)
          guard.push_back(r.per > 1 ? g.substitute({{ir::kLane, IndexExpr(k)}}) : g);
        const IndexExpr lane = mod(number, lanes);
        accumulators.set(lane, combine(l, r.op, accumulators.get(lane), value.get(k)), guard);
      }
    });
  });
  if (!has_chunks) return fold_in_place(l, accumulators, lanes), accumulators.get(0);
  append_if(l, {total - 1}, [&] { close(ceildiv(total, size) - 1); });
  return chunks.finish(ceildiv(total, size));
}

bool is_empty(const Reduction& r) {
  return std::any_of(r.loops.begin(), r.loops.end(),
                     [](const ReduceLoop& loop) { return loop.extent.is_const() && loop.extent.value() <= 0; });
}

Parts reduce(ThreadLowering& l, const Reduction& r) {
  if (is_empty(r)) return identity(r.op);
  if (r.counted) return reduce_counted(l, r);
  std::vector<Parts> values;
  bool everywhere = false;
  if (const size_t at = run_time_loop(r); at < r.loops.size()) {
    everywhere = reduce_chunks(l, r, at, values);
  } else {
    values = accumulate(l, r, 0);
    everywhere = fold_loops(l, r, values, 0);
  }
  return has_idle_threads(l, r) && !everywhere ? broadcast(l, r.op, values[0]) : values[0];
}

}  // namespace

void lower_reduce(ThreadLowering& l, const ir::Reduce& stmt) {
  const Reduction r = plan_reduction(l, stmt);
  Parts result = reduce(l, r);
  if (ir::identity_changes(r.op.combiner, r.op.types[0])) result = combine(l, r.op, result, identity(r.op));
  for (size_t p = 0; p < stmt.dst.size(); ++p)
    l.out->push_back({ir::Let{stmt.dst[p], ir::ScalarOp::cast, {result[p]}}});
}

void lower_scan(ThreadLowering& l, const ir::Scan& scan) {
  const ir::RegInfo info = l.kernel.regs[scan.dst];
  const CombineOp op{scan.combiner, {info.dtype}, info.width};
  const Tuples running(l, op, 1);
  running.reset(1);
  const ir::VarId step = add_var(l.kernel);
  append_loop(l, {scan.loop.tag, step, scan.loop.extent}, [&] {
    const IndexExpr at = IndexExpr::symbol(step);
    l.values[scan.loop.var] = resolve(l, scan.reverse ? scan.loop.extent - 1 - at : at);
    lower_block(l, scan.body);
    const Operand before = running.get(0)[0];
    Operand yield = scan.yield;
    if (info.width > 1 && ir::width_of(l.kernel, yield) == 1) yield = append_copy(l, info, yield);
    const Operand after = combine(l, op, {before}, {yield})[0];
    running.set(0, {after});
    l.out->push_back({ir::Let{scan.dst, ir::ScalarOp::cast, {scan.exclusive ? before : after}}});
    lower_block(l, scan.then);
  });
}

}  // namespace fusec::compiler
