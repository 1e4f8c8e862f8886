// SPDX-License-Identifier: Apache-2.0
// Implements the public GraphBuilder: each call adds nodes to a graph or records an error, and finish() returns the
// model or the errors. No exception leaves a public function.

#include "fusec/graph_builder.h"

#include <algorithm>
#include <optional>

#include "ir/graph/builder_state.h"
#include "ir/graph/model_internal.h"
#include "ir/support/check.h"

namespace fusec {

using ir::Attrs;
using ir::ScalarOp;
using ir::TensorOp;

namespace {

// Runs one step of building; no exception leaves the library. A null state means that there was no memory for the
// builder.
template <class Step>
Var guarded(BuilderState* state, const Step& step) noexcept {
  if (state == nullptr) return Var();
  Result<Var> made = ir::guarded([&]() -> Result<Var> { return step(); });
  if (made.ok()) return *made;
  state->record(made.status());
  return Var();
}

int64_t wrapped(int64_t axis, Var x) { return axis < 0 ? axis + x.rank() : axis; }

std::vector<int64_t> wrapped(std::vector<int64_t> axes, Var x) {
  for (int64_t& axis : axes) axis = wrapped(axis, x);
  return axes;
}

}  // namespace

DType Var::dtype() const { return valid() ? builder_->graph.type(BuilderState::id(*this)).dtype : DType::f32; }

const Shape& Var::shape() const {
  static const Shape kScalar;
  return valid() ? builder_->graph.type(BuilderState::id(*this)).shape : kScalar;
}

namespace {

// Without a valid Var there is no builder to report to; the error that made the Var invalid has been recorded.
Var combine(ScalarOp op, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (BuilderState* state = BuilderState::of(operand.var)) {
      return guarded(state, [&] { return state->scalar(op, operands); });
    }
  }
  return Var();
}

}  // namespace

Var operator+(Operand a, Operand b) { return combine(ScalarOp::add, {a, b}); }
Var operator-(Operand a, Operand b) { return combine(ScalarOp::sub, {a, b}); }
Var operator*(Operand a, Operand b) { return combine(ScalarOp::mul, {a, b}); }
Var operator/(Operand a, Operand b) { return combine(ScalarOp::div, {a, b}); }
Var operator-(Var a) { return combine(ScalarOp::neg, {a}); }

GraphBuilder::GraphBuilder() noexcept {
  try {
    state_ = std::make_unique<BuilderState>();
  } catch (...) {
    // finish() reports it.
  }
}
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

Var GraphBuilder::input(std::string name, DType dtype, Shape shape) {
  return guarded(state_.get(), [&] {
    for (ir::ValueId v : state_->graph.inputs) {
      if (state_->graph.values[v].name == name) return state_->fail("two inputs are named '" + name + "'");
    }
    if (name.empty()) return state_->fail("an input has no name");
    for (const Dim& d : shape) {
      if (d.is_const() && d.value() < 0) return state_->fail("input '" + name + "' has the extent " + d.str());
    }
    return state_->var(ir::add_input(state_->graph, std::move(name), {dtype, std::move(shape)}));
  });
}

Status GraphBuilder::range(const std::string& symbol, int64_t least, int64_t most) noexcept {
  if (!state_) return Status::exhausted();
  return ir::guarded([&]() -> Status {
    const Result<Dim> extent = Dim::parse(symbol);
    if (!extent.ok() || extent->as_symbol() != symbol) {
      return Status(StatusCode::invalid_argument, "'" + symbol + "' is no name of a symbol");
    }
    if (least < 0 || least > most) {
      return Status(StatusCode::invalid_argument, "symbol '" + symbol + "' cannot be " + std::to_string(least) +
                                                      " to " + std::to_string(most) + "; extents are at least 0");
    }
    state_->graph.limits[*extent] = {least, most};
    return {};
  });
}

Var GraphBuilder::constant(const Tensor& data) {
  return guarded(state_.get(), [&] {
    if (!data.is_contiguous()) return state_->fail("a constant must be row-major");
    return state_->var(ir::add_constant(state_->graph, data));
  });
}

