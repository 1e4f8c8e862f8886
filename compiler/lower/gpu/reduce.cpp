// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: writes reductions, in the order that their tree prescribes, and scans as loops over accumulators in
// reg buffers, followed by folds of values.

#include <algorithm>
#include <bit>

#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {
namespace {

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

// A larger array of accumulators would not stay in registers.
constexpr int64_t kMaxAccumulators = 256;

// The loops of a reduction, outermost first, are of three kinds: over chunks, over the elements that one tree lane of a
// chunk adds up in order, and over tree lanes. The accumulators of a thread, one for each of its chunks and lanes, form
// one array. The elements of a lane are first added up in it; then runs of the array and of threads are folded from the
// innermost loop outwards. Where the order is free, all loops of a thread add up in order and only threads are folded.
enum class LoopKind : uint8_t { chunk, sequence, lane };

struct ReduceLoop {
  LoopHead head;
  LoopKind kind;
  IndexExpr extent;  // resolved; a constant for loops over threads and over accumulators
  bool is_block() const { return head.tag >= LoopTag::block; }
  bool is_array() const { return kind != LoopKind::sequence && !is_block(); }
};

struct Reduction {
  const ir::Reduce& stmt;
  CombineOp op;   // of one value of the result
  int width = 1;  // lanes of the yielded value
  int per = 1;    // elements per iteration
  std::vector<ReduceLoop> loops = {};
  int64_t threads = 1;  // that take part
  bool shares = false;  // the work with other threads
};

// Assigns `kind` to loops from the innermost outwards while their product is below `wanted`; returns the product.
int64_t take(Reduction& r, size_t& at, int64_t product, int64_t wanted, LoopKind kind) {
  while (at > 0 && product < wanted && r.loops[at - 1].extent.is_const()) {
    --at;
    r.loops[at].kind = kind;
    product *= r.loops[at].extent.value();
  }
  return product;
}

// False if the loops do not split into the lanes and chunks of the tree.
bool classify(Reduction& r, const ir::Tree& tree) {
  for (ReduceLoop& loop : r.loops) loop.kind = LoopKind::chunk;
  IndexExpr count(r.per);
  for (const ReduceLoop& loop : r.loops) count *= loop.extent;
  const bool one_chunk = tree.chunk == 0 || (count.is_const() && count.value() <= tree.chunk);
  if (tree.lanes == 0) return one_chunk;
  size_t at = r.loops.size();
  const int64_t lanes = take(r, at, r.per, tree.lanes, LoopKind::lane);
  if (lanes != tree.lanes && !(at == 0 && lanes < tree.lanes)) return false;
  if (one_chunk) {
    for (size_t i = 0; i < at; ++i) r.loops[i].kind = LoopKind::sequence;
  } else {
    if (tree.chunk % tree.lanes != 0) return false;
    if (take(r, at, tree.lanes, tree.chunk, LoopKind::sequence) != tree.chunk) return false;
  }
  return std::none_of(r.loops.begin(), r.loops.end(), [](const ReduceLoop& loop) {
    return loop.kind == LoopKind::sequence && loop.is_block() && !loop.extent.is(1);
  });
}

// Folding loop by loop equals folding neighbours if, within each kind, every loop but the outermost has a power-of-two
// extent.
bool folds_by_loops(const Reduction& r, const ir::Tree& tree) {
  for (const LoopKind kind : {LoopKind::lane, LoopKind::chunk}) {
    // The elements of an iteration are lanes, or else parts of a balanced tree.
    int64_t inner = (kind == LoopKind::lane) == (tree.lanes > 0) ? r.per : 1;
    for (size_t i = r.loops.size(); i-- > 0;) {
      if (r.loops[i].kind != kind) continue;
      if (inner <= 0 || !std::has_single_bit(static_cast<uint64_t>(inner))) return false;
      inner = r.loops[i].extent.is_const() ? r.loops[i].extent.value() : 0;
    }
  }
  return true;
}

// The number of accumulators of a thread; 0 if it is no constant.
int64_t array_size(const Reduction& r) {
  int64_t out = r.per;
  for (const ReduceLoop& loop : r.loops) {
    if (loop.is_array()) out *= loop.extent.is_const() ? loop.extent.value() : 0;
  }
  return out;
}

// The array index of the current iteration's first accumulator.
IndexExpr array_position(const Reduction& r) {
  IndexExpr out;
  for (const ReduceLoop& loop : r.loops) {
    if (loop.is_array()) out = out * loop.extent + IndexExpr::symbol(loop.head.var);
  }
  return out * r.per;
}

bool has_sequence(const Reduction& r) {
  return std::any_of(r.loops.begin(), r.loops.end(),
                     [](const ReduceLoop& loop) { return loop.kind == LoopKind::sequence && !loop.extent.is(1); });
}

bool is_empty(const Reduction& r) {
  return std::any_of(r.loops.begin(), r.loops.end(),
                     [](const ReduceLoop& loop) { return loop.extent.is_const() && loop.extent.value() <= 0; });
}

void assign_kinds(Reduction& r, DType dtype) {
  const ir::Tree& tree = r.stmt.tree;
  if (ir::is_order_free(r.stmt.combiner, dtype)) {
    for (ReduceLoop& loop : r.loops) loop.kind = loop.is_block() ? LoopKind::lane : LoopKind::sequence;
  } else if (!classify(r, tree) || !folds_by_loops(r, tree) || (array_size(r) == 0 && !is_empty(r))) {
    throw UnsupportedSchedule("its loops do not split into the lanes and chunks of tree(" + std::to_string(tree.lanes) +
                              ", " + std::to_string(tree.chunk) + ")");
  }
  if (array_size(r) > kMaxAccumulators)
    throw UnsupportedSchedule(std::to_string(array_size(r)) + " accumulators in a thread");
}

// Binds the variables of its block loops. In idle threads they are out of range and not used.
Reduction plan_reduction(ThreadLowering& l, const ir::Reduce& stmt) {
  Reduction r{stmt, {stmt.combiner, {}}};
  for (const RegId dst : stmt.dst) r.op.types.push_back(l.kernel.regs[dst].dtype);
  for (const Operand& operand : stmt.yield) r.width = std::max(r.width, ir::width_of(l.kernel, operand));
  const bool lane_wise = l.kernel.regs[stmt.dst[0]].width == r.width;  // each lane is a reduction of its own
  (lane_wise ? r.op.width : r.per) = r.width;
  std::vector<LoopHead> of_threads;
  for (const LoopHead& loop : stmt.loops) {
    if (loop.tag == LoopTag::grid) throw UnsupportedSchedule("a grid loop must be outermost");
    r.loops.push_back({loop, LoopKind::sequence, resolve(l, loop.extent)});
    if (r.loops.back().is_block()) of_threads.push_back(loop);
  }
  r.shares = !of_threads.empty();
  r.threads = bind_threads(l, of_threads, 1);
  assign_kinds(r, r.op.types[0]);
  return r;
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

// Adds the elements of this iteration to their accumulators, or stores them there.
void add_elements(ThreadLowering& l, const Reduction& r, const Tuples& accumulators, bool adds) {
  const IndexExpr at = array_position(r);
  Parts value = yielded(l, r);
  CombineOp op = r.op;
  op.width = r.width;
  if (adds) value = combine(l, op, accumulators.get(at, r.per), value);
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

// Folds from the innermost loop outwards. Returns whether idle threads have the result.
bool fold_loops(ThreadLowering& l, const Reduction& r, std::vector<Parts>& values) {
  int64_t array_stride = r.per, thread_stride = 1;
  bool everywhere = !r.shares;
  fold_values(l, r.op, values, 1, r.per);
  for (size_t i = r.loops.size(); i-- > 0;) {
    const ReduceLoop& loop = r.loops[i];
    if (loop.is_array()) {
      fold_values(l, r.op, values, array_stride, loop.extent.value());
      array_stride *= loop.extent.value();
    } else if (loop.is_block()) {
      int64_t count = constant_extent(l, loop.head);
      // Neighbouring block loops of one kind are folded together.
      while (i > 0 && r.loops[i - 1].is_block() && r.loops[i - 1].kind == loop.kind)
        count *= constant_extent(l, r.loops[--i].head);
      if (count > 1) everywhere = combine_threads(l, r.op, values, thread_stride, count, array_stride);
      thread_stride *= count;
    }
  }
  return everywhere;
}

Parts reduce(ThreadLowering& l, const Reduction& r) {
  if (is_empty(r)) return identity(r.op);
  const Tuples accumulators(l, r.op, array_size(r));
  const bool adds = has_sequence(r);
  if (adds || has_idle_threads(l, r) || !r.stmt.guard.empty()) accumulators.reset(r.per);
  in_thread_loops(l, r, 0, [&] { iteration(l, r, [&] { add_elements(l, r, accumulators, adds); }); });
  std::vector<Parts> values = accumulators.all();
  const bool everywhere = fold_loops(l, r, values);
  return has_idle_threads(l, r) && !everywhere ? broadcast(l, r.op, values[0]) : values[0];
}

}  // namespace

bool has_block_loop(const ir::Reduce& stmt) {
  return std::any_of(stmt.loops.begin(), stmt.loops.end(),
                     [](const LoopHead& loop) { return loop.tag >= LoopTag::block; });
}

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
