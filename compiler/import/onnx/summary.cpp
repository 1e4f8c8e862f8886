// SPDX-License-Identifier: Apache-2.0
// Collects the ops, element types and inputs of an ONNX model without importing it. It runs outside the line.

#include <fmt/format.h>

#include <set>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/proto.h"

namespace fusec::importer {
namespace {

using proto::AttributeProto;
using proto::TensorProto;

std::optional<DType> find_dtype(int type) {
  try {
    return to_dtype(type);
  } catch (const ImportError&) {
    return std::nullopt;
  }
}

struct Collector {
  std::set<std::string> ops, functions, foreign;
  int64_t nodes = 0;

  void element_type(int type) {
    if (type == TensorProto::UNDEFINED || find_dtype(type)) return;
    foreign.insert(proto::TensorProto_DataType_IsValid(type)
                       ? proto::TensorProto_DataType_Name(static_cast<proto::TensorProto_DataType>(type))
                       : fmt::format("element type {}", type));
  }

  void value(const proto::ValueInfoProto& info) {
    const proto::TypeProto& type = info.type();
    if (type.has_tensor_type()) {
      element_type(type.tensor_type().elem_type());
    } else if (type.value_case() != proto::TypeProto::VALUE_NOT_SET) {
      foreign.insert(type.has_sequence_type()        ? "sequence"
                     : type.has_optional_type()      ? "optional"
                     : type.has_sparse_tensor_type() ? "sparse tensor"
                                                     : "map");
    }
  }

  // The attributes `to`, `dtype` and `output_dtype` name element types.
  void attribute(const AttributeProto& a) {
    if (a.has_t()) element_type(a.t().data_type());
    if (a.has_sparse_tensor()) foreign.insert("sparse tensor");
    if (a.has_i() && (a.name() == "to" || a.name() == "dtype" || a.name() == "output_dtype")) {
      element_type(static_cast<int>(a.i()));
    }
    if (a.has_g()) graph(a.g());
    for (const proto::GraphProto& g : a.graphs()) graph(g);
  }

  void node(const proto::NodeProto& n) {
    ++nodes;
    const bool is_default = n.domain().empty() || n.domain() == "ai.onnx";
    const std::string name = is_default ? n.op_type() : n.domain() + "::" + n.op_type();
    if (functions.count(name) == 0) ops.insert(name);
    for (const AttributeProto& a : n.attribute()) attribute(a);
  }

  void graph(const proto::GraphProto& g) {
    for (const proto::NodeProto& n : g.node()) node(n);
    for (const auto* list : {&g.input(), &g.output(), &g.value_info()}) {
      for (const proto::ValueInfoProto& info : *list) value(info);
    }
    for (const TensorProto& t : g.initializer()) element_type(t.data_type());
    if (g.sparse_initializer_size() > 0) foreign.insert("sparse tensor");
  }
};

std::vector<ModelSummary::Input> collect_inputs(const proto::GraphProto& graph) {
  std::set<std::string> initializers;
  for (const TensorProto& t : graph.initializer()) initializers.insert(t.name());
  std::vector<ModelSummary::Input> inputs;
  for (const proto::ValueInfoProto& info : graph.input()) {
    if (initializers.count(info.name()) > 0) continue;
    const auto& type = info.type().tensor_type();
    const auto rank = type.has_shape() ? std::optional(type.shape().dim_size()) : std::nullopt;
    inputs.push_back({info.name(), find_dtype(type.elem_type()), rank});
  }
  return inputs;
}

}  // namespace

Result<ModelSummary> summarize(std::span<const uint8_t> bytes, const ImportLimits& limits) try {
  FUSEC_ASSIGN(const proto::ModelProto model, parse_model(bytes, limits));
  Collector c;
  for (const proto::FunctionProto& f : model.functions()) {
    const bool is_default = f.domain().empty() || f.domain() == "ai.onnx";
    c.functions.insert(is_default ? f.name() : f.domain() + "::" + f.name());
  }
  c.graph(model.graph());
  for (const proto::FunctionProto& f : model.functions()) {
    for (const proto::NodeProto& n : f.node()) c.node(n);
  }
  return ModelSummary{
      {c.ops.begin(), c.ops.end()}, c.nodes, {c.foreign.begin(), c.foreign.end()}, collect_inputs(model.graph())};
} catch (const ImportError& error) {
  return error.status;
}

}  // namespace fusec::importer