Var GraphBuilder::weight(std::string name, const Tensor& data) {
  return guarded(state_.get(), [&] {
    ir::Graph& graph = state_->graph;
    if (name.empty()) return state_->fail("a weight has no name");
    for (const auto& [id, other] : graph.weight_names)
      if (other == name) return state_->fail("two weights are named '" + name + "'");
    const Var made = constant(data);
    if (made.valid()) graph.weight_names.emplace(graph.values[BuilderState::id(made)].producer, std::move(name));
    return made;
  });
}

Var GraphBuilder::constant(DType dtype, double value) {
  return guarded(state_.get(), [&] { return state_->var(ir::add_scalar_constant(state_->graph, dtype, value)); });
}

void GraphBuilder::output(std::string name, Var value) {
  guarded(state_.get(), [&] {
    const std::vector<std::string>& names = state_->graph.output_names;
    if (name.empty()) return state_->fail("an output has no name");
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return state_->fail("two outputs are named '" + name + "'");
    }
    if (!state_->usable({value}, "output '" + name + "'")) return Var();
    ir::add_output(state_->graph, BuilderState::id(value), std::move(name));
    return value;
  });
}

Result<Model> GraphBuilder::finish() const noexcept {
  if (!state_ || state_->exhausted) return Status::exhausted();
  return ir::guarded([&]() -> Result<Model> {
    if (const std::vector<Status>& errors = state_->errors; !errors.empty()) {
      std::vector<std::string> others = errors.front().notes();
      for (std::size_t i = 1; i < errors.size(); ++i) others.push_back(errors[i].message());
      return Status(errors.front().code(), errors.front().message(), std::move(others));
    }
    if (state_->graph.outputs.empty()) return Status(StatusCode::invalid_argument, "the graph has no output");
    ir::Graph graph = ir::compact(state_->graph);
    graph.imported_ops = static_cast<int64_t>(graph.order.size() - graph.constants.size());
    return ir::make_model(std::move(graph));
  });
}

Var GraphBuilder::apply(std::string_view op, std::span<const Operand> operands) {
  return guarded(state_.get(), [&] {
    const std::optional<ScalarOp> row = ir::find_scalar_op(op);
    if (!row) return state_->fail("there is no scalar op '" + std::string(op) + "'");
    return state_->scalar(*row, {operands.begin(), operands.end()});
  });
}

Var GraphBuilder::cast(Operand a, DType to) {
  return guarded(state_.get(), [&] { return state_->scalar(ScalarOp::cast, {a}, {{"to", to}}); });
}

namespace {

using Axes = std::vector<int64_t>;

}  // namespace

Var GraphBuilder::iota(DType dtype, Shape shape, int64_t axis) {
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::iota, {}, {{"shape", std::move(shape)}, {"axis", axis}, {"dtype", dtype}});
  });
}

Var GraphBuilder::dim(Dim value, DType dtype) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::dim, {}, {{"value", Shape{std::move(value)}}, {"dtype", dtype}});
  });
}

Var GraphBuilder::broadcast(Var x, Shape shape) {
  return guarded(state_.get(), [&] { return state_->node(TensorOp::broadcast, {x}, {{"shape", std::move(shape)}}); });
}

Var GraphBuilder::reshape(Var x, Shape shape) {
  return guarded(state_.get(), [&] { return state_->node(TensorOp::reshape, {x}, {{"shape", std::move(shape)}}); });
}

Var GraphBuilder::transpose(Var x, Axes perm) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::transpose, {x}, {{"perm", wrapped(std::move(perm), x)}});
  });
}

Var GraphBuilder::slice(Var x, Shape starts, Shape sizes, Axes steps) {
  return guarded(state_.get(), [&] {
    if (steps.empty()) steps.assign(sizes.size(), 1);
    return state_->node(TensorOp::slice, {x},
                        {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
  });
}

Var GraphBuilder::concat(std::vector<Var> parts, int64_t axis) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::concat, parts, {{"axis", parts.empty() ? axis : wrapped(axis, parts[0])}});
  });
}

Var GraphBuilder::pad(Var x, Shape before, Shape after, Operand value) {
  return guarded(state_.get(), [&] {
    Var fill = value.var;
    if (value.is_number) fill = state_->var(ir::add_scalar_constant(state_->graph, x.dtype(), value.number));
    return state_->node(
        TensorOp::pad, {x, fill},
        {{"before", std::move(before)}, {"after", std::move(after)}, {"mode", std::string("constant")}});
  });
}

