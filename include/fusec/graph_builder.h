// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: makes a Model without ONNX.
//
//   GraphBuilder b;
//   Var x = b.input("x", DType::f32, {Dim::symbol("n"), 64});
//   b.output("y", b.softmax(b.relu(x * 2 + 1), -1));
//   Result<Model> model = b.finish();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/model.h"
#include "fusec/shape.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {

class GraphBuilder;
struct BuilderState;

// A value of a GraphBuilder, which must live as long. After a mistake in building it the Var is invalid, and so is all
// that is computed from it; GraphBuilder::finish reports the mistake.
class FUSEC_API Var {
 public:
  Var() = default;
  bool valid() const { return builder_ != nullptr; }
  DType dtype() const;         // f32 of an invalid Var
  const Shape& shape() const;  // [] of an invalid Var
  int rank() const { return static_cast<int>(shape().size()); }

 private:
  friend struct BuilderState;
  Var(BuilderState* builder, uint32_t id) : builder_(builder), id_(id) {}
  BuilderState* builder_ = nullptr;
  uint32_t id_ = 0;
};

// A Var, or a number that takes the dtype of the Vars beside it.
struct FUSEC_API Operand {
  Operand(Var v) : var(v) {}  // NOLINT: implicit by design
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T v) : number(static_cast<double>(v)), is_number(true) {}  // NOLINT
  Var var;
  double number = 0;
  bool is_number = false;
};

FUSEC_API Var operator+(Operand a, Operand b);
FUSEC_API Var operator-(Operand a, Operand b);
FUSEC_API Var operator*(Operand a, Operand b);
FUSEC_API Var operator/(Operand a, Operand b);
FUSEC_API Var operator-(Var a);

// The window of a convolution or pooling over the spatial axes. Empty lists stand for ones, of `pads` for zeros; pads
// lists all begins, then all ends. channels_last: N spatial... C, else N C spatial...
struct FUSEC_API WindowOptions {
  std::vector<int64_t> strides = {}, pads = {}, dilations = {};
  bool channels_last = false;
};

// Elementwise ops broadcast by numpy's rule. Axes may be negative: -1 is the last one.
class FUSEC_API GraphBuilder {
 public:
  GraphBuilder() noexcept;  // without memory all its Vars are invalid, and finish() answers out_of_memory
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;

  Var input(std::string name, DType dtype, Shape shape);
  // The values that a symbol may have, both ends included: kernels may rely on them, and a run with others is refused.
  // invalid_argument, and nothing is changed: this is no name of a symbol, or no range of extents.
  Status range(const std::string& symbol, int64_t least, int64_t most = INT64_MAX) noexcept;
  // Shares the memory, which must not change while the Model or an Engine of it lives.
  Var constant(const Tensor& data);
  Var constant(DType dtype, double value);
  // A constant with a name, under which Engine::set_weight replaces it where Options::replaceable_weights says so. No
  // two weights have one name.
  Var weight(std::string name, const Tensor& data);
  void output(std::string name, Var value);
  // The model so far, or every mistake made: the first as the error, invalid_argument for most, the others as notes.
  Result<Model> finish() const noexcept;

  // Any row of the scalar op table (docs/ops.md) by name, `cast` apart.
  Var apply(std::string_view op, std::span<const Operand> operands);
  Var apply(std::string_view op, std::initializer_list<Operand> operands) {
    return apply(op, std::span<const Operand>(operands.begin(), operands.size()));
  }
  Var cast(Operand a, DType to);

