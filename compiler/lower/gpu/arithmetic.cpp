// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: picks the cheapest of several equivalent forms of scalar ops, by the dtypes, widths and known bits of
// the operands. Quotients of f32 are made of a reciprocal, and a rounding joins the cast that follows. The results have
// the same bits.

#include <cmath>
#include <map>

#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/gpu/threads.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/short_functions.h"
#include "ir/kernel/known_bits.h"

namespace fusec::compiler {
namespace {

using ir::ScalarOp;

constexpr ir::RegInfo kOneF32{DType::f32, 1};

// The divisors of a short division: the range of f16.
constexpr double kMinDivisor = 0x1p-24, kMaxDivisor = 65504;

Operand f32(double value) { return ir::float_constant(DType::f32, value); }

// The reciprocal as two parts of the same sign, so that zeros keep their sign. The second part is not 0, so that
// infinity stays infinity.
struct Reciprocal {
  Operand first, rest;
};

Reciprocal compute_reciprocal(float b) {
  const double whole = 1.0 / b;
  auto first = static_cast<float>(whole);
  if (std::fabs(static_cast<double>(first)) > std::fabs(whole)) first = std::nextafter(first, 0.0f);
  const auto rest = static_cast<float>(whole - first);
  return {f32(first), f32(rest == 0 ? first * 0x1p-100f : rest)};
}

// Writes one quotient of f32.
class Division {
 public:
  Division(ThreadLowering& l, const ir::Let& let)
      : l_(l), a_(let.args[0]), b_(let.args[1]), dst_(let.dst), result_(l.kernel.regs[let.dst]) {}

  // a * first + a * rest rounds as a / b does, without any test per lane. If b has at most 11 significant bits, no
  // exact result of the division is closer than a relative 2^-36 to the midpoint of two floats, and the sum before
  // rounding is accurate to 2^-45. Nothing is denormal if a is a multiple of 2^-90.
  void by_constant(float b) const {
    const Reciprocal r = compute_reciprocal(b);
    const Operand rest = all(ScalarOp::mul, {a_, r.rest});
    l_.out->push_back({ir::Let{dst_, ScalarOp::fma, {a_, r.first, rest}}});
  }

  // The same for a divisor that is known only on the device.
  void by_short() const {
    const Operand size = one(ScalarOp::abs, {b_});
    const Operand fits = both({test(ScalarOp::ge, size, kMinDivisor), test(ScalarOp::le, size, kMaxDivisor)});
    const BufferId quotients = append_buffer(l_, ir::Space::reg, DType::f32, result_.width);
    const IndexExpr is_right = flag(fits);
    divide_unless(is_right, quotients);  // first, else ptxas keeps both results in registers
    append_if(l_, {is_right - 1}, [&] { append_store(l_, quotients, {IndexExpr(0)}, times(short_reciprocal())); });
    define_by(quotients);
  }

  // As by_one(), for quotients that are rounded to f16 at once. Which bits a tiny quotient has is then of no account,
  // so zeros and tiny ones need no test: the remainder's sign is such that zeros keep theirs if the divisor is
  // positive.
  void by_one_to_half() const {
    const Operand inverse = near_reciprocal(one(ScalarOp::neg, {b_})), less = one(ScalarOp::neg, {inverse});
    const Operand near = all(ScalarOp::mul, {a_, inverse});
    const Operand minus = all(ScalarOp::neg, {a_}), excess = all(ScalarOp::fma, {b_, near, minus});
    const Operand quotients = all(ScalarOp::fma, {less, excess, near});
    const Operand most = extreme(ScalarOp::max, all(ScalarOp::abs, {near}));
    const Operand divisor_fits = both({test(ScalarOp::ge, b_, 0x1p-40), test(ScalarOp::le, b_, 0x1p40)});
    const IndexExpr is_right = flag(both({divisor_fits, test(ScalarOp::le, most, 0x1p60)}));
    const BufferId results = store_lanes(quotients);
    divide_unless(is_right, results);
    define_by(results);
  }

