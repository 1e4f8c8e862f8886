// SPDX-License-Identifier: Apache-2.0
// Computes the range of every integer register of a kernel in one forward walk. The verifier takes an index in range
// for proven, and lowering drops the clamps of such indices; the result must be conservative.

#include "ir/kernel/value_range.h"

#include <algorithm>
#include <limits>

namespace fusec::ir {
namespace {

template <class T>
constexpr ValueRange kAll{std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

ValueRange range_of(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return {0, 1};
    case DType::i8:
      return kAll<int8_t>;
    case DType::u8:
      return kAll<uint8_t>;
    case DType::i16:
      return kAll<int16_t>;
    case DType::u16:
      return kAll<uint16_t>;
    case DType::i32:
      return kAll<int32_t>;
    case DType::u32:
      return kAll<uint32_t>;
    default:
      return kAll<int64_t>;
  }
}

bool has_range(DType dtype) { return (is_int(dtype) || dtype == DType::bool_) && dtype != DType::u64; }

class RangeFinder {
 public:
  explicit RangeFinder(const Kernel& kernel) : kernel_(kernel) {
    for (const RegInfo& reg : kernel.regs) found_.push_back(range_of(reg.dtype));
  }

  IdVector<RegId, ValueRange> run() {
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      const auto* let = std::get_if<Let>(&stmt.v);
      if (let == nullptr || !has_range(kernel_.regs[let->dst].dtype)) return;
      const ValueRange all = range_of(kernel_.regs[let->dst].dtype), own = result(*let, all);
      // What leaves the range of the type wraps.
      if (own.lo >= all.lo && own.hi <= all.hi) found_[let->dst] = own;
    });
    return std::move(found_);
  }

 private:
  ValueRange of(const Operand& operand) const {
    if (const auto* value = std::get_if<Constant>(&operand)) return {value->i, value->i};
    return found_[std::get<RegId>(operand)];
  }

  // Sums of numbers beyond 2^62 are not computed.
  static bool is_small(ValueRange r) {
    constexpr int64_t kMost = int64_t{1} << 62;
    return r.lo >= -kMost && r.hi < kMost;
  }

  ValueRange result(const Let& let, ValueRange otherwise) const {
    for (std::size_t i = let.op == ScalarOp::where ? 1 : 0; i < let.args.size(); ++i)
      if (!has_range(dtype_of(kernel_, let.args[i]))) return otherwise;
    const ValueRange a = of(let.args[0]), b = of(let.args[let.args.size() > 1 ? 1 : 0]);
    switch (let.op) {
      case ScalarOp::cast:
        return a;
      case ScalarOp::min:
        return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      case ScalarOp::max:
        return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      case ScalarOp::where: {
        const ValueRange c = of(let.args[2]);
        return {std::min(b.lo, c.lo), std::max(b.hi, c.hi)};
      }
      case ScalarOp::add:
        return is_small(a) && is_small(b) ? ValueRange{a.lo + b.lo, a.hi + b.hi} : otherwise;
      case ScalarOp::sub:
        return is_small(a) && is_small(b) ? ValueRange{a.lo - b.hi, a.hi - b.lo} : otherwise;
      default:
        return otherwise;
    }
  }

  const Kernel& kernel_;
  IdVector<RegId, ValueRange> found_;
};

}  // namespace

IdVector<RegId, ValueRange> compute_value_ranges(const Kernel& kernel) { return RangeFinder(kernel).run(); }

bool is_bounded(const Kernel& kernel, RegId reg, const ValueRange& range) {
  const DType dtype = kernel.regs[reg].dtype;
  return has_range(dtype) && !(range == range_of(dtype));
}

}  // namespace fusec::ir
