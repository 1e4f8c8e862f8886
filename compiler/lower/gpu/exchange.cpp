// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: folds values over the threads of a group, with shuffles inside warps and through shared memory
// between warps.

#include <algorithm>
#include <bit>

#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/kernel/combiner.h"
#include "ir/kernel/mailbox.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kWarpThreads = 32;

bool is_power(int64_t v) { return std::has_single_bit(static_cast<uint64_t>(v)); }
bool aligned_to(const ThreadGroup& group, int64_t to) { return group.alignment % to == 0; }

bool in_one_warp(const ThreadGroup& group) {
  return aligned_to(group, kWarpThreads) ||
         (group.size <= kWarpThreads && is_power(group.size) && aligned_to(group, group.size));
}

IndexExpr lane_in_warp() { return mod(IndexExpr::symbol(ir::kThread), kWarpThreads); }
IndexExpr warp_in_block() { return floordiv(IndexExpr::symbol(ir::kThread), kWarpThreads); }

Operand warp_mask(const ThreadLowering& l) {
  if (!l.group.mask) throw UnsupportedSchedule("not all threads of the warp come here together");
  return *l.group.mask;
}

Parts shuffle(ThreadLowering& l, const CombineOp& op, ir::ShuffleKind kind, const Parts& value, const IndexExpr& lane) {
  Parts out;
  for (size_t p = 0; p < value.size(); ++p) {
    const RegId dst = add_reg(l.kernel, op.types[p], op.width);
    l.out->push_back({ir::Shuffle{dst, kind, value[p], resolve(l, lane), warp_mask(l)}});
    out.emplace_back(dst);
  }
  return out;
}

Parts choose(ThreadLowering& l, const CombineOp& op, const Operand& condition, const Parts& a, const Parts& b) {
  Parts out;
  for (size_t p = 0; p < a.size(); ++p)
    out.push_back(append_let(l, ir::ScalarOp::where, op.part(p), {condition, a[p], b[p]}));
  return out;
}

// Whether e > 0.
Operand is_positive(ThreadLowering& l, const IndexExpr& e) {
  return append_let(l, ir::ScalarOp::gt, {DType::bool_, 1},
                    {append_index(l, DType::i32, e), ir::int_constant(DType::i32, 0)});
}

// The combination of mine and other, with the lower thread's value on the left. `upper` is positive in the thread that
// is not the lower one.
Parts combine_exchanged(ThreadLowering& l, const CombineOp& op, const Parts& mine, const Parts& other,
                        const IndexExpr& upper) {
  if (ir::is_symmetric(op.combiner)) return combine(l, op, mine, other);
  const Operand is_upper = is_positive(l, upper);
  return combine(l, op, choose(l, op, is_upper, other, mine), choose(l, op, is_upper, mine, other));
}

// Exchanges values by XOR of thread numbers: from, 2*from, ... below `to`, powers of two.
Parts fold_by_xor(ThreadLowering& l, const CombineOp& op, Parts mine, int64_t from, int64_t to) {
  for (int64_t s = from; s < to; s *= 2) {
    const Parts other = shuffle(l, op, ir::ShuffleKind::by_xor, mine, s);
    mine = combine_exchanged(l, op, mine, other, mod(floordiv(IndexExpr::symbol(ir::kThread), s), 2));
  }
  return mine;
}

// For any number of threads in one warp: reads from the first thread of the neighbouring run, where there is one.
Parts fold_by_index(ThreadLowering& l, const CombineOp& op, Parts mine, int64_t from, int64_t total) {
  const IndexExpr t = l.group.thread;
  for (int64_t s = from; s < total; s *= 2) {
    const IndexExpr run = floordiv(t, s), is_odd = mod(run, 2);
    const IndexExpr first = (run + 1 - 2 * is_odd) * s;
    const IndexExpr lane = mod(IndexExpr::symbol(ir::kThread) - t + min(first, IndexExpr(total - 1)), kWarpThreads);
    const Parts other = shuffle(l, op, ir::ShuffleKind::by_index, mine, lane);
    const Parts both = combine_exchanged(l, op, mine, other, is_odd);
    mine = choose(l, op, is_positive(l, total - first), both, mine);
  }
  return mine;
}

// Whether the warps of a cluster come here once, and their values can be stored to other blocks without a barrier.
bool fits_mailbox(const ThreadLowering& l, const CombineOp& op) {
  const bool whole = l.loops == 0 && l.group.size == l.block_threads && l.group.mask == ir::kAllThreads;
  const bool words = std::all_of(op.types.begin(), op.types.end(), [](DType type) { return size_of(type) >= 4; });
  return l.cluster > 1 && whole && words && op.width == 1;
}

