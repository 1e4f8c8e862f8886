// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/graph.h"

#include <unordered_map>

#include "bindings/onnxruntime/attributes.h"

namespace fusec::ort {
namespace {

template <class Element, class Count, class List>
std::vector<Element> list_of(const Api& api, const OrtNode* node) {
  std::vector<Element> list(api.get<Count, Size>(node));
  if (!list.empty()) api.call<List>(node, list.data(), list.size());
  return list;
}

std::vector<const OrtValueInfo*> inputs_of(const Api& api, const OrtNode* node) {
  return list_of<const OrtValueInfo*, api::NodeGetNumInputs, api::NodeGetInputs>(api, node);
}
std::vector<const OrtValueInfo*> outputs_of(const Api& api, const OrtNode* node) {
  return list_of<const OrtValueInfo*, api::NodeGetNumOutputs, api::NodeGetOutputs>(api, node);
}

std::vector<std::string> names_of(const Api& api, const std::vector<const OrtValueInfo*>& infos) {
  std::vector<std::string> names;
  for (const OrtValueInfo* info : infos) {
    names.emplace_back(info == nullptr ? "" : api.get<api::GetValueInfoName, const char*>(info));
  }
  return names;
}

TensorType read_type(const Api& api, const OrtValueInfo* info) {
  TensorType type;
  const auto* const of_value = api.get<api::GetValueInfoTypeInfo, const OrtTypeInfo*>(info);
  if (of_value == nullptr || api.get<api::GetOnnxTypeFromTypeInfo, int>(of_value) != kOnnxTypeTensor) return type;
  const auto* const tensor = api.get<api::CastTypeInfoToTensorInfo, const OrtTensorTypeAndShapeInfo*>(of_value);
  if (tensor == nullptr) return type;
  type.element = api.get<api::GetTensorElementType, int>(tensor);
  type.dims.resize(api.get<api::GetDimensionsCount, Size>(tensor));
  // Releases before 1.24 do not tell a scalar from a tensor of unknown rank.
  type.ranked = !type.dims.empty() || (api.tells_unknown_ranks() && api.plain<api::TensorTypeAndShapeHasShape>(tensor));
  if (type.dims.empty()) return type;
  api.call<api::GetDimensions>(tensor, type.dims.data(), type.dims.size());
  std::vector<const char*> names(type.dims.size(), nullptr);
  api.call<api::GetSymbolicDimensions>(tensor, names.data(), names.size());
  for (const char* name : names) type.symbols.emplace_back(name == nullptr ? "" : name);
  return type;
}

void read_contents(const Api& api, const OrtValueInfo* info, Value& value) {
  if (!api.get<api::ValueInfoIsConstantInitializer, bool>(info)) return;
  const auto* const contents = api.get<api::ValueInfoGetInitializerValue, const OrtValue*>(info);
  const std::size_t width = element_bytes(value.type.element);
  if (contents == nullptr || width == 0) return;
  value.type.dims = dims_of(api, contents);
  value.type.symbols.assign(value.type.dims.size(), "");
  value.type.ranked = true;
  std::size_t count = 1;
  for (const int64_t dim : value.type.dims) count *= static_cast<std::size_t>(dim);
  const auto* const data = static_cast<const std::byte*>(api.get<api::GetTensorData, const void*>(contents));
  value.data = {data, count * width};
  value.is_constant = true;
}

class Reader {
 public:
  Reader(const Api& api, Graph& graph) : api_(api), graph_(graph) {}

