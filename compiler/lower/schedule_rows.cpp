// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/lower/rewrite.h"
#include "compiler/lower/schedule.h"

namespace fusec::compiler {

using ir::Block;
using ir::Combiner;
using ir::LoopHead;
using ir::LoopTag;
using ir::Operand;
using ir::RegId;
using ir::ScalarOp;
using ir::Stmt;

namespace {

// Lanes of the reduction tree, by row length alone, so that results depend on nothing else: 32 f32 accumulate side by
// side (two AVX-512 registers hide the latency of an addition), 16 for rows that would leave most of 32 idle.
int tree_lanes(const Dim& row) { return row.is_const() && row.value() <= 64 ? 16 : 32; }

ScalarOp combining_op(Combiner c) {
  switch (c) {
    case Combiner::mul:
      return ScalarOp::mul;
    case Combiner::max:
      return ScalarOp::max;
    case Combiner::min:
      return ScalarOp::min;
    case Combiner::and_:
      return ScalarOp::and_;
    case Combiner::or_:
      return ScalarOp::or_;
    default:
      return ScalarOp::add;
  }
}

int64_t lowest(DType t) {
  if (is_unsigned_int(t) || t == DType::bool_) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t));
}

int64_t highest(DType t) {
  if (t == DType::bool_) return 1;
  const auto bits = 8 * size_of(t);
  if (is_unsigned_int(t)) return bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  return std::numeric_limits<int64_t>::max() >> (64 - bits);
}

Operand identity(Combiner c, DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (c) {
    case Combiner::mul:
      return is_float(t) ? ir::float_constant(t, 1) : ir::int_constant(t, 1);
    case Combiner::max:
      return is_float(t) ? ir::float_constant(t, -kInf) : ir::int_constant(t, lowest(t));
    case Combiner::min:
      return is_float(t) ? ir::float_constant(t, kInf) : ir::int_constant(t, highest(t));
    case Combiner::and_:
      return ir::int_constant(t, 1);
    default:
      return is_float(t) ? ir::float_constant(t, 0) : ir::int_constant(t, 0);
  }
}

// Turns one reduction over unit-stride iterations into lanes that accumulate in order, combined at the end.
class ReduceScheduler {
 public:
  ReduceScheduler(ir::Kernel& kernel, ir::Reduce reduce)
      : kernel_(kernel), reduce_(std::move(reduce)), inner_(reduce_.loops.back()), lanes_(tree_lanes(inner_.extent)) {
    dtype_ = kernel_.regs[reduce_.dst[0]].dtype;
  }

  void run(Block& out) {
    acc_ = add_buffer(kernel_, {"acc" + std::to_string(kernel_.buffers.size()), ir::Space::reg, dtype_, {lanes_}, {}, 0, ""});
    out.push_back({ir::Alloc{acc_}});
    const RegId init = add_reg(kernel_, dtype_, lanes_);
    const Operand zero = identity(reduce_.combiner, dtype_);
    out.push_back({ir::Let{init, ScalarOp::where, {ir::int_constant(DType::bool_, 1), zero, zero}}});
    out.push_back({ir::Store{acc_, {lane()}, init, {}, ir::StoreHint::none}});
    Block passes = inner_passes();
    reduce_.loops.pop_back();
    for (size_t i = reduce_.loops.size(); i-- > 0;) {
      Block around;
      around.push_back({ir::Loop{reduce_.loops[i], std::move(passes), ir::Boundary::launches}});
      passes = std::move(around);
    }
    for (Stmt& stmt : passes) out.push_back(std::move(stmt));
    finish(out);
  }

 private:
  static Dim lane() { return Dim::symbol(ir::kLane); }

  Block inner_passes() {
    Block result;
    const Dim full = floordiv(inner_.extent, lanes_);
    if (!full.is(0)) {
      const std::string v = fresh_var(kernel_);
      Block main = pass(Dim(lanes_) * Dim::symbol(v), {});
      result.push_back({ir::Loop{{LoopTag::seq, v, full}, std::move(main), ir::Boundary::launches}});
    }
    if (divisible_by(kernel_, inner_.extent, lanes_)) return result;
    const Dim done = Dim(lanes_) * full;
    Block rest = pass(done, {inner_.extent - 1 - done - lane()});
    const Dim times = ceildiv(inner_.extent, lanes_) - full;
    result.push_back({ir::Loop{{LoopTag::seq, fresh_var(kernel_), times}, std::move(rest), ir::Boundary::launches}});
    return result;
  }

