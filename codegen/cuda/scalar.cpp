// SPDX-License-Identifier: Apache-2.0
// Writes types, constants, casts and scalar ops as CUDA C++ expressions. The `cuda` column of the op tables says how a
// primitive is written; definitions and the formulas of functions become functions of the prelude.

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>

#include "codegen/cuda/expression.h"
#include "codegen/cuda/spelling.h"
#include "ir/ops/cast.h"
#include "ir/ops/op.h"
#include "ir/support/check.h"

namespace fusec::codegen::cuda {
namespace {

using ir::ScalarOp;
using Args = std::vector<std::string>;

std::string with_point(std::string digits) {
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

std::string f32_literal(float v) {
  if (std::isnan(v)) return "__uint_as_float(0x7fc00000)";
  if (std::isinf(v)) return v > 0 ? "__uint_as_float(0x7f800000)" : "__uint_as_float(0xff800000)";
  return with_point(fmt::format("{}", v)) + "f";
}

std::string f64_literal(double v) {
  if (std::isnan(v)) return "__longlong_as_double(0x7ff8000000000000LL)";
  if (std::isinf(v)) return std::string("__longlong_as_double(0x") + (v > 0 ? "7" : "f") + "ff0000000000000LL)";
  return with_point(fmt::format("{}", v));
}

std::string int_literal(DType dtype, int64_t v) {
  if (dtype == DType::bool_) return v ? "true" : "false";
  if (dtype == DType::u64) return fmt::format("{}ULL", static_cast<uint64_t>(v));
  if (dtype == DType::u32) return fmt::format("{}U", static_cast<uint32_t>(v));
  if (dtype == DType::i64)
    return v == std::numeric_limits<int64_t>::min() ? "(-9223372036854775807LL - 1)" : fmt::format("{}LL", v);
  if (dtype == DType::i32) {
    const auto narrow = static_cast<int32_t>(v);
    return narrow == std::numeric_limits<int32_t>::min() ? "(-2147483647 - 1)" : std::to_string(narrow);
  }
  return "(" + register_type(dtype) + ")" + operand(std::to_string(v));
}

float half_value(const ir::Constant& c) {
  return c.dtype == DType::f16 ? ir::f32_from_f16(ir::f16_from_f64(c.f)) : ir::f32_from_bf16(ir::bf16_from_f64(c.f));
}

std::string call(const std::string& function, const Args& x) { return function + "(" + joined(x, ", ") + ")"; }

// A function of the prelude: `name`_f32 or _f64, int_`name` for integers.
std::string prelude_call(Prelude& prelude, const std::string& name, DType type, const Args& x) {
  const std::string full = type == DType::f32 ? name + "_f32" : type == DType::f64 ? name + "_f64" : "int_" + name;
  return call(prelude.use(full), x);
}

// CUDA's own function: `name`f for float.
std::string builtin_call(const std::string& name, DType type, const Args& x) {
  return call(type == DType::f64 ? name : name + "f", x);
}

// The value of the text if it is a float literal.
std::optional<double> number_in(const std::string& text) {
  if (text.find_first_not_of("-+.0123456789ef") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ||
                 text.find_first_not_of('f', static_cast<std::size_t>(end - text.c_str())) != std::string::npos
             ? std::nullopt
             : std::optional(value);
}

// NVRTC assumes that the result of dividing two non-negative numbers is not negative, even for 1 / -0. A division in
// inline PTX is opaque to it.
std::string division(Prelude& prelude, DType type, const Args& x) {
  if (number_in(x[1]).value_or(0) != 0) return operand(x[0]) + " / " + operand(x[1]);
  return number_in(x[0]) == 1 ? prelude_call(prelude, "reciprocal", type, {x[1]})
                              : prelude_call(prelude, "div", type, x);
}

std::string word(char c, DType type, const Form& form, const Args& x) {
  if (c == 'T') return register_type(type);
  if (c == 'U') return size_of(type) == 8 ? "u64" : "u32";
  return c == 'o' ? std::string(form.op) : operand(x[static_cast<std::size_t>(c - 'a')]);
}

std::string filled(const Form& form, DType type, const Args& x) {
  std::string out;
  for (std::size_t i = 0; i < form.text.size(); ++i) {
    out += form.text[i] == '$' ? word(form.text[++i], type, form, x) : std::string(1, form.text[i]);
  }
  return out;
}

const Spelling& spelling_of(ScalarOp op) {
  using namespace spell;
  static constexpr Spelling kRows[] = {
#define SCALAR_OP(name, arity, typing, reference, cuda, ...) cuda,
#define SCALAR_FN(name, reference, cuda, ...) cuda,
#define SCALAR_DEF(name, ...) {},
#include "ir/ops/scalar_ops.def"
#define KERNEL_OP(name, arity, typing, reference, cuda, ...) cuda,
#include "ir/ops/kernel_ops.def"
  };
  return kRows[static_cast<std::size_t>(op)];
}

const Form& form_of(const Spelling& spelling, DType type) {
  if (type == DType::bool_) return spelling.boolean;
  return type == DType::f32 ? spelling.f32 : type == DType::f64 ? spelling.f64 : spelling.integer;
}

std::string primitive(Prelude& prelude, ScalarOp op, DType type, const Args& x) {
  const Form& form = form_of(spelling_of(op), type);
  const std::string name(form.text);
  switch (form.kind) {
    case Form::Kind::text:
      return filled(form, type, x);
    case Form::Kind::builtin:
      return builtin_call(name, type, x);
    case Form::Kind::prelude:
      return prelude_call(prelude, name, type, x);
    case Form::Kind::quotient:
      return division(prelude, type, x);
    case Form::Kind::formula:
    case Form::Kind::none:
      break;
  }
  throw UnsupportedKernel(fmt::format("the op '{}' takes no {}", ir::info(op).name, to_string(type)));
}

// A value in the tree of a definition, with its dtype (compute form, or bool).
struct Typed {
  std::string text;
  DType type;
};

std::string step_name(int number) { return "s" + std::to_string(number); }

Typed node_text(Prelude& prelude, const ir::DefNode& node, DType type) {
  const DType own = node.is_bits ? DType::i32 : type;
  if (node.kind == ir::DefNode::Kind::number) {
    return {literal({own, node.number, static_cast<int64_t>(node.number)}), own};
  }
  if (node.kind == ir::DefNode::Kind::operand) return {std::string(1, static_cast<char>('a' + node.operand)), type};
  if (node.kind == ir::DefNode::Kind::step) return {step_name(node.operand), own};
  FUSEC_CHECK(node.kind == ir::DefNode::Kind::op) << "a gradient's symbol in a definition";
  Args args;
  DType last = type;
  for (const ir::DefNode& arg : node.args) {
    const Typed made = node_text(prelude, arg, type);
    args.push_back(made.text);
    last = made.type;  // the last operand's type: for where it is the type of a choice
  }
  return {scalar_op(prelude, node.op, last, args), result_type(node.op, last, last)};
}

// A function of the prelude that takes the steps of a definition or formula.
std::string by_steps(Prelude& prelude, ScalarOp op, std::span<const ir::DefNode> steps, DType type, const Args& x,
                     const std::string& suffix = "") {
  const auto& row = ir::info(op);
  const std::string name = std::string(row.name) + "_" + (suffix.empty() ? to_string(type) : suffix);
  if (prelude.has(name)) return call(name, x);
  std::string body;
  Typed result;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    result = node_text(prelude, steps[i], type);
    if (i + 1 == steps.size()) break;
    body +=
        fmt::format("  const {} {} = {};\n", register_type(result.type), step_name(static_cast<int>(i)), result.text);
  }
  Args parameters;
  for (int k = 0; k < row.arity; ++k) parameters.push_back(register_type(type) + " " + static_cast<char>('a' + k));
  const std::string head =
      fmt::format("FUNCTION {} {}({}) {{", register_type(result.type), name, joined(parameters, ", "));
  prelude.define(name, body.empty() ? fmt::format("{} return {}; }}\n", head, result.text)
                                    : fmt::format("{}\n{}  return {};\n}}\n", head, body, result.text));
  return call(name, x);
}

std::string int_to_half(Prelude& prelude, DType from, DType to, const std::string& v) {
  if (size_of(from) <= 2) return narrow(prelude, to, "(float)" + operand(v));
  const std::string part = is_signed_int(from) ? "odd_from_i64" : "odd_from_u64";
  return narrow(prelude, to, call(prelude.use(part), {v}));
}

}  // namespace

std::string register_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::f16:
    case DType::bf16:
      return "u16";
    case DType::bool_:
      return "bool";
    default:
      return to_string(dtype);
  }
}

