// SPDX-License-Identifier: Apache-2.0
// Imports elementwise ops: those that map to one scalar op, and those that need attributes as operands or several
// scalar ops.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

// Emits a float attribute as an operand in the type of input 0.
Val parameter(NodeContext& c, const char* name, double otherwise) {
  return c.b.scalar(c.b.dtype(c.in(0)), c.f(name, otherwise));
}

// Emits `op` on input 0 and these parameters.
void with_parameters(NodeContext& c, ScalarOp op, std::initializer_list<Val> parameters) {
  std::vector<Val> operands = {c.in(0)};
  operands.insert(operands.end(), parameters.begin(), parameters.end());
  c.out(c.b.emit(op, operands));
}

// Aligns the second operand with the axes of the first. Up to opset 6 it broadcasts only if the attribute says so, and
// then from `axis` on: [3, 4] at axis 1 of rank 4 is [3, 4, 1]. Later versions broadcast as numpy does.
Val second_operand(const NodeContext& c) {
  const Val x = c.in(0), y = c.in(1);
  if (c.opset() >= 7 || c.b.shape(x) == c.b.shape(y)) return y;
  if (c.i("broadcast", 0) == 0)
    fail_differ(c.b.shape(x), c.b.shape(y), "the operands differ in shape, and broadcast is not 1");
  const int64_t rank = c.b.rank(x);
  if (!c.has_attr("axis")) return y;
  const int64_t trailing = rank - normal_axis(c.i("axis", 0), rank) - c.b.rank(y);
  if (trailing < 0) fail_invalid(fmt::format("axis {} leaves too few axes for the second operand", c.i("axis", 0)));
  Shape shape = c.b.shape(y);
  shape.insert(shape.end(), static_cast<std::size_t>(trailing), Dim(1));
  return reshape(c.b, y, shape);
}

}  // namespace

namespace {

// Rejects integer operands, which ONNX allows and our op does not take.
void refuse_integers(const NodeContext& c) {
  if (is_int(c.b.dtype(c.in(0)))) fail_unsupported(fmt::format("integers, here {}", to_string(c.b.dtype(c.in(0)))));
}

}  // namespace

void map_scalar(NodeContext& c) {
  if (c.row().op == ir::Op(ScalarOp::erf)) refuse_integers(c);
  std::vector<Val> operands = c.inputs();
  if (operands.size() == 2) operands[1] = second_operand(c);
  c.out(c.b.emit(*c.row().op, operands));
}

void map_variadic(NodeContext& c) {
  Val result = c.in(0);
  for (std::size_t i = 1; i < c.num_inputs(); ++i) result = c.b.emit(*c.row().op, {result, c.in(i)});
  c.out(result);
}

void import_mean(NodeContext& c) {
  Val sum = widen(c.b, c.in(0));
  for (std::size_t i = 1; i < c.num_inputs(); ++i) sum = add(c.b, sum, widen(c.b, c.in(i)));
  Val count = c.b.scalar(c.b.dtype(sum), static_cast<double>(c.num_inputs()));
  c.out(cast(c.b, c.num_inputs() == 1 ? sum : div(c.b, sum, count), c.b.dtype(c.in(0))));
}

void import_bit_shift(NodeContext& c) {
  std::string direction = c.s("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") fail_invalid("direction must be LEFT or RIGHT");
  Val x = c.in(0), count = c.in(1);
  const DType dtype = c.b.dtype(x);
  // From opset 28 on, shifting by a count outside the width fills the result with the sign, as shifting by width - 1
  // does.
  if (c.opset() >= 28 && direction == "RIGHT" && is_signed_int(dtype)) {
    const Val last = c.b.scalar(dtype, static_cast<double>(8 * size_of(dtype) - 1));
    const Val is_outside = binary(c.b, ScalarOp::or_, binary(c.b, ScalarOp::lt, count, c.b.scalar(dtype, 0)),
                                  binary(c.b, ScalarOp::gt, count, last));
    count = c.b.emit(ScalarOp::where, {is_outside, last, count});
  }
  c.out(binary(c.b, direction == "LEFT" ? ScalarOp::shl : ScalarOp::shr, x, count));
}

void import_cast(NodeContext& c) { c.out(cast(c.b, c.in(0), to_dtype(c.i("to", 0)))); }

void import_cast_like(NodeContext& c) { c.out(cast(c.b, c.in(0), c.b.dtype(c.in(1)))); }