  // Divides several lanes by one divisor: a * (1/b), corrected by its remainder, which is exact where nothing is
  // denormal or infinite. It needs one reciprocal and one test for all lanes, where each a / b would need both.
  void by_one() const {
    const Operand minus = one(ScalarOp::neg, {b_}), inverse = near_reciprocal(minus);
    const Operand near = all(ScalarOp::mul, {a_, inverse});
    const Operand zero = append_let(l_, ScalarOp::eq, {DType::bool_, result_.width}, {a_, f32(0)});
    const Operand rest = all(ScalarOp::fma, {minus, near, a_});
    const Operand quotients = all(ScalarOp::where, {zero, near, all(ScalarOp::fma, {rest, inverse, near})});
    const Operand sizes = all(ScalarOp::abs, {near});
    const Operand least = extreme(ScalarOp::min, all(ScalarOp::where, {zero, f32(1), sizes}));
    const Operand most = extreme(ScalarOp::max, sizes), size = one(ScalarOp::abs, {b_});
    const Operand divisor_fits = both({test(ScalarOp::ge, size, 0x1p-40), test(ScalarOp::le, size, 0x1p40)});
    const Operand fits = both({test(ScalarOp::ge, least, 0x1p-60), test(ScalarOp::le, most, 0x1p60)});
    const IndexExpr is_right = flag(both({divisor_fits, fits}));
    const BufferId results = store_lanes(quotients);
    divide_unless(is_right, results);
    define_by(results);
  }

 private:
  // The reciprocal of a divisor with at most 11 significant bits, by the device.
  Reciprocal short_reciprocal() const {
    const Operand minus = one(ScalarOp::neg, {b_}), near = near_reciprocal(minus);
    const auto rest_of = [&](const Operand& r) { return one(ScalarOp::fma, {minus, r, f32(1)}); };
    const Operand bits = append_let(l_, ScalarOp::to_bits, {DType::i32, 1}, {near});
    const Operand less = append_let(l_, ScalarOp::sub, {DType::i32, 1}, {bits, ir::int_constant(DType::i32, 1)});
    const Operand first = choose({test(ScalarOp::lt, rest_of(near), 0), one(ScalarOp::from_bits, {less}), near});
    const Operand rest = rest_of(first);
    const Operand part = choose({test(ScalarOp::gt, rest, 0), rest, f32(0x1p-100)});
    return {first, one(ScalarOp::mul, {first, part})};
  }
  Operand one(ScalarOp op, std::vector<Operand> args) const { return append_let(l_, op, kOneF32, std::move(args)); }
  Operand all(ScalarOp op, std::vector<Operand> args) const { return append_let(l_, op, result_, std::move(args)); }
  Operand test(ScalarOp op, const Operand& value, double bound) const {
    return append_let(l_, op, {DType::bool_, 1}, {value, f32(bound)});
  }
  // Lists of operands are evaluated in order, as arguments are not.
  Operand both(std::vector<Operand> args) const {
    return append_let(l_, ScalarOp::and_, {DType::bool_, 1}, std::move(args));
  }
  Operand choose(std::vector<Operand> args) const { return one(ScalarOp::where, std::move(args)); }
  void define_by(BufferId lanes) const {
    l_.out->push_back({ir::Load{dst_, lanes, {IndexExpr::symbol(ir::kLane)}, {}, {DType::f32, 0, 0}, 0}});
  }

  // 1/b after one Newton step, or known; `minus` is -b.
  Operand near_reciprocal(const Operand& minus) const {
    if (const auto* b = std::get_if<ir::Constant>(&b_)) return f32(1.0f / static_cast<float>(b->f));
    const Operand r = one(ScalarOp::rcp_approx, {b_});
    return one(ScalarOp::fma, {r, one(ScalarOp::fma, {minus, r, f32(1)}), r});
  }
  Operand times(const Reciprocal& r) const {
    return all(ScalarOp::fma, {a_, r.first, all(ScalarOp::mul, {a_, r.rest})});
  }
  BufferId store_lanes(const Operand& value) const {
    const BufferId buffer = append_buffer(l_, ir::Space::reg, DType::f32, result_.width);
    append_store(l_, buffer, {IndexExpr(0)}, value);
    return buffer;
  }
  // Of all lanes.
  Operand extreme(ScalarOp op, const Operand& value) const {
    const BufferId lanes = store_lanes(value);
    Operand out = append_load(l_, lanes, {IndexExpr(0)}, 1);
    for (int k = 1; k < result_.width; ++k) out = one(op, {out, append_load(l_, lanes, {IndexExpr(k)}, 1)});
    return out;
  }
  // 1 where the condition holds, else 0.
  IndexExpr flag(const Operand& condition) const {
    const RegId number = std::get<RegId>(append_let(l_, ScalarOp::cast, {DType::i32, 1}, {condition}));
    l_.ranges[number] = {IndexExpr(0), IndexExpr(1)};
    return IndexExpr::symbol(number);
  }
  void divide_unless(const IndexExpr& is_right, BufferId quotients) const {
    append_if(l_, {-is_right}, [&] { append_store(l_, quotients, {IndexExpr(0)}, all(ScalarOp::div, {a_, b_})); });
  }

