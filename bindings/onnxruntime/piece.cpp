// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/piece.h"

#include <algorithm>
#include <functional>
#include <map>
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

// A weight as fusec takes it. fusec ends it when nothing that was made of the model is left.
struct WeightTensor : fusec_managed_tensor {
  WeightTensor(const Value& value, const Settings& settings) : fusec_managed_tensor(), dims(value.type.dims) {
    if (settings.gpu != nullptr) copy = settings.weights->copy_of(value.data);
    version = {1, 0};
    deleter = [](fusec_managed_tensor* self) { delete static_cast<WeightTensor*>(self); };
    const std::byte* const data = copy == nullptr ? value.data.data() : copy->data();
    tensor.data = const_cast<std::byte*>(data);
    tensor.device = {FUSEC_DEVICE_CPU, 0};
    tensor.ndim = static_cast<int32_t>(dims.size());
    tensor.dtype = *dtype_of(value.type.element);
    tensor.shape = dims.data();
  }
  std::vector<int64_t> dims;
  std::shared_ptr<const WeightCopies::Bytes>
      copy;  // null: it stays in ONNX Runtime's memory, which outlives the engine
};

ModelHandle load(const Graph& graph, const OnnxModel& onnx, const Settings& settings, const fusec_options* options) {
  std::vector<const char*> names;
  std::vector<std::unique_ptr<WeightTensor>> tensors;
  std::vector<fusec_managed_tensor*> pointers;
  for (const int index : onnx.constants) {
    const Value& value = graph.values[at(index)];
    names.push_back(value.name.c_str());
    pointers.push_back(tensors.emplace_back(std::make_unique<WeightTensor>(value, settings)).get());
  }
  fusec_model* model = nullptr;
  check(fusec_model_load_onnx_managed(onnx.bytes.data(), onnx.bytes.size(), names.data(), pointers.data(), names.size(),
                                      options, &model));
  for (std::unique_ptr<WeightTensor>& tensor : tensors) (void)tensor.release();  // the model owns them now
  return ModelHandle(model);
}

// The shapes of the model's inputs as fusec has them: numbers, symbols and expressions.
std::vector<std::vector<std::string>> input_shapes(const fusec_model* model) {
  char* text = nullptr;
  check(fusec_model_io_json(model, &text));
  const TextHandle owner(text);
  std::string_view io = text;
  constexpr std::string_view kInputs = "\"inputs\":";
  io.remove_prefix(std::min(io.find(kInputs), io.size() - kInputs.size()) + kInputs.size());
  std::vector<std::vector<std::string>> shapes;
  for (JsonObject& input : read_json_list(io)) shapes.push_back(read_json_values(input["shape"]));
  return shapes;
}

// Import takes extents to be equal where an op needs that. A name of an extent is a promise of the model that allows
// it. Of an extent without a name the model says nothing: it may be 1 in one run and be broadcast, and what is compiled
// for another one would refuse that run. So such an extent must still be a symbol of its own.
void check_unnamed_extents(const Graph& graph, const OnnxModel& onnx, const fusec_model* model) {
  const std::vector<std::vector<std::string>> shapes = input_shapes(model);
  std::map<std::string, int> uses;
  for (const std::vector<std::string>& shape : shapes) {
    for (const std::string& extent : shape) ++uses[extent];
  }
  for (std::size_t i = 0; i < std::min(shapes.size(), onnx.inputs.size()); ++i) {
    const Value& value = graph.values[at(onnx.inputs[i])];
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const std::string& extent = shapes[i][axis];
      const bool is_open = value.type.dims[axis] < 0 && value.type.symbols[axis].empty();
      const bool is_symbol = extent.find_first_of(" +-*(,") == std::string::npos &&
                             extent.find_first_not_of("0123456789") != std::string::npos;
      if (!is_open || (is_symbol && uses[extent] == 1)) continue;
      throw Failure(ErrorCode::ep_fail, "fusec: axis " + std::to_string(axis) + " of '" + value.name +
                                            "' would have to be " + extent + ", which the model does not say");
    }
  }
}

}  // namespace

bool has_dtype(int element) { return dtype_of(element).has_value(); }

Piece compile_piece(const Graph& graph, std::vector<int> nodes, const Settings& settings) {
  const OnnxModel onnx = write_model(graph, nodes);
  const OptionsHandle options = options_of(graph, onnx, settings);
  Piece piece;
  piece.nodes = std::move(nodes);
  piece.model = load(graph, onnx, settings, options.get());
  check_unnamed_extents(graph, onnx, piece.model.get());
  fusec_engine* engine = nullptr;
  check(fusec_engine_compile(piece.model.get(), options.get(), &engine));
  piece.compiled = std::make_unique<Compiled>(EngineHandle(engine), settings);
  if (!settings.writes_context) piece.model.reset();
  if (settings.gpu != nullptr) return piece;
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