void import_celu(NodeContext& c) { with_parameters(c, ScalarOp::celu, {parameter(c, "alpha", 1.0)}); }
void import_elu(NodeContext& c) { with_parameters(c, ScalarOp::elu, {parameter(c, "alpha", 1.0)}); }
void import_leaky_relu(NodeContext& c) { with_parameters(c, ScalarOp::leaky_relu, {parameter(c, "alpha", 0.01f)}); }
void import_thresholded_relu(NodeContext& c) {
  with_parameters(c, ScalarOp::thresholded_relu, {parameter(c, "alpha", 1.0)});
}
void import_hard_sigmoid(NodeContext& c) {
  with_parameters(c, ScalarOp::hard_sigmoid, {parameter(c, "alpha", 0.2f), parameter(c, "beta", 0.5)});
}
// ONNX specifies the defaults as float32 numbers.
void import_selu(NodeContext& c) {
  with_parameters(
      c, ScalarOp::selu,
      {parameter(c, "alpha", 1.67326319217681884765625f), parameter(c, "gamma", 1.05070102214813232421875f)});
}
void import_shrink(NodeContext& c) {
  refuse_integers(c);
  with_parameters(c, ScalarOp::shrink, {parameter(c, "lambd", 0.5), parameter(c, "bias", 0)});
}

void import_gelu(NodeContext& c) {
  std::string approximate = c.s("approximate", "none");
  if (approximate != "none" && approximate != "tanh") fail_invalid("approximate must be none or tanh");
  c.out(unary(c.b, approximate == "none" ? ScalarOp::gelu : ScalarOp::gelu_tanh, c.in(0)));
}

// x * sigmoid(alpha * x)
void import_swish(NodeContext& c) {
  double alpha = c.f("alpha", 1.0);
  Val x = c.in(0);
  c.out(alpha == 1 ? unary(c.b, ScalarOp::silu, x) : mul(c.b, x, unary(c.b, ScalarOp::sigmoid, mul(c.b, x, alpha))));
}

void import_clip(NodeContext& c) {
  Val x = c.in(0), low, high;
  DType dtype = c.b.dtype(x);
  if (c.opset() < 11) {
    if (c.has_attr("min")) low = c.b.scalar(dtype, c.f("min", 0));
    if (c.has_attr("max")) high = c.b.scalar(dtype, c.f("max", 0));
  } else {
    if (c.has(1)) low = reshape(c.b, c.in(1), {});
    if (c.has(2)) high = reshape(c.b, c.in(2), {});
  }
  if (low.valid() && high.valid()) return c.out(c.b.emit(ScalarOp::clamp, {x, low, high}));
  if (low.valid()) x = binary(c.b, ScalarOp::max, x, low);
  if (high.valid()) x = binary(c.b, ScalarOp::min, x, high);
  c.out(x);
}

void import_is_inf(NodeContext& c) {
  bool positive = c.i("detect_positive", 1) != 0, negative = c.i("detect_negative", 1) != 0;
  Val x = c.in(0);
  if (positive && negative) x = unary(c.b, ScalarOp::abs, x);
  double infinity = std::numeric_limits<double>::infinity();
  Val result = binary(c.b, ScalarOp::eq, x, c.b.scalar(c.b.dtype(x), !positive && negative ? -infinity : infinity));
  if (!positive && !negative) result = broadcast(c.b, c.b.scalar(DType::bool_, 0), c.b.shape(x));
  c.out(result);
}

// With fmod = 0 the result has the sign of the divisor, also where it is zero.
void import_mod(NodeContext& c) {
  Builder& b = c.b;
  const bool fmod = c.i("fmod", 0) != 0;
  const Val x = c.in(0), y = c.in(1);
  const DType dtype = b.dtype(x);
  const Val m = binary(b, fmod ? ScalarOp::fmod : ScalarOp::mod, x, y);
  if (fmod || !is_float(dtype)) return c.out(m);
  if (c.opset() < 28) fail_invalid("floats need the attribute fmod = 1");
  const Val zero = b.scalar(dtype, 0);
  const Val signed_zero = b.emit(ScalarOp::where, {binary(b, ScalarOp::lt, y, zero), b.scalar(dtype, -0.0), zero});
  c.out(b.emit(ScalarOp::where, {binary(b, ScalarOp::eq, m, zero), signed_zero, m}));
}

// where(x < 0, slope * x, x); the slope broadcasts to x.
void import_prelu(NodeContext& c) {
  Val x = c.in(0), slope = c.in(1);
  if (c.opset() < 9 && c.b.rank(slope) == 1 && c.b.rank(x) > 2) slope = along_axis(c.b, slope, 1, c.b.rank(x));
  if (is_float(c.b.dtype(x))) return c.out(binary(c.b, ScalarOp::leaky_relu, x, slope));
  Val negative = binary(c.b, ScalarOp::lt, x, c.b.scalar(c.b.dtype(x), 0));
  c.out(c.b.emit(ScalarOp::where, {negative, mul(c.b, slope, x), x}));
}

// The result has the type of the base. Mixed with a float exponent, an integer base computes in f64.
void import_pow(NodeContext& c) {
  Val base = c.in(0), exponent = second_operand(c);
  DType result = c.b.dtype(base);
  DType compute = !is_float(result) && is_float(c.b.dtype(exponent)) ? DType::f64 : result;
  Val power = binary(c.b, ScalarOp::pow, cast(c.b, base, compute), cast(c.b, exponent, compute));
  c.out(cast(c.b, power, result));
}

}  // namespace fusec::importer