  // One method per row of ir/ops/scalar_ops.def (tests/ir/graph_builder_test.cpp compares).
  // clang-format off
  Var add(Operand a, Operand b) { return apply("add", {a, b}); }
  Var sub(Operand a, Operand b) { return apply("sub", {a, b}); }
  Var mul(Operand a, Operand b) { return apply("mul", {a, b}); }
  Var fma(Operand a, Operand b, Operand c) { return apply("fma", {a, b, c}); }
  Var div(Operand a, Operand b) { return apply("div", {a, b}); }
  Var mod(Operand a, Operand b) { return apply("mod", {a, b}); }
  Var fmod(Operand a, Operand b) { return apply("fmod", {a, b}); }
  Var min(Operand a, Operand b) { return apply("min", {a, b}); }
  Var max(Operand a, Operand b) { return apply("max", {a, b}); }
  Var neg(Operand a) { return apply("neg", {a}); }
  Var abs(Operand a) { return apply("abs", {a}); }
  Var sign(Operand a) { return apply("sign", {a}); }
  Var pow(Operand a, Operand b) { return apply("pow", {a, b}); }
  Var sqrt(Operand a) { return apply("sqrt", {a}); }
  Var floor(Operand a) { return apply("floor", {a}); }
  Var ceil(Operand a) { return apply("ceil", {a}); }
  Var trunc(Operand a) { return apply("trunc", {a}); }
  Var round(Operand a) { return apply("round", {a}); }
  Var exp(Operand a) { return apply("exp", {a}); }
  Var expm1(Operand a) { return apply("expm1", {a}); }
  Var log(Operand a) { return apply("log", {a}); }
  Var log1p(Operand a) { return apply("log1p", {a}); }
  Var tanh(Operand a) { return apply("tanh", {a}); }
  Var erf(Operand a) { return apply("erf", {a}); }
  Var sin(Operand a) { return apply("sin", {a}); }
  Var cos(Operand a) { return apply("cos", {a}); }
  Var tan(Operand a) { return apply("tan", {a}); }
  Var asin(Operand a) { return apply("asin", {a}); }
  Var acos(Operand a) { return apply("acos", {a}); }
  Var atan(Operand a) { return apply("atan", {a}); }
  Var sinh(Operand a) { return apply("sinh", {a}); }
  Var cosh(Operand a) { return apply("cosh", {a}); }
  Var asinh(Operand a) { return apply("asinh", {a}); }
  Var acosh(Operand a) { return apply("acosh", {a}); }
  Var atanh(Operand a) { return apply("atanh", {a}); }
  Var eq(Operand a, Operand b) { return apply("eq", {a, b}); }
  Var ne(Operand a, Operand b) { return apply("ne", {a, b}); }
  Var lt(Operand a, Operand b) { return apply("lt", {a, b}); }
  Var le(Operand a, Operand b) { return apply("le", {a, b}); }
  Var gt(Operand a, Operand b) { return apply("gt", {a, b}); }
  Var ge(Operand a, Operand b) { return apply("ge", {a, b}); }
  Var is_nan(Operand a) { return apply("is_nan", {a}); }
  Var and_(Operand a, Operand b) { return apply("and_", {a, b}); }
  Var or_(Operand a, Operand b) { return apply("or_", {a, b}); }
  Var xor_(Operand a, Operand b) { return apply("xor_", {a, b}); }
  Var not_(Operand a) { return apply("not_", {a}); }
  Var bit_and(Operand a, Operand b) { return apply("bit_and", {a, b}); }
  Var bit_or(Operand a, Operand b) { return apply("bit_or", {a, b}); }
  Var bit_xor(Operand a, Operand b) { return apply("bit_xor", {a, b}); }
  Var bit_not(Operand a) { return apply("bit_not", {a}); }
  Var shl(Operand a, Operand b) { return apply("shl", {a, b}); }
  Var shr(Operand a, Operand b) { return apply("shr", {a, b}); }
  Var where(Operand a, Operand b, Operand c) { return apply("where", {a, b, c}); }
  Var relu(Operand a) { return apply("relu", {a}); }
  Var recip(Operand a) { return apply("recip", {a}); }
  Var rsqrt(Operand a) { return apply("rsqrt", {a}); }
  Var square(Operand a) { return apply("square", {a}); }
  Var clamp(Operand a, Operand b, Operand c) { return apply("clamp", {a, b, c}); }
  Var sigmoid(Operand a) { return apply("sigmoid", {a}); }
  Var silu(Operand a) { return apply("silu", {a}); }
  Var hard_sigmoid(Operand a, Operand b, Operand c) { return apply("hard_sigmoid", {a, b, c}); }
  Var hard_swish(Operand a) { return apply("hard_swish", {a}); }
  Var leaky_relu(Operand a, Operand b) { return apply("leaky_relu", {a, b}); }
  Var elu(Operand a, Operand b) { return apply("elu", {a, b}); }
  Var celu(Operand a, Operand b) { return apply("celu", {a, b}); }
  Var selu(Operand a, Operand b, Operand c) { return apply("selu", {a, b, c}); }
  Var softplus(Operand a) { return apply("softplus", {a}); }
  Var softsign(Operand a) { return apply("softsign", {a}); }
  Var mish(Operand a) { return apply("mish", {a}); }
  Var gelu(Operand a) { return apply("gelu", {a}); }
  Var gelu_tanh(Operand a) { return apply("gelu_tanh", {a}); }
  Var thresholded_relu(Operand a, Operand b) { return apply("thresholded_relu", {a, b}); }
  Var shrink(Operand a, Operand b, Operand c) { return apply("shrink", {a, b, c}); }
  // clang-format on