Var GraphBuilder::pad_mode(Var x, Shape before, Shape after, std::string mode) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::pad, {x},
                        {{"before", std::move(before)}, {"after", std::move(after)}, {"mode", std::move(mode)}});
  });
}

Var GraphBuilder::gather(Var x, Var indices, int64_t axis) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::gather, {x, indices}, {{"axis", wrapped(axis, x)}});
  });
}

Var GraphBuilder::gather_elements(Var x, Var indices, int64_t axis) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::gather_elements, {x, indices}, {{"axis", wrapped(axis, x)}});
  });
}

Var GraphBuilder::gather_nd(Var x, Var indices, int64_t batch_dims) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::gather_nd, {x, indices}, {{"batch_dims", batch_dims}});
  });
}

Var GraphBuilder::topk(Var x, Dim k, int64_t axis, bool largest) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::topk, {x},
                        {{"axis", wrapped(axis, x)}, {"k", Shape{std::move(k)}}, {"largest", int64_t{largest}}});
  });
}

Var GraphBuilder::scatter_elements(Var x, Var indices, Var updates, int64_t axis, std::string reduction) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::scatter_elements, {x, indices, updates},
                        {{"axis", wrapped(axis, x)}, {"reduction", std::move(reduction)}});
  });
}

Var GraphBuilder::scatter_nd(Var x, Var indices, Var updates, std::string reduction) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::scatter_nd, {x, indices, updates}, {{"reduction", std::move(reduction)}});
  });
}

namespace {

Var reduce(BuilderState& state, TensorOp op, Var x, Axes axes, bool keep) {
  axes = wrapped(std::move(axes), x);
  const Var reduced = state.node(op, {x}, {{"axes", axes}});
  if (!keep || !reduced.valid()) return reduced;
  Shape shape = x.shape();
  for (int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return state.node(TensorOp::reshape, {reduced}, {{"shape", std::move(shape)}});
}

int64_t flag(bool b) { return b ? 1 : 0; }

}  // namespace

Var GraphBuilder::reduce_sum(Var x, Axes axes, bool keep) {
  return guarded(state_.get(), [&] { return reduce(*state_, TensorOp::reduce_sum, x, std::move(axes), keep); });
}
Var GraphBuilder::reduce_prod(Var x, Axes axes, bool keep) {
  return guarded(state_.get(), [&] { return reduce(*state_, TensorOp::reduce_prod, x, std::move(axes), keep); });
}
Var GraphBuilder::reduce_max(Var x, Axes axes, bool keep) {
  return guarded(state_.get(), [&] { return reduce(*state_, TensorOp::reduce_max, x, std::move(axes), keep); });
}
Var GraphBuilder::reduce_min(Var x, Axes axes, bool keep) {
  return guarded(state_.get(), [&] { return reduce(*state_, TensorOp::reduce_min, x, std::move(axes), keep); });
}
Var GraphBuilder::reduce_mean(Var x, Axes axes, bool keep) {
  return guarded(state_.get(), [&] { return reduce(*state_, TensorOp::reduce_mean, x, std::move(axes), keep); });
}

Var GraphBuilder::argmax(Var x, int64_t axis, bool last) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::argmax, {x}, {{"axis", wrapped(axis, x)}, {"last", flag(last)}});
  });
}

Var GraphBuilder::argmin(Var x, int64_t axis, bool last) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::argmin, {x}, {{"axis", wrapped(axis, x)}, {"last", flag(last)}});
  });
}

Var GraphBuilder::cumsum(Var x, int64_t axis, bool exclusive, bool reverse) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::cumsum, {x},
                        {{"axis", wrapped(axis, x)}, {"exclusive", flag(exclusive)}, {"reverse", flag(reverse)}});
  });
}

Var GraphBuilder::matmul(Var a, Var b, bool transpose_a, bool transpose_b) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::matmul, {a, b},
                        {{"transpose_a", flag(transpose_a)}, {"transpose_b", flag(transpose_b)}});
  });
}