std::string memory_type(DType dtype) { return dtype == DType::bool_ ? "u8" : register_type(dtype); }

std::string literal(const ir::Constant& c) {
  if (c.dtype == DType::f64) return f64_literal(c.f);
  if (c.dtype == DType::f32) return f32_literal(static_cast<float>(c.f));
  if (c.dtype == DType::f16) return fmt::format("(u16)0x{:04x}", ir::f16_from_f64(c.f));
  if (c.dtype == DType::bf16) return fmt::format("(u16)0x{:04x}", ir::bf16_from_f64(c.f));
  return int_literal(c.dtype, c.i);
}

std::string compute_literal(const ir::Constant& c) {
  return is_16_bit_float(c.dtype) ? f32_literal(half_value(c)) : literal(c);
}

std::string widen(Prelude& prelude, DType dtype, const std::string& raw) {
  if (!is_16_bit_float(dtype)) return raw;
  return call(prelude.use(dtype == DType::f16 ? "f32_from_f16" : "f32_from_bf16"), {raw});
}

std::string narrow(Prelude& prelude, DType dtype, const std::string& compute) {
  if (!is_16_bit_float(dtype)) return compute;
  return call(prelude.use(dtype == DType::f16 ? "f16_from_f32" : "bf16_from_f32"), {compute});
}

