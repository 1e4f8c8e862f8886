// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: writes the combination step of each reduction combiner as scalar ops. The operations and their order
// are those of ir/eval/combine.cpp, because both must give the same bits.

#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {
namespace {

using ir::Combiner;
using ir::ScalarOp;

// Ops on one part of the tuple.
struct PartOps {
  ThreadLowering& l;
  ir::RegInfo type;

  Operand apply(ScalarOp op, Operand a, Operand b) const { return append_let(l, op, type, {a, b}); }
  Operand test(ScalarOp op, Operand a, Operand b) const {
    return append_let(l, op, {DType::bool_, type.width}, {a, b});
  }
  Operand choose(Operand condition, Operand a, Operand b) const {
    return append_let(l, ScalarOp::where, type, {condition, a, b});
  }
  Operand number(double value) const { return ir::float_constant(type.dtype, value); }
};

Parts combine_welford(const PartOps& x, const Parts& a, const Parts& b) {
  const Operand n = x.apply(ScalarOp::add, a[2], b[2]);
  const Operand weight = x.apply(ScalarOp::div, b[2], n);
  const Operand difference = x.apply(ScalarOp::sub, b[0], a[0]);
  const Operand step = x.apply(ScalarOp::mul, difference, weight);
  const Operand square = x.apply(ScalarOp::mul, difference, difference);
  const Operand share = x.apply(ScalarOp::mul, a[2], weight);
  const Operand spread = x.apply(ScalarOp::mul, square, share);
  const Operand both = x.apply(ScalarOp::add, a[1], b[1]);
  const Parts merged = {x.apply(ScalarOp::add, a[0], step), x.apply(ScalarOp::add, both, spread), n};
  const Operand none = x.test(ScalarOp::eq, b[2], x.number(0)), first = x.test(ScalarOp::eq, a[2], x.number(0));
  Parts out;
  for (size_t p = 0; p < 3; ++p) out.push_back(x.choose(none, a[p], x.choose(first, b[p], merged[p])));
  return out;
}

Parts combine_max_sum(const PartOps& x, const Parts& a, const Parts& b) {
  const Operand m = x.apply(ScalarOp::max, a[0], b[0]);
  const auto scaled = [&](const Parts& v) {
    const Operand difference = x.apply(ScalarOp::sub, v[0], m);
    const Operand e = append_let(x.l, ScalarOp::exp, x.type, {difference});
    return x.apply(ScalarOp::mul, v[1], x.choose(x.test(ScalarOp::eq, v[0], m), x.number(1), e));
  };
  const Operand left = scaled(a), right = scaled(b);
  return {m, x.apply(ScalarOp::add, left, right)};
}

// The ops on two tuples of a value and a place, and on whether the right one wins.
struct ArgOps {
  const PartOps& x;
  const CombineOp& op;
  const Parts &a, &b;
  bool greatest = op.combiner == Combiner::argmax || op.combiner == Combiner::argmax_last;
  bool last = op.combiner == Combiner::argmax_last || op.combiner == Combiner::argmin_last;

  Operand logic(ScalarOp f, std::vector<Operand> args) const {
    return append_let(x.l, f, {DType::bool_, op.width}, std::move(args));
  }
  // Whether a is not better than b, and whether it is worse or one of them is NaN.
  Operand no_better() const {
    return logic(ScalarOp::not_, {x.test(greatest ? ScalarOp::gt : ScalarOp::lt, a[0], b[0])});
  }
  Operand not_as_good() const {
    return logic(ScalarOp::not_, {x.test(greatest ? ScalarOp::ge : ScalarOp::le, a[0], b[0])});
  }
  Operand is_nan(const Operand& value) const { return logic(ScalarOp::is_nan, {value}); }
  Parts choose(const Operand& wins) const {
    return {x.choose(wins, b[0], a[0]), append_let(x.l, ScalarOp::where, op.part(1), {wins, b[1], a[1]})};
  }
};

// NaN wins over numbers, then the better value wins, then the index that the combiner prefers.
Parts combine_arg(const PartOps& x, const CombineOp& op, const Parts& a, const Parts& b) {
  const ArgOps o{x, op, a, b};
  const Operand preferred = x.test(o.last ? ScalarOp::lt : ScalarOp::gt, a[1], b[1]);
  Operand better = o.not_as_good(), tie = o.logic(ScalarOp::and_, {o.no_better(), preferred});
  if (is_float(op.types[0])) {
    const Operand number = o.logic(ScalarOp::not_, {o.is_nan(a[0])});
    better = o.logic(ScalarOp::and_, {better, number});
    tie = o.logic(ScalarOp::and_, {tie, o.logic(ScalarOp::or_, {number, o.is_nan(b[0])})});
  }
  return o.choose(o.logic(ScalarOp::or_, {better, tie}));
}

}  // namespace

Parts identity(const CombineOp& op) {
  Parts out;
  for (const ir::Constant& c : ir::identity_constants(op.combiner, op.types)) out.emplace_back(c);
  return out;
}

Parts combine(ThreadLowering& l, const CombineOp& op, const Parts& a, const Parts& b) {
  const PartOps x{l, op.part(0)};
  if (op.types.size() == 1) return {x.apply(ir::combining_op(op.combiner), a[0], b[0])};
  if (op.combiner == Combiner::welford) return combine_welford(x, a, b);
  if (op.combiner == Combiner::max_sum) return combine_max_sum(x, a, b);
  return combine_arg(x, op, a, b);
}

Parts combine_in_order(ThreadLowering& l, const CombineOp& op, const Parts& a, const Parts& b) {
  const PartOps x{l, op.part(0)};
  const ArgOps o{x, op, a, b};
  Operand wins = o.last ? o.no_better() : o.not_as_good();
  if (is_float(op.types[0])) {
    wins = o.logic(ScalarOp::and_, {wins, o.logic(ScalarOp::not_, {o.is_nan(a[0])})});
    if (o.last) wins = o.logic(ScalarOp::or_, {wins, o.is_nan(b[0])});
  }
  return o.choose(wins);
}

}  // namespace fusec::compiler
