// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules argmax and argmin along rows, as lanes that search side by side.

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

using ir::Combiner;
using ir::ScalarOp;

namespace {

// The lanes that search for the greatest or least element: two vectors of f32, so that a comparison need not wait for
// the one before; one where most lanes of two would be idle. Shorter rows are searched one element after another.
constexpr int kSearchLanes = 32, kFewSearchLanes = 16;
constexpr int64_t kShortestSearch = 4;

// A search along a row: each lane keeps the best element that it has seen, and the index of lane 0 where it saw it.
// Elements come by rising index, so only the lanes' results compare indices.
class SearchScheduler {
 public:
  SearchScheduler(ir::Kernel& kernel, ir::Reduce reduce)
      : kernel_(kernel), reduce_(std::move(reduce)), inner_(reduce_.loops.back()) {
    dtype_ = kernel_.regs[reduce_.dst[0]].dtype;
    greatest_ = reduce_.combiner == Combiner::argmax || reduce_.combiner == Combiner::argmax_last;
    last_ = reduce_.combiner == Combiner::argmax_last || reduce_.combiner == Combiner::argmin_last;
    if (inner_.extent.is_const() && inner_.extent.value() < 2 * kSearchLanes) lanes_ = kFewSearchLanes;
    find_position();
  }

  // Whether the index counts the innermost loop.
  bool suits() const {
    return position_.has_value() && (!inner_.extent.is_const() || inner_.extent.value() >= kShortestSearch);
  }