std::string convert(Prelude& prelude, DType from, DType to, const std::string& v) {
  if (from == to && !is_16_bit_float(to)) return v;
  if (to == DType::bool_) return operand(v) + " != 0";
  if (from == DType::bool_ && is_16_bit_float(to)) return narrow(prelude, to, "(float)" + operand(v));
  if (is_int(from) && is_16_bit_float(to)) return int_to_half(prelude, from, to, v);
  if (is_16_bit_float(to)) return narrow(prelude, to, from == DType::f64 ? call(prelude.use("odd_from_f64"), {v}) : v);
  if (is_float(from) && is_int(to)) return call(prelude.use(std::string(to_string(to)) + "_from_float"), {v});
  if (compute_type(from) == to) return v;
  return "(" + register_type(to) + ")" + operand(v);
}

std::string scalar_op(Prelude& prelude, ScalarOp op, DType type, const Args& args) {
  type = compute_type(type);
  if (form_of(spelling_of(op), type).kind == Form::Kind::formula)
    return by_steps(prelude, op, *ir::gpu_formula(op, type), type, args);
  if (!ir::info(op).is_definition) return primitive(prelude, op, type, args);
  return by_steps(prelude, op, {&ir::definition(op), 1}, type, args);
}

std::string raw_op(Prelude& prelude, ScalarOp op, DType type, const Args& args, DType result) {
  if (op == ScalarOp::cast) return convert(prelude, type, result, args[0]);
  if (op == ScalarOp::round_cast)
    return convert(prelude, type, result, scalar_op(prelude, ScalarOp::round, type, args));
  if (const ir::Formula* half = is_16_bit_float(result) ? ir::gpu_formula(op, result) : nullptr)
    return narrow(prelude, result, by_steps(prelude, op, *half, DType::f32, args, "half"));
  return narrow(prelude, result, scalar_op(prelude, op, type, args));
}

std::string op_on_bits(Prelude& prelude, ScalarOp op, DType type, const std::string& raw) {
  if (op == ScalarOp::abs) return "(u16)(" + raw + " & 0x7fff)";
  if (op == ScalarOp::neg) return "(u16)(" + raw + " ^ 0x8000)";
  return call(prelude.use("relu_bits"), {raw, type == DType::f16 ? "0xfc00" : "0xff80"});
}

}  // namespace fusec::codegen::cuda
