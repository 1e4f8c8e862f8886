// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: makes one tuple of the elements that a thread has of a chunk of a long row. Combining tuples costs
// many instructions, so the thread reduces its elements value by value, and only its tuples are combined as such:
//
//   max_sum      the maximum m, then the sum of exp(x - m);
//   welford      the number and the mean, then the sum of (x - mean)^2;
//   argmax, ...  the best value, then the first or last of the places that have it.

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

bool chooses_place(ir::Combiner combiner) { return tuple_size(combiner) == 2 && combiner != ir::Combiner::max_sum; }

// The statement that computes the place of an element from loop variables alone.
const ir::IndexValue* find_place(const Block& body, const Operand& place) {
  for (const Stmt& stmt : body) {
    const auto* value = std::get_if<ir::IndexValue>(&stmt.v);
    if (value != nullptr && place == Operand(value->dst)) return value;
  }
  return nullptr;
}

class TupleOfThread {
 public:
  TupleOfThread(ir::Kernel& kernel, const ThreadElements& elements, Block& out)
      : k_(kernel), e_(elements), out_(out), taken_(hold()) {}

  std::vector<Operand> make(ir::Combiner combiner) {
    if (combiner == ir::Combiner::max_sum) return max_and_sum();
    if (combiner == ir::Combiner::welford) return moments();
    return best_and_place(combiner);
  }

 private:
  // The elements of one access, loaded and computed; the last statement carries them.
  const std::vector<Operand>& yields() const { return std::get<ir::Reduce>(e_.body.back().v).yield; }

  // Puts the elements into registers and returns what takes those of one access from there, as x_. Where accesses are
  // too many for registers, it is what loads them again.
  Block hold() {
    Block body = e_.body;
    const Operand x = yields()[0];
    body.pop_back();
    if (e_.steps.tag != LoopTag::unroll) {
      x_ = x;
      return body;
    }
    const BufferId held = add_buffer(k_, {"held" + std::to_string(k_.buffers.size()),
                                          ir::Space::reg,
                                          DType::f32,
                                          {e_.steps.extent, e_.lanes},
                                          {},
                                          0,
                                          ""});
    const std::vector<IndexExpr> at = {IndexExpr::symbol(e_.steps.var),
                                       e_.lanes > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0)};
    body.push_back({ir::Store{held, at, x, {}, ir::StoreHint::none}});
    out_.push_back({ir::Alloc{held}});
    out_.push_back(rebuild_loops({e_.steps}, clone(k_, body)));
    const RegId taken = add_reg(k_, DType::f32, e_.lanes);
    Block result;
    result.push_back({ir::Load{taken, held, at, {}, ir::Constant{DType::f32}, 0}});
    x_ = taken;
    return result;
  }

  // A thread without a number above the lowest has no exponentials: their sum is 0, not the NaN of -inf - -inf.
  std::vector<Operand> max_and_sum() {
    const Operand lowest = number(-std::numeric_limits<double>::infinity());
    const Operand most = reduce(ir::Combiner::max, [](Block&, Operand x) { return x; });
    const Operand none = let(out_, ir::ScalarOp::eq, {most, lowest}, {DType::bool_, 1});
    const Operand shift = let(out_, ir::ScalarOp::where, {none, number(0), most}, {DType::f32, 1});
    const Operand sum = reduce(ir::Combiner::add, [&](Block& body, Operand x) {
      return let(body, ir::ScalarOp::exp, {let(body, ir::ScalarOp::sub, {x, shift}, wide())}, wide());
    });
    return {most, sum};
  }

  // Counts the elements inside the row.
  std::vector<Operand> moments() {
    const RegId count = add_reg(k_, DType::f32);
    add({{count}, ir::Combiner::add, {1, 0}, {e_.steps}, {}, {number(e_.lanes)}, e_.inside});
    const Operand sum = reduce(ir::Combiner::add, [](Block&, Operand x) { return x; });
    const Operand mean = let(out_, ir::ScalarOp::div, {sum, count}, {DType::f32, 1});
    const Operand squares = reduce(ir::Combiner::add, [&](Block& body, Operand x) {
      const Operand difference = let(body, ir::ScalarOp::sub, {x, mean}, wide());
      return let(body, ir::ScalarOp::mul, {difference, difference}, wide());
    });
    return {mean, squares, count};
  }

  // NaN is the best value; no value equals it.
  std::vector<Operand> best_and_place(ir::Combiner combiner) {
    const bool greatest = combiner == ir::Combiner::argmax || combiner == ir::Combiner::argmax_last;
    const bool last = combiner == ir::Combiner::argmax_last || combiner == ir::Combiner::argmin_last;
    const Operand best = reduce(greatest ? ir::Combiner::max : ir::Combiner::min, [](Block&, Operand x) { return x; });
    const IndexExpr place = find_place(e_.body, yields()[1])->value;
    const RegId result = add_reg(k_, DType::i32);
    Block body = taken_;
    const ir::RegInfo flags{DType::bool_, e_.lanes}, places{DType::i32, e_.lanes};
    const RegId at = add_reg(k_, DType::i32, e_.lanes);
    body.push_back({ir::IndexValue{at, place}});
    const Operand equal = let(body, ir::ScalarOp::eq, {x_, best}, flags);
    const Operand hit = let(body, ir::ScalarOp::or_, {equal, let(body, ir::ScalarOp::is_nan, {x_}, flags)}, flags);
    const int64_t none = last ? -1 : std::numeric_limits<int32_t>::max();
    const Operand found = let(body, ir::ScalarOp::where, {hit, at, ir::int_constant(DType::i32, none)}, places);
    add({{result}, last ? ir::Combiner::max : ir::Combiner::min, {e_.lanes, 0}, {e_.steps}, body, {found}, e_.inside});
    return {best, result};
  }

  static Operand number(double value) { return ir::float_constant(DType::f32, value); }
  ir::RegInfo wide() const { return {DType::f32, e_.lanes}; }

  Operand let(Block& block, ir::ScalarOp op, std::vector<Operand> args, ir::RegInfo type) {
    const RegId result = add_reg(k_, type.dtype, type.width);
    block.push_back({ir::Let{result, op, std::move(args)}});
    return result;
  }

  // Combines f(x) of all elements x.
  template <class F>
  Operand reduce(ir::Combiner combiner, const F& f) {
    Block body = taken_;
    const Operand value = f(body, x_);
    const RegId result = add_reg(k_, DType::f32);
    add({{result}, combiner, {e_.lanes, 0}, {e_.steps}, std::move(body), {value}, e_.inside});
    return result;
  }

  // Appends a reduction with registers and a loop variable of its own.
  void add(ir::Reduce reduce) {
    Block block;
    block.push_back({reduce});
    block = clone(k_, block);
    std::get<ir::Reduce>(block[0].v).dst = std::move(reduce.dst);
    append(out_, std::move(block));
  }

  ir::Kernel& k_;
  const ThreadElements& e_;
  Block& out_;
  Operand x_;
  Block taken_;
};