// Shared arrays of `entries` tuples for each of `units`, warps or threads. The blocks of a cluster hold those of
// their own or, in mailboxes, all.
class SharedTuples {
 public:
  SharedTuples(ThreadLowering& l, const CombineOp& op, int64_t units, int64_t entries = 1, bool mails = false)
      : l_(l), op_(op), mails_(mails), units_(mails ? units : (units + l.cluster - 1) / l.cluster) {
    for (const DType type : op.types) {
      arrays_.push_back(append_buffer(l, ir::Space::shared, type, units_ * entries * op.width));
      if (l.cluster > 1) l.kernel.buffers[arrays_.back()].shape.insert(begin_of(arrays_.back()), l.cluster);
      if (mails) l.kernel.buffers[arrays_.back()].layout = ir::kMailbox;
    }
  }

  Parts get(const IndexExpr& unit, int64_t entry = 0) const {
    Parts out;
    for (const BufferId array : arrays_) out.push_back(append_load(l_, array, place(unit, entry), op_.width));
    return out;
  }
  void set(const IndexExpr& unit, const Parts& value, int64_t entry = 0) const {
    for (size_t p = 0; p < arrays_.size(); ++p) append_store(l_, arrays_[p], place(unit, entry), value[p]);
  }
  // The first lanes of a warp, each for another block.
  void mail(const IndexExpr& unit, const Parts& value, int64_t entry) const {
    for (size_t p = 0; p < arrays_.size(); ++p)
      append_store(l_, arrays_[p], {lane_in_warp(), unit + entry * units_}, value[p]);
  }

 private:
  ir::IndexShape::iterator begin_of(BufferId array) const { return l_.kernel.buffers[array].shape.begin(); }

  std::vector<IndexExpr> place(const IndexExpr& unit, int64_t entry) const {
    if (l_.cluster == 1) return {(unit + entry * units_) * op_.width};
    if (mails_) {
      const IndexExpr block = floordiv(IndexExpr::symbol(ir::kThread), l_.block_threads / l_.cluster);
      return {block, resolve(l_, unit) + entry * units_};
    }
    const IndexExpr own = resolve(l_, unit);
    return {floordiv(own, units_), (mod(own, units_) + entry * units_) * op_.width};
  }

  ThreadLowering& l_;
  const CombineOp& op_;
  const bool mails_;
  const int64_t units_;  // that one block holds
  std::vector<BufferId> arrays_;
};

// Folds `count` values, of which lane i of each warp takes `own` neighbours from i*own on, as far as there are any. The
// balanced tree over all of them: a node without a right part is its left one.
template <class Get>
Parts fold_over_lanes(ThreadLowering& l, const CombineOp& op, int64_t count, int64_t lanes, int64_t own,
                      const Get& get) {
  const IndexExpr lane = mod(IndexExpr::symbol(ir::kThread), lanes), first = lane * own;
  const bool is_full = lanes * own == count;
  const auto if_there = [&](const IndexExpr& right, const Parts& both, const Parts& left) {
    return is_full ? both : choose(l, op, is_positive(l, count - right), both, left);
  };
  std::vector<Parts> values;
  for (int64_t k = 0; k < own; ++k) values.push_back(get(is_full ? first + k : min(first + k, IndexExpr(count - 1))));
  for (int64_t s = 1; s < own; s *= 2) {
    for (int64_t k = 0; k + s < own; k += 2 * s) {
      const auto at = static_cast<size_t>(k);
      const Parts both = combine(l, op, values[at], values[at + static_cast<size_t>(s)]);
      values[at] = if_there(first + k + s, both, values[at]);
    }
  }
  if (is_full) return fold_by_xor(l, op, values[0], 1, lanes);
  Parts mine = values[0];
  for (int64_t s = 1; s < lanes; s *= 2) {
    const Parts other = shuffle(l, op, ir::ShuffleKind::by_xor, mine, s);
    const IndexExpr run = floordiv(lane, s), is_odd = mod(run, 2);
    const Parts both = combine_exchanged(l, op, mine, other, is_odd);
    mine = if_there((run + 1 - is_odd) * (s * own), both, choose(l, op, is_positive(l, is_odd), other, mine));
  }
  return mine;
}