namespace {

Attrs window_attrs(WindowOptions window, Var x) {
  const std::size_t axes = x.rank() > 2 ? static_cast<std::size_t>(x.rank() - 2) : 0;
  if (window.strides.empty()) window.strides.assign(axes, 1);
  if (window.dilations.empty()) window.dilations.assign(axes, 1);
  if (window.pads.empty()) window.pads.assign(2 * axes, 0);
  return {{"strides", std::move(window.strides)},
          {"pads", std::move(window.pads)},
          {"dilations", std::move(window.dilations)},
          {"layout", std::string(window.channels_last ? "last" : "first")}};
}

Var convolve(BuilderState& state, const std::vector<Var>& operands, WindowOptions window, int64_t groups) {
  Attrs attrs = window_attrs(std::move(window), operands[0]);
  attrs.set("groups", groups);
  return state.node(TensorOp::conv, operands, std::move(attrs));
}

Attrs pool_attrs(Axes kernel, WindowOptions window, bool ceil_mode, Var x) {
  Attrs attrs = window_attrs(std::move(window), x);
  attrs.set("kernel", std::move(kernel));
  attrs.set("ceil_mode", flag(ceil_mode));
  return attrs;
}

}  // namespace

Var GraphBuilder::conv(Var x, Var filter, WindowOptions window, int64_t groups) {
  return guarded(state_.get(), [&] { return convolve(*state_, {x, filter}, std::move(window), groups); });
}

Var GraphBuilder::conv(Var x, Var filter, Var bias, WindowOptions window, int64_t groups) {
  return guarded(state_.get(), [&] { return convolve(*state_, {x, filter, bias}, std::move(window), groups); });
}

Var GraphBuilder::max_pool(Var x, Axes kernel, WindowOptions window, bool ceil_mode) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::max_pool, {x}, pool_attrs(std::move(kernel), std::move(window), ceil_mode, x));
  });
}

Var GraphBuilder::avg_pool(Var x, Axes kernel, WindowOptions window, bool ceil_mode, bool count_include_pad) {
  return guarded(state_.get(), [&] {
    Attrs attrs = pool_attrs(std::move(kernel), std::move(window), ceil_mode, x);
    attrs.set("count_include_pad", flag(count_include_pad));
    return state_->node(TensorOp::avg_pool, {x}, std::move(attrs));
  });
}

Var GraphBuilder::attention(Var q, Var k, Var v, double scale) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::attention, {q, k, v}, {{"scale", scale}, {"causal", int64_t{0}}});
  });
}

Var GraphBuilder::attention(Var q, Var k, Var v, Var mask, double scale) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::attention, {q, k, v, mask}, {{"scale", scale}, {"causal", int64_t{0}}});
  });
}

Var GraphBuilder::custom_call(std::string name, std::vector<Var> args, DType dtype, Shape shape,
                              std::string attributes) {
  return guarded(state_.get(), [&] {
    return state_->node(TensorOp::custom_call, args,
                        {{"name", std::move(name)},
                         {"attributes", std::move(attributes)},
                         {"dtype", dtype},
                         {"shape", std::move(shape)}});
  });
}

namespace {

// The maximum that is subtracted before exp, for the range alone: results do not depend on it, so that gradients take
// it for a constant.
Var held_max(BuilderState& state, Var x, int64_t axis) {
  const Var highest = reduce(state, TensorOp::reduce_max, x, {axis}, true);
  if (highest.valid()) state.held.insert(BuilderState::id(highest));
  return highest;
}

}  // namespace

Var GraphBuilder::softmax(Var x, int64_t axis) {
  return guarded(state_.get(), [&] {
    const Var e = exp(x - held_max(*state_, x, axis));
    return e / reduce_sum(e, {axis}, true);
  });
}

Var GraphBuilder::log_softmax(Var x, int64_t axis) {
  return guarded(state_.get(), [&] {
    const Var shifted = x - held_max(*state_, x, axis);
    return shifted - log(reduce_sum(exp(shifted), {axis}, true));
  });
}

Var GraphBuilder::layer_norm(Var x, Operand scale, Operand bias, double eps) {
  return guarded(state_.get(), [&] {
    const Var centered = x - reduce_mean(x, {-1}, true);
    const Var variance = reduce_mean(square(centered), {-1}, true);
    return centered / sqrt(variance + eps) * scale + bias;
  });
}

Var GraphBuilder::rms_norm(Var x, Operand scale, double eps) {
  return guarded(state_.get(), [&] { return x / sqrt(reduce_mean(square(x), {-1}, true) + eps) * scale; });
}

Var GraphBuilder::linear(Var x, Var weight, Operand bias) { return matmul(x, weight, false, true) + bias; }

}  // namespace fusec
