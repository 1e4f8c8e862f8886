// SPDX-License-Identifier: Apache-2.0
// Writes scalar operations on registers as CUDA C++. Picks the cheapest of several equivalent forms, by the dtypes,
// widths and known bits of the operands.

#include <fmt/format.h>

#include <cmath>

#include "codegen/cuda/writer.h"

namespace fusec::codegen::cuda {
namespace {

// The divisors that quotient_f32 accepts: the range of f16.
constexpr double kMinDivisor = 0x1p-24, kMaxDivisor = 65504;

bool is_f32(const Writer& w, const ir::Operand& operand) { return dtype_of(w.kernel, operand) == DType::f32; }

ir::KnownBits compute_known_bits(const Writer& w, const ir::Operand& operand) {
  if (const auto* value = std::get_if<ir::Constant>(&operand)) return ir::compute_known_bits(*value);
  return w.known_bits[std::get<ir::RegId>(operand)];
}

// Whether a * inverse + a * rest, with the reciprocal split in two parts, rounds as a / b does, without any test per
// lane. If b has at most 11 significant bits, no exact result of the division is closer than a relative 2^-36 to the
// midpoint of two floats, and the sum before rounding is accurate to 2^-45. Nothing is denormal if a is a multiple of
// 2^-90.
bool has_short_divisor(const Writer& w, const ir::Let& let) {
  return compute_known_bits(w, let.args[1]).count <= 11 && compute_known_bits(w, let.args[0]).least >= -90;
}

// The reciprocal as two parts of the same sign, so that zeros keep their sign. The second part is not 0, so that
// infinity stays infinity.
struct Reciprocal {
  float first, rest;
};

Reciprocal compute_reciprocal(float b) {
  const double whole = 1.0 / b;
  auto first = static_cast<float>(whole);
  if (std::fabs(static_cast<double>(first)) > std::fabs(whole)) first = std::nextafter(first, 0.0f);
  const auto rest = static_cast<float>(whole - first);
  return {first, rest == 0 ? first * 0x1p-100f : rest};
}

bool write_constant_division(Writer& w, const ir::Let& let) {
  const auto* divisor = std::get_if<ir::Constant>(&let.args[1]);
  if (divisor == nullptr) return false;
  const auto b = static_cast<float>(divisor->f);
  if (!(std::fabs(b) >= kMinDivisor && std::fabs(b) <= kMaxDivisor)) return false;
  const Reciprocal parts = compute_reciprocal(b);
  const auto text = [](float v) { return literal({DType::f32, v, 0}); };
  define(w, let.dst,
         fmt::format("{}({}, {}, {})", w.prelude.use("quotient_f32"), compute_operand(w, let.args[0]),
                     text(parts.first), text(parts.rest)));
  return true;
}

// All lanes are f32 and share one divisor.
bool divides_by_one(const Writer& w, const ir::Let& let) {
  const ir::RegInfo& result = w.kernel.regs[let.dst];
  const auto* dividend = std::get_if<ir::RegId>(&let.args[0]);
  return result.width > 1 && dividend != nullptr && w.kernel.regs[*dividend].width == result.width &&
         ir::width_of(w.kernel, let.args[1]) == 1;
}

bool write_division(Writer& w, const ir::Let& let) {
  if (!is_f32(w, let.args[0]) || !is_f32(w, let.args[1])) return false;
  const bool is_short = has_short_divisor(w, let);
  if (is_short && write_constant_division(w, let)) return true;
  if (!divides_by_one(w, let)) return false;
  const int width = w.kernel.regs[let.dst].width;
  const std::string name = ir::reg_name(let.dst);
  w.out.line(fmt::format("float {}[{}]; {}<{}>({}, {}, {});", name, width,
                         w.prelude.use(is_short ? "divide_by_short" : "divide_by"), width, name,
                         ir::reg_name(std::get<ir::RegId>(let.args[0])), compute_operand(w, let.args[1])));
  return true;
}

// f32 lanes to bytes, four at a time, from the values before rounding: one instruction converts and packs two lanes.
bool write_bytes(Writer& w, const ir::Let& let) {
  const ir::RegInfo& result = w.kernel.regs[let.dst];
  const auto* from = std::get_if<ir::RegId>(&let.args[0]);
  if (result.dtype != DType::i8 && result.dtype != DType::u8) return false;
  if (from == nullptr || w.kernel.regs[*from] != ir::RegInfo{DType::f32, result.width} || result.width % 4 != 0)
    return false;
  if (w.target.sm < 80) return false;
  const auto whole = w.rounded.find(*from);
  const bool rounds = whole != w.rounded.end();
  const std::string part = std::string(to_string(result.dtype)) + (rounds ? "_nearest" : "_truncated");
  declare(w, let.dst);
  w.out.line(fmt::format("{}<{}>({}, {});", w.prelude.use(part), result.width, ir::reg_name(let.dst),
                         ir::reg_name(rounds ? whole->second : *from)));
  return true;
}

void note_rounding(Writer& w, const ir::Let& let) {
  const auto* from = std::get_if<ir::RegId>(&let.args[0]);
  if (from != nullptr && w.kernel.regs[*from] == w.kernel.regs[let.dst]) w.rounded[let.dst] = *from;
}

}  // namespace

void write_let(Writer& w, const ir::Let& let) {
  const DType first = dtype_of(w.kernel, let.args[0]);
  const DType result = w.kernel.regs[let.dst].dtype;
  if (is_16_bit_float(first) && result == first && ir::on_half_bits(let)) {
    return define(w, let.dst, op_on_bits(w.prelude, let.op, first, raw_operand(w, let.args[0])));
  }
  if (let.op == ir::ScalarOp::where) {  // a selection needs no arithmetic
    return define(w, let.dst,
                  fmt::format("{} ? {} : {}", operand(raw_operand(w, let.args[0])),
                              operand(raw_operand(w, let.args[1])), operand(raw_operand(w, let.args[2]))));
  }
  if (let.op == ir::ScalarOp::cast && first == result) return define(w, let.dst, raw_operand(w, let.args[0]));
  if (let.op == ir::ScalarOp::cast && write_bytes(w, let)) return;
  if (let.op == ir::ScalarOp::div && write_division(w, let)) return;
  if (let.op == ir::ScalarOp::round) note_rounding(w, let);
  std::vector<std::string> args;
  for (const ir::Operand& arg : let.args) args.push_back(compute_operand(w, arg));
  define(w, let.dst, raw_op(w.prelude, let.op, first, args, result));
}

}  // namespace fusec::codegen::cuda