// Folds `runs` runs of `unit` warps each. Every run has one value, and the first warps of the runs are `unit` apart.
// With many runs, the threads of each warp fold neighbouring values and then by_xor, else each thread folds all.
void fold_warps(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t runs, int64_t unit,
                int64_t step) {
  const auto count = static_cast<int64_t>(values.size());
  const int64_t warps = (l.block_threads + kWarpThreads - 1) / kWarpThreads;
  const bool mails = fits_mailbox(l, op);
  const SharedTuples shared(l, op, warps, (count + step - 1) / step, mails);
  append_if(l, {(mails ? l.cluster - 1 : 0) - lane_in_warp()}, [&] {
    for (int64_t i = 0; i < count; i += step) {
      const Parts& value = values[static_cast<size_t>(i)];
      mails ? shared.mail(warp_in_block(), value, i / step) : shared.set(warp_in_block(), value, i / step);
    }
  });
  IndexExpr base = 0;
  if (l.group.alignment != 0) base = warp_in_block() - floordiv(l.group.thread, kWarpThreads);
  const bool by_warp = runs > 4 && l.block_threads % kWarpThreads == 0;
  const auto leaves = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(runs)));
  const int64_t lanes = by_warp ? std::min(leaves, kWarpThreads) : 1;
  for (int64_t i = 0; i < count; i += step) {
    const auto get = [&](const IndexExpr& run) { return shared.get(base + run * unit, i / step); };
    if (by_warp) {
      values[static_cast<size_t>(i)] = fold_over_lanes(l, op, runs, lanes, leaves / lanes, get);
      continue;
    }
    std::vector<Parts> all;
    for (int64_t run = 0; run < runs; ++run) all.push_back(get(run));
    fold_values(l, op, all, 1, runs);
    values[static_cast<size_t>(i)] = all[0];
  }
}

// Works for any counts: a tree in shared memory.
void fold_in_shared(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t stride, int64_t count,
                    int64_t step) {
  const SharedTuples shared(l, op, l.block_threads);
  const IndexExpr self = IndexExpr::symbol(ir::kThread), run = floordiv(l.group.thread, stride);
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(step)) {
    shared.set(self, values[i]);
    for (int64_t s = 1; s < count; s *= 2) {
      append_if(l, {-mod(run, 2 * s), count - 1 - run - s}, [&] {
        const Parts mine = shared.get(self);
        shared.set(self, combine(l, op, mine, shared.get(self + s * stride)));
      });
    }
    values[i] = shared.get(self - l.group.thread);
  }
}

}  // namespace

void fold_values(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t stride, int64_t count) {
  const auto run = static_cast<size_t>(stride * count), first = static_cast<size_t>(stride);
  for (size_t r = 0; r < values.size() && count > 1; r += run) {
    for (size_t s = first; s < run; s *= 2) {
      for (size_t k = r; k + s < r + run; k += 2 * s) values[k] = combine(l, op, values[k], values[k + s]);
    }
  }
}

bool combine_threads(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t stride, int64_t count,
                     int64_t step) {
  const int64_t total = stride * count;
  const auto each = [&](const auto& fold) {
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(step)) values[i] = fold(values[i]);
  };
  if (count <= 1) return false;
  if (total <= kWarpThreads && is_power(total) && aligned_to(l.group, total)) {
    each([&](const Parts& v) { return fold_by_xor(l, op, v, stride, total); });
    return false;
  }
  if (total <= kWarpThreads && is_power(stride) && in_one_warp(l.group)) {
    each([&](const Parts& v) { return fold_by_index(l, op, v, stride, total); });
    return false;
  }
  const bool whole_warps = total % kWarpThreads == 0 && aligned_to(l.group, kWarpThreads);
  if (whole_warps && stride % kWarpThreads == 0) {
    fold_warps(l, op, values, count, stride / kWarpThreads, step);
  } else if (whole_warps && stride < kWarpThreads && is_power(stride)) {
    each([&](const Parts& v) { return fold_by_xor(l, op, v, stride, kWarpThreads); });
    fold_warps(l, op, values, total / kWarpThreads, 1, step);
  } else {
    fold_in_shared(l, op, values, stride, count, step);
  }
  return true;
}

Parts broadcast(ThreadLowering& l, const CombineOp& op, const Parts& value) {
  const IndexExpr first = IndexExpr::symbol(ir::kThread) - l.group.thread;
  if (l.group.size <= kWarpThreads && in_one_warp(l.group))
    return shuffle(l, op, ir::ShuffleKind::by_index, value, mod(first, kWarpThreads));
  // Another block's memory would be written, perhaps before that block begins.
  if (l.cluster > 1 && l.group.size < l.block_threads) throw UnsupportedSchedule("idle threads in part of a cluster");
  const SharedTuples shared(l, op, l.block_threads / l.group.size + 1);
  const IndexExpr slot = floordiv(first, l.group.size);
  append_if(l, {-l.group.thread}, [&] { shared.set(slot, value); });
  return shared.get(slot);
}

}  // namespace fusec::compiler