  void run(Block& out) {
    best_ = new_lanes("best", dtype_);
    at_ = new_lanes("at", DType::i64);
    clear(out);
    const IndexExpr full = floordiv(inner_.extent, lanes_), done = IndexExpr(lanes_) * full;
    const VarId v = add_var(kernel_);
    Block passes;
    Block main = pass(IndexExpr(lanes_) * IndexExpr::symbol(v), {});
    passes.push_back({ir::Loop{{LoopTag::seq, v, full}, std::move(main), ir::PhaseBoundary::launches}});
    if (!divisible_by(kernel_, inner_.extent, lanes_)) {
      Block rest = pass(done, {inner_.extent - 1 - done - lane()});
      const IndexExpr times = ceildiv(inner_.extent, lanes_) - full;
      passes.push_back(
          {ir::Loop{{LoopTag::seq, add_var(kernel_), times}, std::move(rest), ir::PhaseBoundary::launches}});
    }
    for (size_t i = reduce_.loops.size() - 1; i-- > 0;) {
      Block around;
      around.push_back({ir::Loop{reduce_.loops[i], std::move(passes), ir::PhaseBoundary::launches}});
      passes = std::move(around);
    }
    append(out, std::move(passes));
    finish(out);
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // The index of an element, if it is an expression that rises by one with each iteration of the innermost loop.
  void find_position() {
    const auto* index = std::get_if<RegId>(&reduce_.yield[1]);
    for (const Stmt& stmt : reduce_.body) {
      const auto* value = std::get_if<ir::IndexValue>(&stmt.v);
      if (value == nullptr || index == nullptr || value->dst != *index) continue;
      const auto affine = affine_in(value->value, {inner_.var});
      if (affine && affine->coefficient(inner_.var).is(1)) position_ = value->value;
    }
  }

  ir::BufferId new_lanes(const std::string& name, DType dtype) {
    const std::string unique = name + std::to_string(kernel_.buffers.size());
    return add_buffer(kernel_, {unique, ir::Space::reg, dtype, {lanes_}, {}, 0, ""});
  }

  RegId let(Block& out, ScalarOp op, DType dtype, std::vector<Operand> args) {
    const RegId reg = add_reg(kernel_, dtype, lanes_);
    out.push_back({ir::Let{reg, op, std::move(args)}});
    return reg;
  }

  RegId load(Block& out, ir::BufferId from) {
    const DType dtype = kernel_.buffers[from].dtype;
    const RegId reg = add_reg(kernel_, dtype, lanes_);
    out.push_back({ir::Load{reg, from, {lane()}, {}, ir::Constant{dtype}, 0}});
    return reg;
  }

  // Lanes begin with the worst value. Where the first of equal elements wins, an element of that value does not take
  // its place, so the lane begins with the index of its first element. A lane without elements never wins: where all
  // elements have the worst value, the first one is in lane 0.
  void clear(Block& out) {
    const std::vector<ir::Constant> identity = identity_constants(reduce_.combiner, std::array{dtype_, DType::i64});
    Operand at = identity[1];
    if (!last_) {
      std::map<ir::SymbolId, IndexExpr> first;
      for (const LoopHead& head : reduce_.loops) first[head.var] = IndexExpr(0);
      const RegId index = add_reg(kernel_, DType::i64);
      out.push_back({ir::IndexValue{index, position_->substitute(first)}});
      at = index;
    }
    out.push_back({ir::Alloc{best_}});
    out.push_back({ir::Alloc{at_}});
    store(out, best_, splat(out, identity[0], dtype_), {});
    store(out, at_, splat(out, at, DType::i64), {});
  }

  RegId splat(Block& out, const Operand& value, DType dtype) {
    return let(out, ScalarOp::where, dtype, {ir::int_constant(DType::bool_, 1), value, value});
  }

  static void store(Block& out, ir::BufferId to, RegId value, const ir::Guard& guard) {
    out.push_back({ir::Store{to, {lane()}, value, guard, ir::StoreHint::none}});
  }

  // Whether `value` takes the place of `best`: a NaN does, of a number.
  RegId wins(Block& out, const Operand& value, RegId best) {
    const ScalarOp better = greatest_ ? (last_ ? ScalarOp::ge : ScalarOp::gt) : (last_ ? ScalarOp::le : ScalarOp::lt);
    const RegId wins = let(out, better, DType::bool_, {value, best});
    if (!is_float(dtype_)) return wins;
    RegId nan_wins = let(out, ScalarOp::is_nan, DType::bool_, {value});
    if (!last_) {
      const RegId is_number = let(out, ScalarOp::eq, DType::bool_, {best, best});
      nan_wins = let(out, ScalarOp::and_, DType::bool_, {nan_wins, is_number});
    }
    return let(out, ScalarOp::or_, DType::bool_, {wins, nan_wins});
  }

  // One vector of iterations.
  Block pass(const IndexExpr& base, const ir::Guard& guard) {
    Block carrying = reduce_.body;
    carrying.push_back({ir::Reduce{{}, reduce_.combiner, {}, {}, {}, reduce_.yield, {}}});
    Block block = clone(kernel_, carrying);
    vectorize(kernel_, block, inner_.var, lanes_, base);
    const Operand value = std::get<ir::Reduce>(block.back().v).yield[0];
    block.pop_back();
    if (!guard.empty()) add_guard(kernel_, block, guard);
    const RegId best = load(block, best_), at = load(block, at_), here = add_reg(kernel_, DType::i64);
    const RegId won = wins(block, value, best);
    block.push_back({ir::IndexValue{here, position_->substitute({{inner_.var, base}})}});
    store(block, best_, let(block, ScalarOp::where, dtype_, {won, value, best}), guard);
    store(block, at_, let(block, ScalarOp::where, DType::i64, {won, here, at}), guard);
    return block;
  }

  void finish(Block& out) {
    ir::Reduce last{reduce_.dst, reduce_.combiner, {lanes_, 0}, {}, {}, {}, {}};
    const RegId best = load(last.body, best_), at = load(last.body, at_);
    const RegId number = add_reg(kernel_, DType::i64, lanes_);
    last.body.push_back({ir::IndexValue{number, lane()}});
    last.yield = {best, let(last.body, ScalarOp::add, DType::i64, {at, number})};
    out.push_back({std::move(last)});
  }

  ir::Kernel& kernel_;
  ir::Reduce reduce_;
  LoopHead inner_;
  int lanes_ = kSearchLanes;
  std::optional<IndexExpr> position_;
  DType dtype_;
  bool greatest_ = false, last_ = false;
  ir::BufferId best_, at_;
};

}  // namespace

bool schedule_search(ir::Kernel& kernel, ir::Reduce& reduce, Block& out) {
  const bool is_pair = tuple_size(reduce.combiner) == 2 && reduce.combiner != Combiner::max_sum;
  if (!is_pair || reduce.loops.empty() || !reduce.guard.empty()) return false;
  SearchScheduler search(kernel, reduce);
  if (search.suits()) search.run(out);
  return search.suits();
}

}  // namespace fusec::compiler
