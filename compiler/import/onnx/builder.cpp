// SPDX-License-Identifier: Apache-2.0
// Builds the Graph in the import stage. It computes nodes on constants and integer arithmetic on symbols at once, adds
// nodes for everything else, and counts the ops of the file that contribute live nodes.

#include "compiler/import/onnx/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/import/onnx/assumptions.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/fold.h"
#include "compiler/import/onnx/tensor.h"
#include "ir/support/check.h"

namespace fusec::importer {

namespace {

bool holds_integers(DType dtype) { return is_int(dtype) || dtype == DType::bool_; }

// The size in bytes, if all extents are constants; INT64_MAX on overflow.
std::optional<int64_t> known_bytes(const ir::Type& type) {
  auto bytes = static_cast<int64_t>(size_of(type.dtype));
  bool overflow = false;
  for (const Dim& d : type.shape) {
    if (!d.is_const()) return std::nullopt;
    if (d.is(0)) return 0;
    overflow |= __builtin_mul_overflow(bytes, d.value(), &bytes);
  }
  return overflow ? std::numeric_limits<int64_t>::max() : bytes;
}

}  // namespace

Builder::Operand& Builder::at(Val v) {
  FUSEC_CHECK(v.index < operands_.size()) << "value of no Builder";
  return operands_[v.index];
}
const Builder::Operand& Builder::at(Val v) const {
  FUSEC_CHECK(v.index < operands_.size()) << "value of no Builder";
  return operands_[v.index];
}

Val Builder::push(Operand operand) {
  operands_.push_back(std::move(operand));
  return {static_cast<uint32_t>(operands_.size() - 1)};
}

void Builder::set_limits(ir::Limits limits) {
  limits_ = std::move(limits);
  ranges_ = ir::symbol_ranges(limits_);
}

Val Builder::input(const std::string& name, ir::Type type) {
  Operand operand{.type = type, .value = ir::add_input(graph_, name, type), .data = {}, .dims = {}};
  return push(std::move(operand));
}

Val Builder::constant(Tensor data, std::string name) {
  ir::Type type{data.dtype(), ir::to_shape(data.shape())};
  return push({.type = std::move(type), .value = {}, .data = std::move(data), .dims = {}, .name = std::move(name)});
}

Val Builder::scalar(DType dtype, double value) { return constant(scalar_tensor(dtype, value)); }

std::vector<Dim> Builder::assumed(std::vector<Dim> dims) const {
  if (ranges_.empty()) return dims;
  for (Dim& d : dims) d = simplify(d, ranges_);
  return dims;
}

Val Builder::integers(DType dtype, const std::vector<int64_t>& shape, std::vector<Dim> elements) {
  elements = assumed(std::move(elements));
  bool all_const = true;
  for (const Dim& d : elements) all_const &= d.is_const();
  if (!all_const)
    return push({.type = {dtype, ir::to_shape(shape)}, .value = {}, .data = {}, .dims = std::move(elements)});
  std::vector<int64_t> values;
  for (const Dim& d : elements) values.push_back(d.value());
  return constant(ints_tensor(dtype, shape, values));
}

std::optional<std::vector<Dim>> Builder::known_integers(Val v) const {
  const Operand& operand = at(v);
  if (operand.dims) return operand.dims;
  if (!operand.data || !holds_integers(operand.type.dtype) || operand.data->num_elements() > kMaxShapeElements) {
    return std::nullopt;
  }
  std::vector<int64_t> values = to_ints(*operand.data);
  return std::vector<Dim>(values.begin(), values.end());
}

ir::Type Builder::checked_type(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs) const {
  std::vector<ir::Type> types;
  for (Val v : inputs) types.push_back(type(v));
  Result<ir::Type> type = ir::infer_type(op, types, attrs);
  if (!type.ok()) {
    ImportError error(type.status());
    if (error.status.code() == StatusCode::unsupported) error.unequal = find_unequal(op, types, attrs);
    throw error;
  }
  check_size(*type);
  return *std::move(type);
}

void Builder::check_size(const ir::Type& type) const {
  const ImportLimits& limits = options_->limits;
  if (type.rank() > limits.rank) {
    fail_limit(fmt::format("a tensor has {} axes, more than the limit rank = {}", type.rank(), limits.rank));
  }
  if (!is_short_product(type.shape)) fail_unsupported("a tensor whose extents are formulas of very many terms");
  if (std::optional<int64_t> bytes = known_bytes(type); bytes && *bytes > limits.tensor_bytes) {
    fail_limit(
        fmt::format("a tensor {} is larger than the limit tensor_bytes = {}", to_string(type), limits.tensor_bytes));
  }
}

Val Builder::emit(ir::Op op, const std::vector<Val>& inputs, ir::Attrs attrs) {
  if (!ranges_.empty()) {
    const ir::Attrs given = attrs;
    for (const auto& [name, value] : given.items())
      if (const auto* dims = std::get_if<Shape>(&value)) attrs.set(name, assumed(*dims));
  }
  ir::Type type = checked_type(op, inputs, attrs);
  if (std::optional<Val> folded = fold_data(op, inputs, attrs, type)) return *folded;
  if (std::optional<Val> folded = fold_dims(op, inputs, attrs, type)) return *folded;
  std::vector<ir::ValueId> ids;
  for (Val v : inputs) ids.push_back(in_graph(v));
  ir::ValueId value = add_node(op, std::move(ids), std::move(attrs), op_);
  return push({.type = std::move(type), .value = value, .data = {}, .dims = {}});
}

std::optional<Val> Builder::fold_data(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs,
                                      const ir::Type& type) {
  std::vector<const Tensor*> tensors;
  for (Val v : inputs) {
    if (!at(v).data) return std::nullopt;
    tensors.push_back(&*at(v).data);
  }
  if (!is_worth_folding(op, tensors, attrs, type)) return std::nullopt;
  const ImportLimits& limits = options_->limits;
  int64_t bytes = known_bytes(type).value_or(0);
  // Beyond a limit the node stays in the graph. The result is the same; only time is lost.
  if (bytes > limits.folded_bytes || bytes > limits.folded_total_bytes - folded_bytes_) return std::nullopt;
  folded_bytes_ += bytes;
  for (Val v : inputs) at(v).is_used = true;
  return constant(evaluate(op, tensors, attrs));
}

std::optional<Val> Builder::fold_dims(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs,
                                      const ir::Type& type) {
  if (inputs.empty() || !holds_integers(type.dtype) || !is_const(type.shape)) return std::nullopt;
  if (known_bytes(type).value_or(0) > kMaxShapeElements * static_cast<int64_t>(sizeof(int64_t))) return std::nullopt;
  std::vector<KnownIntegers> known;
  bool any_symbolic = false;
  for (Val v : inputs) {
    any_symbolic |= at(v).dims.has_value();
    std::optional<std::vector<Dim>> elements = known_integers(v);
    if (!elements) return std::nullopt;
    known.push_back({extents(at(v).type), std::move(*elements)});
  }
  if (!any_symbolic) return std::nullopt;
  std::optional<std::vector<Dim>> result = evaluate_symbolic(op, known, attrs, type, decider());
  if (!result) return std::nullopt;
  return integers(type.dtype, extents(type), std::move(*result));
}

ir::ValueId Builder::add_node(ir::Op op, std::vector<ir::ValueId> inputs, ir::Attrs attrs, uint32_t owner) {
  ir::ValueId value = ir::add_node(graph_, op, std::move(inputs), std::move(attrs), origin_);
  owners_.resize(graph_.nodes.size(), 0);
  owners_.back() = owner;
  return value;
}

// Emits an integer tensor over symbols as nodes: one `dim` per element, concatenated.
ir::ValueId Builder::spell_out(const Operand& operand) {
  std::vector<ir::ValueId> parts;
  bool is_scalar = operand.type.shape.empty();
  DType dtype = operand.type.dtype == DType::bool_ ? DType::u8 : operand.type.dtype;
  for (const Dim& d : *operand.dims) {
    ir::Attrs attrs{{"value", Shape{d}}, {"dtype", dtype}};
    ir::ValueId part = add_node(ir::TensorOp::dim, {}, std::move(attrs), 0);
    if (!is_scalar) part = add_node(ir::TensorOp::reshape, {part}, {{"shape", Shape{1}}}, 0);
    parts.push_back(part);
  }
  ir::ValueId all = parts[0];
  if (parts.size() > 1) all = add_node(ir::TensorOp::concat, parts, {{"axis", int64_t{0}}}, 0);
  if (graph_.type(all).shape != operand.type.shape) {
    all = add_node(ir::TensorOp::reshape, {all}, {{"shape", operand.type.shape}}, 0);
  }
  if (dtype != operand.type.dtype) all = add_node(ir::ScalarOp::cast, {all}, cast_attrs(operand.type.dtype), 0);
  return all;
}

ir::ValueId Builder::in_graph(Val v) {
  Operand& operand = at(v);
  if (operand.value.valid()) return operand.value;
  if (operand.dims) {
    operand.value = spell_out(operand);
  } else {
    operand.value = ir::add_constant(graph_, *operand.data, origin_);
    owners_.resize(graph_.nodes.size(), 0);
  }
  return operand.value;
}

void Builder::begin_op(std::string origin) {
  ++op_;
  origin_ = std::move(origin);
}

// Counts the ops of the file that have a live node which depends on an input or on a symbolic extent.
int64_t Builder::count_ops() const {
  std::vector<bool> varies(graph_.values.size(), true), counted(op_ + 1, false);
  int64_t count = 0;
  for (ir::NodeId id : graph_.order) {
    const ir::Node& node = graph_.nodes[id];
    bool any = !is_const(graph_.type(node.output).shape) || node.op == ir::Op(ir::TensorOp::dim);
    for (ir::ValueId v : node.inputs) any |= varies[v.index];
    varies[node.output.index] = any;
    uint32_t owner = owners_[id.index];
    if (!any || owner == 0 || counted[owner]) continue;
    counted[owner] = true;
    ++count;
  }
  return count;
}

ir::Graph Builder::finish(const std::vector<std::pair<std::string, Val>>& outputs) {
  for (const auto& [name, val] : outputs) ir::add_output(graph_, in_graph(val), name);
  FUSEC_CHECK(ir::rebuild_order(graph_)) << "an imported graph has a cycle";
  graph_.imported_ops = count_ops();
  for (const Operand& operand : operands_) {
    if (!operand.name.empty() && !operand.is_used && operand.value.valid() && graph_.is_constant(operand.value))
      graph_.weight_names.emplace(graph_.values[operand.value].producer, operand.name);
  }
  const std::set<std::string> known(graph_.symbols.begin(), graph_.symbols.end());
  for (const auto& limit : limits_) {
    std::set<std::string> used;
    limit.first.collect_symbols(used);
    if (std::includes(known.begin(), known.end(), used.begin(), used.end())) graph_.limits.insert(limit);
  }
  return ir::compact(graph_);
}

}  // namespace fusec::importer
