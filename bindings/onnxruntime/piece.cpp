// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/piece.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "bindings/onnxruntime/json.h"
#include "bindings/onnxruntime/onnx_model.h"

namespace fusec::ort {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::optional<fusec_dtype> dtype_of(int element) {
  switch (element) {
    case 1:
      return fusec_dtype{FUSEC_DTYPE_FLOAT, 32, 1};
    case 2:
      return fusec_dtype{FUSEC_DTYPE_UINT, 8, 1};
    case 3:
      return fusec_dtype{FUSEC_DTYPE_INT, 8, 1};
    case 4:
      return fusec_dtype{FUSEC_DTYPE_UINT, 16, 1};
    case 5:
      return fusec_dtype{FUSEC_DTYPE_INT, 16, 1};
    case 6:
      return fusec_dtype{FUSEC_DTYPE_INT, 32, 1};
    case 7:
      return fusec_dtype{FUSEC_DTYPE_INT, 64, 1};
    case 9:
      return fusec_dtype{FUSEC_DTYPE_BOOL, 8, 1};
    case 10:
      return fusec_dtype{FUSEC_DTYPE_FLOAT, 16, 1};
    case 11:
      return fusec_dtype{FUSEC_DTYPE_FLOAT, 64, 1};
    case 12:
      return fusec_dtype{FUSEC_DTYPE_UINT, 32, 1};
    case 13:
      return fusec_dtype{FUSEC_DTYPE_UINT, 64, 1};
    case 16:
      return fusec_dtype{FUSEC_DTYPE_BFLOAT, 16, 1};
    default:
      return std::nullopt;
  }
}

OptionsHandle options_of(const Graph& graph, const OnnxModel& model, const Settings& settings) {
  std::vector<std::string> symbols;
  for (const int input : model.inputs) {
    const std::vector<std::string>& names = graph.values[at(input)].type.symbols;
    symbols.insert(symbols.end(), names.begin(), names.end());
  }
  return settings.options_for(symbols);
}

// The weights stay in ONNX Runtime's memory, which outlives the engine.
ModelHandle load(const Graph& graph, const OnnxModel& onnx, const fusec_options* options) {
  std::vector<const char*> names;
  std::vector<fusec_managed_tensor> tensors;
  std::vector<fusec_managed_tensor*> pointers;
  std::vector<std::vector<int64_t>> shapes;
  tensors.reserve(onnx.constants.size());
  shapes.reserve(onnx.constants.size());
  for (const int index : onnx.constants) {
    const Value& value = graph.values[at(index)];
    names.push_back(value.name.c_str());
    fusec_managed_tensor& managed = tensors.emplace_back();
    managed.version = {1, 0};
    fusec_tensor& tensor = managed.tensor;
    tensor.data = const_cast<std::byte*>(value.data.data());
    tensor.device = {FUSEC_DEVICE_CPU, 0};
    tensor.ndim = static_cast<int32_t>(value.type.dims.size());
    tensor.dtype = *dtype_of(value.type.element);
    tensor.shape = shapes.emplace_back(value.type.dims).data();
    pointers.push_back(&managed);
  }
  fusec_model* model = nullptr;
  check(fusec_model_load_onnx_managed(onnx.bytes.data(), onnx.bytes.size(), names.data(), pointers.data(), names.size(),
                                      options, &model));
  return ModelHandle(model);
}

}  // namespace

bool has_dtype(int element) { return dtype_of(element).has_value(); }

Piece compile_piece(const Graph& graph, std::vector<int> nodes, const Settings& settings) {
  const OnnxModel onnx = write_model(graph, nodes);
  const OptionsHandle options = options_of(graph, onnx, settings);
  Piece piece;
  piece.nodes = std::move(nodes);
  piece.model = load(graph, onnx, options.get());
  fusec_engine* engine = nullptr;
  check(fusec_engine_compile(piece.model.get(), options.get(), &engine));
  piece.compiled = std::make_unique<Compiled>(EngineHandle(engine), settings.device == "cpu");
  if (!settings.writes_context) piece.model.reset();
  for (const int index : onnx.constants) {
    const Value& value = graph.values[at(index)];
    piece.weights.push_back({value.name, value.data.data()});
  }
  return piece;
}

std::vector<std::string> unsupported_reasons(const Graph& graph, const std::vector<int>& nodes,
                                             const Settings& settings) {
  const OnnxModel onnx = write_model(graph, nodes);
  const OptionsHandle options = options_of(graph, onnx, settings);
  char* text = nullptr;
  check(fusec_onnx_support_json(onnx.bytes.data(), onnx.bytes.size(), options.get(), &text));
  const TextHandle owner(text);
  std::vector<std::string> reasons;
  for (JsonObject& node : read_json_list(text)) reasons.push_back(node["supported"] == "true" ? "" : node["reason"]);
  if (reasons.size() != nodes.size()) {
    throw Failure(ErrorCode::ep_fail, "fusec: the provider and libfusec-c are of different versions");
  }
  return reasons;
}

std::string fingerprint(const Graph& graph, const std::vector<int>& nodes) {
  std::set<std::string> lines;
  for (const int index : nodes) {
    const Node& node = graph.nodes[at(index)];
    std::string line = node.first_output + ' ' + node.domain + ' ' + node.op;
    for (const int input : node.inputs) {
      line += ' ';
      if (input == kAbsent) continue;
      const Value& value = graph.values[at(input)];
      line += value.name;
      if (!value.is_constant) continue;
      const std::string_view contents(reinterpret_cast<const char*>(value.data.data()), value.data.size());
      line += '#' + (goes_beside_model(value) ? std::to_string(reinterpret_cast<std::uintptr_t>(contents.data()))
                                              : std::to_string(std::hash<std::string_view>()(contents)));
    }
    lines.insert(std::move(line));
  }
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  return all;
}

}  // namespace fusec::ort
