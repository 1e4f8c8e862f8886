// SPDX-License-Identifier: Apache-2.0
// Evaluates graphs node by node: binds symbols from the inputs, evaluates each node and checks the extents of its
// result. Calls the eval_<op> functions through the op table.

#include "ir/eval/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/eval/op_call.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace {

Status invalid(std::string message) { return Status(StatusCode::invalid_argument, std::move(message)); }

Result<Extents> eval_extents(const Shape& shape, const SymbolBindings& symbols) {
  Extents extents;
  for (const Dim& d : shape) {
    const auto value = d.eval(symbols);
    if (!value) return invalid(fmt::format("{} has no value: a symbol in it is not bound by the inputs", d.str()));
    extents.push_back(*value);
  }
  return extents;
}

// The attributes with every dimension replaced by its value.
Result<Attrs> eval_attrs(const Attrs& attrs, const SymbolBindings& symbols) {
  Attrs out;
  for (const auto& [name, value] : attrs.items()) {
    const Shape* dims = std::get_if<Shape>(&value);
    if (dims == nullptr) {
      out.set(name, value);
      continue;
    }
    FUSEC_ASSIGN(const Extents extents, eval_extents(*dims, symbols));
    out.set(name, to_shape(extents));
  }
  return out;
}

Result<Tensor> dispatch(const OpCall& call) {
  if (call.node.op.is_scalar()) return eval_scalar_node(call);
  using Evaluator = Result<Tensor> (*)(const OpCall&);
  static constexpr Evaluator kEvaluators[] = {
#define TENSOR_OP(name, ...) eval_##name,
#include "ir/ops/tensor_ops.def"
  };
  return kEvaluators[static_cast<std::size_t>(call.node.op.tensor())](call);
}

// The declared dtype of each operand, with its actual extents. infer_type then checks these operands.
Result<Type> concrete_type(const Graph& graph, const Node& node, const OpCall& call) {
  if (call.constant != nullptr) return Type{call.constant->dtype(), to_shape(call.constant->shape())};
  std::vector<Type> types;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    types.push_back({graph.type(node.inputs[i]).dtype, to_shape(call.operands[i].shape())});
  }
  return infer_type(node.op, types, call.attrs);
}

struct Binding {
  std::string input;
  std::size_t axis;
  int64_t value;
};

// Solves `d` = value for its only unbound symbol, if d is c * symbol + known.
std::optional<std::pair<std::string, int64_t>> solve(const Dim& d, int64_t value, const SymbolBindings& bound) {
  std::set<std::string> symbols;
  d.collect_symbols(symbols);
  std::erase_if(symbols, [&](const std::string& s) { return bound.contains(s); });
  if (symbols.size() != 1) return std::nullopt;
  const std::string& name = *symbols.begin();
  SymbolBindings at = bound;
  const auto sample = [&](int64_t x) {
    at[name] = x;
    return d.eval(at);
  };
  // Takes the line through the values at 0 and 1; bind() checks afterwards that d is linear. Symbols are extents, so x
  // >= 0.
  const auto zero = sample(0), one = sample(1);
  if (!zero || !one || *one == *zero) return std::nullopt;
  const bool falls = *one < *zero;
  int64_t slope = 0, rise = 0;
  if (__builtin_sub_overflow(falls ? *zero : *one, falls ? *one : *zero, &slope)) return std::nullopt;
  if (__builtin_sub_overflow(falls ? *zero : value, falls ? value : *zero, &rise)) return std::nullopt;
  if (rise < 0 || rise % slope != 0) return std::nullopt;
  return std::pair(name, rise / slope);
}

Status check_input(const Graph& graph, std::size_t i, const Tensor& tensor) {
  const Value& value = graph.values[graph.inputs[i]];
  if (tensor.dtype() != value.type.dtype) {
    return invalid(fmt::format("input '{}' is {}, expected {}", value.name, to_string(tensor.dtype()),
                               to_string(value.type.dtype)));
  }
  if (tensor.rank() != value.type.rank()) {
    return invalid(
        fmt::format("input '{}' has rank {}, expected {}", value.name, tensor.rank(), to_string(value.type)));
  }
  return {};
}

class SymbolBinder {
 public:
  SymbolBinder(const Graph& graph, const std::vector<Tensor>& inputs) : graph_(graph), inputs_(inputs) {}

  Result<SymbolBindings> bind() {
    for_each_axis([&](const Dim& d, const Binding& at) {
      if (const auto name = d.as_symbol()) add(*name, at);
    });
    std::size_t known = 0;
    do {
      known = values_.size();
      for_each_axis([&](const Dim& d, const Binding& at) {
        if (const auto solved = solve(d, at.value, values_)) add(solved->first, {at.input, at.axis, solved->second});
      });
    } while (values_.size() > known);
    Status status;
    for_each_axis([&](const Dim& d, const Binding& at) {
      if (status.ok()) status = check(d, at);
    });
    if (!status.ok()) return status;
    return values_;
  }

