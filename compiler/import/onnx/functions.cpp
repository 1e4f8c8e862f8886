// SPDX-License-Identifier: Apache-2.0
// Looks up the functions of a model and the schemas and function bodies of ONNX in the import stage. Models with
// recursive functions are rejected, so that inlining terminates.

#include "compiler/import/onnx/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/proto.h"
#include "onnx/checker.h"

namespace fusec::importer {

namespace {

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// Calls visit(node) for the nodes of a list and of all graphs inside them. The check of the wire format bounds the
// depth.
template <class Visit>
void for_each_node(const auto& nodes, const Visit& visit) {
  for (const proto::NodeProto& node : nodes) {
    visit(node);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) for_each_node(attribute.g().node(), visit);
      for (const auto& graph : attribute.graphs()) for_each_node(graph.node(), visit);
    }
  }
}

// The onnx library keeps its schemas in one process-wide table, which the first lookup fills. If memory runs out
// halfway, onnx keeps the partial table, and the next attempt fails because schemas are registered twice. This function
// therefore fills the table itself, and first removes what a failed attempt left.
void build_schemas() {
  static std::atomic<bool> built{false};
  static std::mutex building;
  static bool failed = false;  // whether an earlier attempt failed
  if (built.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(building);
  if (built.load(std::memory_order_relaxed)) return;
  if (failed) {
    for (const char* domain : {"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"}) {
      proto::OpSchemaRegistry::OpSchemaDeregisterAll(domain);
    }
  }
  try {
    (void)proto::OpSchemaRegistry::Schema("Add", 1);
  } catch (...) {
    failed = true;
    throw std::bad_alloc();  // the only cause; onnx may report it as missing schemas
  }
  built.store(true, std::memory_order_release);
}

proto::TypeProto to_proto(const ir::Type& type) {
  proto::TypeProto out;
  auto* tensor = out.mutable_tensor_type();
  tensor->set_elem_type(from_dtype(type.dtype));
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : type.shape) {
    auto* dim = shape->add_dim();
    if (d.is_const()) {
      dim->set_dim_value(d.value());
    } else {
      dim->set_dim_param(d.str());
    }
  }
  return out;
}

}  // namespace

proto::NodeProto resolve_attributes(const proto::NodeProto& node, const AttributeMap& attributes) {
  proto::NodeProto out = node;
  out.clear_attribute();
  for (const auto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *out.add_attribute() = attribute;
      continue;
    }
    auto value = attributes.find(attribute.ref_attr_name());
    if (value == attributes.end()) continue;
    auto* copy = out.add_attribute();
    *copy = value->second;
    copy->set_name(attribute.name());
  }
  return out;
}

Functions::Functions(const proto::ModelProto& model) {
  for (const auto& function : model.functions()) {
    Key key{normal_domain(function.domain()), function.name(), function.overload()};
    if (!functions_.emplace(key, &function).second) {
      fail_invalid(fmt::format("two functions have the name '{}'", short_name(function.name())));
    }
  }
  check_cycles();
}

const proto::FunctionProto* Functions::find(const proto::NodeProto& node) const {
  auto it = functions_.find({normal_domain(node.domain()), node.op_type(), node.overload()});
  return it == functions_.end() ? nullptr : it->second;
}

void Functions::check_cycles() const {
  // Removes functions all of whose callees are removed. A function that remains is on a cycle or leads to one.
  std::map<const proto::FunctionProto*, std::set<const proto::FunctionProto*>> callees, callers;
  std::vector<const proto::FunctionProto*> done;
  for (const auto& [key, function] : functions_) {
    auto& called = callees[function];
    for_each_node(function->node(), [&](const proto::NodeProto& node) {
      if (const proto::FunctionProto* callee = find(node)) called.insert(callee);
    });
    for (const auto* callee : called) callers[callee].insert(function);
    if (called.empty()) done.push_back(function);
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    for (const auto* caller : callers[done[i]]) {
      callees[caller].erase(done[i]);
      if (callees[caller].empty()) done.push_back(caller);
    }
  }
  if (done.size() == functions_.size()) return;
  for (const auto& [key, function] : functions_) {
    if (callees[function].empty()) continue;
    fail_invalid(fmt::format("function '{}' calls itself, directly or through others", short_name(function->name())));
  }
}

const proto::OpSchema* checked_schema(const proto::NodeProto& node, const std::string& domain, int64_t opset) {
  build_schemas();
  const auto version = static_cast<int>(std::min<int64_t>(opset, INT32_MAX));
  const proto::OpSchema* schema = proto::OpSchemaRegistry::Schema(node.op_type(), version, normal_domain(domain));
  if (schema == nullptr) fail_unsupported("no rule for it");
  if (schema->deprecated() && !has_body(*schema) && node.op_type() != "GroupNormalization")
    fail_invalid("it is deprecated in this opset");
  try {
    schema->Verify(node);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view message = error.what();
    fail_invalid(std::string(message.substr(0, message.find("\n==> "))));
  }
  return schema;
}

bool has_body(const proto::OpSchema& schema) { return schema.HasFunction() || schema.HasContextDependentFunction(); }

SchemaFunction schema_function(const proto::OpSchema& schema, const proto::NodeProto& node, int64_t opset,
                               const std::vector<Val>& inputs, const std::vector<ir::Type>& types) {
  SchemaFunction result;
  for (const auto& [name, attribute] : schema.attributes()) {
    if (attribute.default_value.has_name()) result.defaults.emplace(name, attribute.default_value);
  }
  if (const proto::FunctionProto* function = schema.GetFunction(static_cast<int>(opset))) {
    result.function = *function;
    return result;
  }
  std::vector<proto::TypeProto> protos;
  for (std::size_t i = 0; i < types.size(); ++i) {
    protos.push_back(inputs[i].valid() ? to_proto(types[i]) : proto::TypeProto());
  }
  proto::FunctionBodyBuildContextImpl context(node, protos);
  if (!schema.BuildContextDependentFunction(context, result.function, static_cast<int>(opset))) {
    fail_unsupported("no rule for it");
  }
  return result;
}

}  // namespace fusec::importer