// Whether 32 bits hold every place of the row, which no data changes.
bool has_short_places(const ir::Reduce& row) {
  IndexExpr length = 1;
  for (const LoopHead& head : row.loops) length *= head.extent;
  const bool is_short = length.is_const() && length.value() < std::numeric_limits<int32_t>::max();
  const ir::IndexValue* place = find_place(row.body, row.yield[1]);
  if (!is_short || place == nullptr) return false;
  std::set<ir::SymbolId> symbols;
  place->value.collect_symbols(symbols);
  return std::none_of(symbols.begin(), symbols.end(), [](ir::SymbolId s) { return s.reg().has_value(); });
}

}  // namespace

bool makes_tuples(const ir::Kernel& kernel, const ir::Reduce& row) {
  if (row.combiner == ir::Combiner::max_sum || row.combiner == ir::Combiner::welford) return true;
  return chooses_place(row.combiner) && kernel.regs[row.dst[0]].dtype == DType::f32 &&
         kernel.regs[row.dst[1]].dtype == DType::i32 && has_short_places(row);
}

void narrow_places(ir::Kernel& kernel, Block& block) {
  Block result;
  for (Stmt& stmt : block) {
    for (Block* nested : nested_blocks(stmt)) narrow_places(kernel, *nested);
    auto* row = std::get_if<ir::Reduce>(&stmt.v);
    const bool narrows = row != nullptr && chooses_place(row->combiner) &&
                         kernel.regs[row->dst[1]].dtype == DType::i64 && has_short_places(*row);
    if (!narrows) {
      result.push_back(std::move(stmt));
      continue;
    }
    const RegId wide = row->dst[1], narrow = add_reg(kernel, DType::i32, kernel.regs[wide].width);
    const ir::IndexValue place = *find_place(row->body, row->yield[1]);
    const RegId at = add_reg(kernel, DType::i32, kernel.regs[place.dst].width);
    row->body.push_back({ir::IndexValue{at, place.value}});
    row->yield[1] = at, row->dst[1] = narrow;
    result.push_back(std::move(stmt));
    result.push_back({ir::Let{wide, ir::ScalarOp::cast, {narrow}}});
  }
  block = std::move(result);
}

std::vector<Operand> reduce_to_tuple(ir::Kernel& kernel, ir::Combiner combiner, const ThreadElements& elements,
                                     Block& out) {
  return TupleOfThread(kernel, elements, out).make(combiner);
}

}  // namespace fusec::compiler