 private:
  template <class F>
  void for_each_axis(const F& f) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Value& value = graph_.values[graph_.inputs[i]];
      for (std::size_t axis = 0; axis < value.type.shape.size(); ++axis) {
        f(value.type.shape[axis], Binding{value.name, axis, inputs_[i].shape()[axis]});
      }
    }
  }

  void add(const std::string& name, const Binding& at) {
    if (values_.emplace(name, at.value).second) source_.emplace(name, at);
  }

  Status check(const Dim& d, const Binding& at) const {
    const auto expected = d.eval(values_);
    if (expected == at.value) return {};
    std::string message = fmt::format("input '{}' axis {} is {}, expected ", at.input, at.axis, at.value);
    if (d.is_const()) return invalid(message + d.str());
    if (!expected) return invalid(message + fmt::format("{}, whose symbols no input determines", d.str()));
    message += fmt::format("{} = {}", d.str(), *expected);
    std::set<std::string> symbols;
    d.collect_symbols(symbols);
    for (const std::string& s : symbols) {
      const Binding& from = source_.at(s);
      message += fmt::format(" ({} is {} by input '{}' axis {})", s, from.value, from.input, from.axis);
    }
    return invalid(std::move(message));
  }

  const Graph& graph_;
  const std::vector<Tensor>& inputs_;
  SymbolBindings values_;
  std::map<std::string, Binding> source_;
};

// The position in `order` after which a value has no more users; outputs are never dropped.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    for (const ValueId v : graph.nodes[graph.order[i]].inputs) last[v.index] = i;
  }
  for (const ValueId v : graph.outputs) last[v.index] = graph.order.size();
  return last;
}

// A result dimension that is just an unbound symbol takes the actual extent; any other must agree with it.
Status match_extents(const Type& declared, const Tensor& value, SymbolBindings& symbols) {
  for (std::size_t i = 0; i < declared.shape.size(); ++i) {
    const Dim& d = declared.shape[i];
    const int64_t found = value.shape()[i];
    if (const auto name = d.as_symbol()) symbols.emplace(*name, found);
    const auto expected = d.eval(symbols);
    if (expected && *expected != found) {
      return invalid(fmt::format("axis {} of the result is {}, expected {} = {}", i, found, d.str(), *expected));
    }
  }
  return {};
}

Result<std::vector<Tensor>> run(const Graph& graph, const std::vector<Tensor>& inputs, EvalOptions options) {
  FUSEC_ASSIGN(SymbolBindings bound, bind_symbols(graph, inputs));
  options.symbols.merge(bound);
  IdVector<ValueId, std::optional<Tensor>> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = inputs[i].dtype();
    FUSEC_ASSIGN(const Tensor input, contiguous(inputs[i]));
    FUSEC_ASSIGN(values[graph.inputs[i]], round_to(input, options.wide && is_float(dtype) ? DType::f64 : dtype));
  }
  const std::vector<std::size_t> last = last_uses(graph);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const Node& node = graph.nodes[graph.order[i]];
    std::vector<Tensor> operands;
    for (const ValueId v : node.inputs) operands.push_back(*values[v]);
    FUSEC_ASSIGN(Tensor result, evaluate_node(graph, node, operands, options));
    const Status fits = match_extents(graph.type(node.output), result, options.symbols);
    if (!fits.ok()) return node_error(node, fits.message());
    if (options.on_value) options.on_value(node.output, result);
    values[node.output] = std::move(result);
    for (const ValueId v : node.inputs) {
      if (last[v.index] == i) values[v].reset();
    }
  }
  std::vector<Tensor> outputs;
  for (const ValueId v : graph.outputs) {
    FUSEC_ASSIGN(Tensor output, round_to(*values[v], graph.type(v).dtype));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace

Status node_error(const Node& node, std::string message) {
  const std::string origin = node.origin.empty() ? "" : fmt::format(" '{}'", node.origin);
  return Status(StatusCode::invalid_argument, std::move(message))
      .with_note(fmt::format("while evaluating node{} ({})", origin, node.op.name()));
}

Result<SymbolBindings> bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return invalid(fmt::format("{} inputs are given, expected {}", inputs.size(), graph.inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) FUSEC_TRY(check_input(graph, i, inputs[i]));
  return SymbolBinder(graph, inputs).bind();
}

Result<Tensor> evaluate_node(const Graph& graph, const Node& node, const std::vector<Tensor>& operands,
                             const EvalOptions& options) {
  const DType dtype = graph.type(node.output).dtype;
  const DType storage = options.wide && is_float(dtype) ? DType::f64 : dtype;
  OpCall call{node, {}, {}, {}, dtype, storage, {}, graph.constant(node.output), options};
  auto attrs = eval_attrs(node.attrs, options.symbols);
  if (!attrs.ok()) return node_error(node, attrs.status().message());
  call.attrs = std::move(*attrs);
  for (const Tensor& operand : operands) {
    FUSEC_ASSIGN(Tensor row_major, contiguous(operand));
    call.operand_dtypes.push_back(graph.type(node.inputs[call.operands.size()]).dtype);
    call.operands.push_back(std::move(row_major));
  }
  auto type = concrete_type(graph, node, call);
  if (!type.ok()) return node_error(node, type.status().message());
  call.shape = *eval_extents(type->shape, {});
  return dispatch(call);
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const EvalOptions& options) {
  return guarded([&] { return run(graph, inputs, options); });
}

}  // namespace fusec::ir