  // One vector of iterations: the body, then acc = acc (+) yield.
  Block pass(const Dim& base, const ir::Guard& guard) {
    Block with_yield = reduce_.body;
    with_yield.push_back({ir::Reduce{{}, reduce_.combiner, {}, {}, {}, reduce_.yield, {}}});  // carries the yield along
    Block block = clone(kernel_, with_yield);
    vectorize(kernel_, block, inner_.var, lanes_, base);
    const Operand yield = std::get<ir::Reduce>(block.back().v).yield[0];
    block.pop_back();
    const RegId before = add_reg(kernel_, dtype_, lanes_), after = add_reg(kernel_, dtype_, lanes_);
    block.push_back({ir::Load{before, acc_, {lane()}, {}, ir::Constant{dtype_}, 0}});
    block.push_back({ir::Let{after, combining_op(reduce_.combiner), {before, yield}}});
    block.push_back({ir::Store{acc_, {lane()}, after, {}, ir::StoreHint::none}});
    if (!guard.empty()) {
      add_guard(block, guard);
      for (Stmt& stmt : block)  // the accumulator itself is always there
        if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->buffer == acc_) load->guard.clear();
    }
    return block;
  }

  void finish(Block& out) {
    ir::Reduce last{reduce_.dst, reduce_.combiner, {lanes_, 0}, {}, {}, {}, {}};
    const RegId lanes = add_reg(kernel_, dtype_, lanes_);
    last.body.push_back({ir::Load{lanes, acc_, {lane()}, {}, ir::Constant{dtype_}, 0}});
    last.yield = {lanes};
    out.push_back({std::move(last)});
  }

  ir::Kernel& kernel_;
  ir::Reduce reduce_;
  LoopHead inner_;
  int lanes_;
  DType dtype_;
  ir::BufferId acc_;
};

// The loops of the last phase: vectors over the innermost.
void vectorize_loops(const HostSchedule& s, Stmt stmt, Block& out) {
  PerfectNest nest = take_nest(std::move(stmt));
  const LoopHead inner = nest.heads.back();
  nest.heads.pop_back();
  int lanes = lanes_for(s.kernel, nest.body, s.target);
  if (!inner.extent.is_const() || inner.extent.value() >= 4 * lanes) lanes *= 2;
  Block body = vector_loops(s.kernel, nest.body, inner.var, 0, inner.extent, lanes,
                            divisible_by(s.kernel, inner.extent, lanes));
  if (nest.heads.empty()) {
    for (Stmt& inner_stmt : body) out.push_back(std::move(inner_stmt));
  } else {
    out.push_back(put_nest(nest.heads, std::move(body)));
  }
}

}  // namespace

Block schedule_rows(const HostSchedule& s, PerfectNest nest) {
  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  Block row;
  for (Stmt& stmt : nest.body) {
    if (auto* reduce = std::get_if<ir::Reduce>(&stmt.v); reduce != nullptr && tuple_size(reduce->combiner) == 1) {
      ReduceScheduler(s.kernel, std::move(*reduce)).run(row);
    } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
      vectorize_loops(s, std::move(stmt), row);
    } else {
      row.push_back(std::move(stmt));
    }
  }
  Block result;
  result.push_back(put_nest(nest.heads, std::move(row)));
  return result;
}

Block schedule_columns(const HostSchedule& s, PerfectNest nest, const std::string& along) {
  const auto it = std::find_if(nest.heads.begin(), nest.heads.end(), [&](const LoopHead& h) { return h.var == along; });
  const LoopHead columns = *it;
  nest.heads.erase(it);
  int lanes = lanes_for(s.kernel, nest.body, s.target);
  while (lanes < 64 && (!columns.extent.is_const() || columns.extent.value() >= 2 * lanes)) lanes *= 2;
  const std::string g = fresh_var(s.kernel);
  const Dim base = Dim(lanes) * Dim::symbol(g);
  vectorize(s.kernel, nest.body, columns.var, lanes, base);
  if (!divisible_by(s.kernel, columns.extent, lanes))
    add_guard(nest.body, {columns.extent - 1 - base - Dim::symbol(ir::kLane)});
  nest.heads.push_back({LoopTag::grid, g, ceildiv(columns.extent, lanes)});
  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  Block result;
  result.push_back(put_nest(nest.heads, std::move(nest.body)));
  return result;
}

}  // namespace fusec::compiler
