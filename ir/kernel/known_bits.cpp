// SPDX-License-Identifier: Apache-2.0
// Computes the known bits of every register of a kernel in one forward walk. Lower for GPUs uses them to choose
// cheaper divisions; the result must be conservative.

#include "ir/kernel/known_bits.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/cast.h"

namespace fusec::ir {
namespace {

constexpr KnownBits kZero{1 << 20, 0};  // a multiple of everything

// The known bits of all values of a type. For floats, `least` is that of their denormals.
KnownBits compute_known_bits(DType type) {
  switch (type) {
    case DType::f16:
      return {-24, 11};
    case DType::bf16:
      return {-133, 8};
    case DType::f32:
      return {-149, 24};
    case DType::f64:
      return {-1074, 53};
    default:
      return {0, static_cast<int>(8 * size_of(type))};
  }
}

// The known bits of a value that is one of both.
KnownBits either(KnownBits a, KnownBits b) { return {std::min(a.least, b.least), std::max(a.count, b.count)}; }

class Finder {
 public:
  explicit Finder(const Kernel& kernel) : kernel_(kernel) {
    for (const RegInfo& reg : kernel.regs) found_.push_back(compute_known_bits(reg.dtype));
  }

  IdVector<RegId, KnownBits> run() {
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      if (const auto* let = std::get_if<Let>(&stmt.v))
        found_[let->dst] = rounded(result(*let), kernel_.regs[let->dst].dtype);
    });
    return std::move(found_);
  }

 private:
  KnownBits of(const Operand& operand) const {
    if (const auto* value = std::get_if<Constant>(&operand)) return ir::compute_known_bits(*value);
    return found_[std::get<RegId>(operand)];
  }

  // Rounding to fewer bits keeps divisibility.
  static KnownBits rounded(KnownBits d, DType type) {
    const KnownBits all = compute_known_bits(type);
    return {std::max(d.least, all.least), std::min(d.count, all.count)};
  }

  KnownBits result(const Let& let) const {
    const KnownBits any{-(1 << 20), 1 << 20}, a = of(let.args[0]), b = of(let.args[let.args.size() > 1 ? 1 : 0]);
    switch (let.op) {
      case ScalarOp::cast:
      case ScalarOp::neg:
      case ScalarOp::abs:
        return a;
      case ScalarOp::round:
      case ScalarOp::floor:
      case ScalarOp::ceil:
      case ScalarOp::trunc:
        return {std::max(a.least, 0), a.count};
      case ScalarOp::min:
      case ScalarOp::max:
        return either(a, b);
      case ScalarOp::where:
        return either(b, of(let.args[2]));
      case ScalarOp::add:
      case ScalarOp::sub:
        return {std::min(a.least, b.least), any.count};
      case ScalarOp::mul:
        return {a.least + b.least, a.count + b.count};
      default:
        return any;
    }
  }

  const Kernel& kernel_;
  IdVector<RegId, KnownBits> found_;
};

}  // namespace

KnownBits compute_known_bits(const Constant& value) {
  if (!is_float(value.dtype)) return compute_known_bits(value.dtype);
  double number = 0;
  store_double(value.dtype, &number, value.f);
  number = load_double(value.dtype, &number);
  if (number == 0 || !std::isfinite(number)) return kZero;
  int exponent = 0, count = 53;
  double fraction = std::ldexp(std::frexp(number, &exponent), count);
  while (std::fmod(fraction, 2) == 0) fraction /= 2, --count;
  return {exponent - count, count};
}

IdVector<RegId, KnownBits> compute_known_bits(const Kernel& kernel) { return Finder(kernel).run(); }

}  // namespace fusec::ir