  // Index maps; see ir/ops/tensor_ops.def.
  Var iota(DType dtype, Shape shape, int64_t axis);
  Var dim(Dim value, DType dtype = DType::i64);  // a scalar
  Var broadcast(Var x, Shape shape);
  Var reshape(Var x, Shape shape);
  Var transpose(Var x, std::vector<int64_t> perm);
  Var slice(Var x, Shape starts, Shape sizes, std::vector<int64_t> steps = {});  // no steps: ones
  Var concat(std::vector<Var> parts, int64_t axis);
  Var pad(Var x, Shape before, Shape after, Operand value = 0);
  Var pad_mode(Var x, Shape before, Shape after, std::string mode);  // reflect, edge or wrap
  Var gather(Var x, Var indices, int64_t axis);
  Var gather_elements(Var x, Var indices, int64_t axis);
  Var gather_nd(Var x, Var indices, int64_t batch_dims = 0);

  // i64: where along axis the k largest (or smallest) elements are, best first. Of equal ones the lower index comes
  // first; NaN is greater than every number. Values: gather_elements.
  Var topk(Var x, Dim k, int64_t axis = -1, bool largest = true);
  // x with updates put where indices point along axis (nd: where the rows of indices point). reduction: none (the last
  // one stays), add, mul, max or min with what is there.
  Var scatter_elements(Var x, Var indices, Var updates, int64_t axis, std::string reduction = "none");
  Var scatter_nd(Var x, Var indices, Var updates, std::string reduction = "none");

  // Reductions. keep: reduced axes stay with extent 1.
  Var reduce_sum(Var x, std::vector<int64_t> axes, bool keep = false);
  Var reduce_prod(Var x, std::vector<int64_t> axes, bool keep = false);
  Var reduce_max(Var x, std::vector<int64_t> axes, bool keep = false);
  Var reduce_min(Var x, std::vector<int64_t> axes, bool keep = false);
  Var reduce_mean(Var x, std::vector<int64_t> axes, bool keep = false);
  Var argmax(Var x, int64_t axis, bool last = false);  // i64; last: ties take the last index
  Var argmin(Var x, int64_t axis, bool last = false);
  Var cumsum(Var x, int64_t axis, bool exclusive = false, bool reverse = false);

  Var matmul(Var a, Var b, bool transpose_a = false, bool transpose_b = false);
  Var conv(Var x, Var filter, WindowOptions window = {}, int64_t groups = 1);
  Var conv(Var x, Var filter, Var bias, WindowOptions window = {}, int64_t groups = 1);
  Var max_pool(Var x, std::vector<int64_t> kernel, WindowOptions window = {}, bool ceil_mode = false);
  Var avg_pool(Var x, std::vector<int64_t> kernel, WindowOptions window = {}, bool ceil_mode = false,
               bool count_include_pad = false);
  // softmax(q k^T * scale + mask) v of q [N, H, S, D], k [N, G, T, D] and v [N, G, T, E], of which head h of q reads
  // head h / (H / G). The mask broadcasts to the scores [N, H, S, T].
  Var attention(Var q, Var k, Var v, double scale);
  Var attention(Var q, Var k, Var v, Var mask, double scale);

  // What the function of the host that is registered as `name` (fusec/custom_call.h) makes of the arguments, 1 to
  // kMaxCallInputs. Extents of the shape are expressions over the symbols of the inputs.
  Var custom_call(std::string name, std::vector<Var> args, DType dtype, Shape shape, std::string attributes = "");

  // Reverse-mode gradients: for each of wrt the gradient of the sum of y * dy by it, with its dtype and shape, as ops
  // of this graph like any other. Zeros where y does not depend on it. dy has the dtype and shape of y; without it y
  // has one element and dy is 1. Only floats have gradients: integers and bools are constants for them, as `x > 0` in
  // `where(x > 0, ...)`. Mistakes, of which the results are invalid Vars: y or one of wrt is no float, dy does not fit,
  // and (unsupported) an op between them has no gradient. Without memory for it the list is empty. docs/gradients.md
  // states the rules, also at kinks and ties.
  std::vector<Var> gradients(Var y, const std::vector<Var>& wrt) noexcept;
  std::vector<Var> gradients(Var y, const std::vector<Var>& wrt, Var dy) noexcept;

  // Compositions.
  Var softmax(Var x, int64_t axis);      // exp(x - max) / sum(exp(x - max))
  Var log_softmax(Var x, int64_t axis);  // x - max - log(sum(exp(x - max)))
  // (x - mean) / sqrt(var + eps) * scale + bias over the last axis
  Var layer_norm(Var x, Operand scale, Operand bias, double eps = 1e-5);
  Var rms_norm(Var x, Operand scale, double eps = 1e-6);  // x / sqrt(mean(x*x) + eps) * scale over the last axis
  Var linear(Var x, Var weight, Operand bias);            // x @ weight^T + bias, weight [out, in]

 private:
  std::unique_ptr<BuilderState> state_;
};

}  // namespace fusec
