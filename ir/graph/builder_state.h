// SPDX-License-Identifier: Apache-2.0
// What a GraphBuilder holds, and its steps.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusec/graph_builder.h"
#include "ir/graph/graph.h"

namespace fusec {

// Builds the graph. A failing step records the reason and returns an invalid Var.
struct BuilderState {
  ir::Graph graph;
  std::vector<Status> errors;
  std::set<ir::ValueId> held;  // that gradients take for constants
  bool exhausted = false;      // there was no memory to record an error

  void record(Status error) noexcept {
    try {
      errors.push_back(std::move(error));
    } catch (...) {
      exhausted = true;
    }
  }

  Var fail(std::string message) {
    record(Status(StatusCode::invalid_argument, std::move(message)));
    return Var();
  }
  Var var(ir::ValueId v) { return Var(this, v.index); }
  static ir::ValueId id(Var v) { return ir::ValueId{v.id_}; }
  static BuilderState* of(Var v) { return v.builder_; }

  // Whether all are valid and belong to this builder. An invalid Var was reported where it arose.
  bool usable(const std::vector<Var>& vars, std::string_view op) {
    for (Var v : vars) {
      if (v.builder_ == nullptr) {
        if (errors.empty()) fail(std::string(op) + ": an operand is an empty Var");
        return false;
      }
      if (v.builder_ != this) {
        fail(std::string(op) + ": an operand belongs to another GraphBuilder");
        return false;
      }
    }
    return true;
  }

  Var node(ir::Op op, const std::vector<Var>& operands, ir::Attrs attrs = {}) {
    if (!usable(operands, op.name())) return Var();
    std::vector<ir::ValueId> inputs;
    std::vector<ir::Type> types;
    for (Var v : operands) {
      inputs.push_back(id(v));
      types.push_back(graph.type(id(v)));
    }
    Result<ir::Type> type = ir::infer_type(op, types, attrs);
    if (!type.ok()) return fail(type.status().message());
    return var(ir::add_node(graph, op, std::move(inputs), std::move(attrs)));
  }

  Var scalar(ir::ScalarOp op, const std::vector<Operand>& operands, ir::Attrs attrs = {}) {
    // Numbers take the dtype of the first Var; the condition of `where` does not count.
    const std::size_t first = ir::info(op).typing == ir::Typing::select ? 1 : 0;
    std::optional<DType> dtype;
    for (std::size_t i = first; i < operands.size() && !dtype; ++i) {
      if (!operands[i].is_number && operands[i].var.valid()) dtype = operands[i].var.dtype();
    }
    std::vector<Var> vars;
    for (const Operand& operand : operands) {
      if (operand.is_number && !dtype) {
        return fail(std::string(ir::info(op).name) + ": a number needs a Var beside it to take its type from");
      }
      vars.push_back(operand.is_number ? var(ir::add_scalar_constant(graph, *dtype, operand.number)) : operand.var);
    }
    return node(op, vars, std::move(attrs));
  }
};

}  // namespace fusec