  ThreadLowering& l_;
  const Operand a_, b_;
  const RegId dst_;
  const ir::RegInfo result_;
};

class Arithmetic {
 public:
  explicit Arithmetic(ir::Kernel& kernel)
      : kernel_(kernel), known_bits_(ir::compute_known_bits(kernel)), rounded_to_(find_rounded_values(kernel)) {}

  void run(Block& block) {
    Block out;
    for (Stmt& stmt : block) {
      for (Block* nested : ir::nested_blocks(stmt)) run(*nested);
      if (const auto* let = std::get_if<ir::Let>(&stmt.v)) {
        ThreadLowering l{kernel_, 1, 1, {}, {}, {}, &out, {}};
        if (let->op == ScalarOp::div && lower_division(l, *let)) continue;
        join_rounding(std::get<ir::Let>(stmt.v));
        relu_before_rounding(l, std::get<ir::Let>(stmt.v));
      }
      out.push_back(std::move(stmt));
    }
    block = std::move(out);
  }

 private:
  ir::KnownBits known_bits(const Operand& operand) const {
    if (const auto* value = std::get_if<ir::Constant>(&operand)) return ir::compute_known_bits(*value);
    return known_bits_[std::get<RegId>(operand)];
  }

  bool lower_division(ThreadLowering& l, const ir::Let& let) const {
    const ir::RegInfo& result = kernel_.regs[let.dst];
    if (result.dtype != DType::f32) return false;
    const Division division(l, let);
    const bool is_short = known_bits(let.args[1]).count <= 11 && known_bits(let.args[0]).least >= -90;
    if (const auto* divisor = std::get_if<ir::Constant>(&let.args[1]); is_short && divisor != nullptr) {
      const auto b = static_cast<float>(divisor->f);
      if (std::fabs(b) >= kMinDivisor && std::fabs(b) <= kMaxDivisor) return division.by_constant(b), true;
    }
    if (result.width == 1 || ir::width_of(kernel_, let.args[0]) != result.width) return false;
    if (ir::width_of(kernel_, let.args[1]) != 1) return false;
    if (is_short) return division.by_short(), true;
    return is_rounded_to(DType::f16, let.dst) ? division.by_one_to_half() : division.by_one(), true;
  }

  bool is_rounded_to(DType type, RegId value) const {
    const auto found = rounded_to_.find(value);
    return found != rounded_to_.end() && found->second == type;
  }

  // cast(round(x)) to bytes: one instruction rounds, converts and packs two lanes.
  void join_rounding(ir::Let& let) {
    const auto* from = let.args.empty() ? nullptr : std::get_if<RegId>(&let.args[0]);
    if (let.op == ScalarOp::round && from != nullptr) rounded_[let.dst] = *from;
    const DType to = kernel_.regs[let.dst].dtype;
    if (let.op != ScalarOp::cast || from == nullptr || (to != DType::i8 && to != DType::u8)) return;
    const auto whole = rounded_.find(*from);
    if (whole == rounded_.end() || kernel_.regs[*from].dtype != DType::f32) return;
    let.op = ScalarOp::round_cast;
    let.args[0] = whole->second;
  }

  // max(cast(x), 0) of 16-bit floats is cast(max(x, 0)): one instruction converts and packs two lanes, where a maximum
  // of halves would take them apart. A value that is -0 after rounding becomes 0 in both.
  void relu_before_rounding(ThreadLowering& l, ir::Let& let) {
    const auto* from = let.args.empty() ? nullptr : std::get_if<RegId>(&let.args[0]);
    if (from == nullptr || !is_16_bit_float(kernel_.regs[let.dst].dtype)) return;
    if (let.op == ScalarOp::cast && kernel_.regs[*from].dtype == DType::f32) narrowed_[let.dst] = *from;
    const auto wide = narrowed_.find(*from);
    if (let.op != ScalarOp::max || !ir::on_half_bits(let) || wide == narrowed_.end()) return;
    let.args = {append_let(l, ScalarOp::max, kernel_.regs[wide->second], {wide->second, f32(0)})};
    let.op = ScalarOp::cast;
  }

  ir::Kernel& kernel_;
  const ir::IdVector<RegId, ir::KnownBits> known_bits_;
  const Roundings rounded_to_;
  std::map<RegId, RegId> rounded_;   // maps the result of each `round` to its operand
  std::map<RegId, RegId> narrowed_;  // maps 16-bit floats to the f32 that they round
};

}  // namespace

void lower_arithmetic(ir::Kernel& kernel) { Arithmetic(kernel).run(kernel.body); }

}  // namespace fusec::compiler