  void read_node(const OrtNode* handle) {
    Node node;
    node.handle = handle;
    node.name = api_.get<api::NodeGetName, const char*>(handle);
    node.op = api_.get<api::NodeGetOperatorType, const char*>(handle);
    node.domain = api_.get<api::NodeGetDomain, const char*>(handle);
    const char* const provider = api_.get<api::NodeGetEpName, const char*>(handle);
    node.taken = provider != nullptr && *provider != '\0';
    for (const OrtValueInfo* info : inputs_of(api_, handle)) node.inputs.push_back(find(info));
    for (const OrtValueInfo* info : outputs_of(api_, handle)) node.outputs.push_back(find(info));
    const auto outer =
        list_of<const OrtValueInfo*, api::NodeGetNumImplicitInputs, api::NodeGetImplicitInputs>(api_, handle);
    for (const OrtValueInfo* info : outer) node.outer_inputs.push_back(find(info));
    for (const int output : node.outputs) {
      if (output != kAbsent && node.first_output.empty()) node.first_output = graph_.values[at(output)].name;
    }
    if (!node.taken) read_more(node);
    graph_.nodes.push_back(std::move(node));
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  int find(const OrtValueInfo* info) {
    if (info == nullptr) return kAbsent;
    std::string name = api_.get<api::GetValueInfoName, const char*>(info);
    if (name.empty()) return kAbsent;
    const auto [entry, is_new] = indices_.emplace(name, static_cast<int>(graph_.values.size()));
    if (!is_new) return entry->second;
    Value& value = graph_.values.emplace_back();
    value.name = std::move(name);
    value.type = read_type(api_, info);
    value.is_graph_output = api_.get<api::ValueInfoIsGraphOutput, bool>(info);
    read_contents(api_, info, value);
    return entry->second;
  }

  void read_more(Node& node) {
    if (api_.get<api::NodeGetNumSubgraphs, Size>(node.handle) > 0) {
      node.refused = "it holds graphs of its own";
      return;
    }
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const int value : *list) {
        if (value == kAbsent || graph_.values[at(value)].type.element != 0) continue;
        node.refused = "the type of '" + graph_.values[at(value)].name + "' is no tensor, or not known";
        return;
      }
    }
    const WrittenAttributes result = write_attributes(api_, node.handle);
    node.attributes = result.fields;
    node.refused = result.refused;
  }

  const Api& api_;
  Graph& graph_;
  std::unordered_map<std::string, int> indices_;
};

}  // namespace

std::size_t element_bytes(int element) {
  // By ONNX's numbers of element types: those of whole bytes. 8 is a string.
  static constexpr std::size_t kBytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
  return element >= 0 && static_cast<std::size_t>(element) < std::size(kBytes) ? kBytes[element] : 0;
}

std::vector<int64_t> dims_of(const Api& api, const OrtValue* value) {
  auto* const info = api.get<api::GetTensorTypeAndShape, OrtTensorTypeAndShapeInfo*>(value);
  std::vector<int64_t> dims(api.get<api::GetDimensionsCount, Size>(info));
  if (!dims.empty()) api.call<api::GetDimensions>(info, dims.data(), dims.size());
  api.plain<api::ReleaseTensorTypeAndShapeInfo>(info);
  return dims;
}

Graph read_graph(const Api& api, const OrtGraph* handle) {
  Graph graph;
  graph.ir_version = api.get<api::GraphGetOnnxIrVersion, int64_t>(handle);
  const char* const path = api.get<api::GraphGetModelPath, const char*>(handle);
  graph.model_path = path == nullptr ? "" : path;
  // 1.23 does not know the parent yet when it asks for the branches of an If, which have no inputs.
  graph.is_nested = api.get<api::GraphGetParentNode, const OrtNode*>(handle) != nullptr ||
                    (!api.names_nodes_inside() && api.get<api::GraphGetNumInputs, Size>(handle) == 0);

  std::vector<const char*> domains(api.get<api::GraphGetNumOperatorSets, Size>(handle));
  std::vector<int64_t> versions(domains.size());
  if (!domains.empty()) api.call<api::GraphGetOperatorSets>(handle, domains.data(), versions.data(), domains.size());
  for (std::size_t i = 0; i < domains.size(); ++i) graph.opsets[domains[i]] = versions[i];

  std::vector<const OrtNode*> nodes(api.get<api::GraphGetNumNodes, Size>(handle));
  if (!nodes.empty()) api.call<api::GraphGetNodes>(handle, nodes.data(), nodes.size());
  Reader reader(api, graph);
  for (const OrtNode* node : nodes) reader.read_node(node);
  return graph;
}

std::vector<std::string> input_names(const Api& api, const OrtNode* node) {
  return names_of(api, inputs_of(api, node));
}
std::vector<std::string> output_names(const Api& api, const OrtNode* node) {
  return names_of(api, outputs_of(api, node));
}

}  // namespace fusec::ort
