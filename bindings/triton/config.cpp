// SPDX-License-Identifier: Apache-2.0
// Reads, completes and checks configurations of models.

#include "bindings/triton/config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace fusec::triton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBatch = 4;  // where neither the model nor the server has a bound: the server's own default

Error read_message(TRITONSERVER_Message* message, Json& out) {
  const char* text = nullptr;
  std::size_t size = 0;
  FUSEC_TRITON_TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  out = Json::parse(text, text + size, nullptr, false);
  if (!out.is_object()) return make_error(TRITONSERVER_ERROR_INTERNAL, "the configuration is no JSON object");
  return nullptr;
}

Error read_document(TRITONBACKEND_Model* model, Json& out) {
  TRITONSERVER_Message* message = nullptr;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
  Error error = read_message(message, out);
  FUSEC_TRITON_TRY(TRITONSERVER_MessageDelete(message));
  return error;
}

// Numbers of 64 bits may be written as text.
int64_t to_number(const Json& value) {
  if (!value.is_string()) return value.is_number() ? value.get<int64_t>() : 0;
  const std::string text = value.get<std::string>();
  int64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Json list_of(const Json& config, const char* name) {
  const auto it = config.find(name);
  return it != config.end() && it->is_array() ? *it : Json::array();
}

std::vector<std::string> devices_of(const Json& config) {
  const Json groups = list_of(config, "instance_group");
  const std::string kind = groups.empty() ? "" : groups[0].value("kind", "");
  if (kind == "KIND_CPU") return {"cpu"};
  if (kind != "KIND_GPU") return {"cpu", "cuda"};
  const Json gpus = list_of(groups[0], "gpus");
  return {"cuda:" + std::to_string(gpus.empty() ? 0 : to_number(gpus[0]))};
}

// A tensor without extents beside the batch has one of size 1 for Triton, which is taken off again.
Json describe(const TensorInfo& info, bool batched) {
  Json dims = Json::array();
  for (std::size_t i = batched ? 1 : 0; i < info.extents.size(); ++i) dims.push_back(extent_or_any(info.extents[i]));
  Json out = {{"name", info.name}, {"data_type", info.type_name}};
  if (!dims.empty()) {
    out["dims"] = dims;
  } else {
    out["dims"] = Json::array({1});
    out["reshape"] = {{"shape", Json::array()}};
  }
  return out;
}

Json describe(const std::vector<TensorInfo>& tensors, bool batched) {
  Json out = Json::array();
  for (const TensorInfo& info : tensors) out.push_back(describe(info, batched));
  return out;
}

// Of the command line: --backend-config=default-max-batch-size=N.
int64_t server_max_batch(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  TRITONSERVER_Message* message = nullptr;  // stays the server's
  Json config;
  if (take(TRITONBACKEND_ModelBackend(model, &backend)) || take(TRITONBACKEND_BackendConfig(backend, &message)) ||
      read_message(message, config))
    return kMaxBatch;
  const auto line = config.find("cmdline");
  if (line == config.end() || !line->contains("default-max-batch-size")) return kMaxBatch;
  return to_number((*line)["default-max-batch-size"]);
}

std::string text_of(const Json& dims) { return dims.dump(); }

// `kind` is "input" or "output".
Error check_tensor(const Json& item, const std::string& kind, const std::vector<TensorInfo>& tensors, bool batched) {
  const std::string name = item.value("name", "");
  const auto info = std::find_if(tensors.begin(), tensors.end(), [&](const TensorInfo& t) { return t.name == name; });
  if (info == tensors.end()) return refuse("config.pbtxt: the model has no " + kind + " '" + name + "'");
  const std::string type = item.value("data_type", "");
  if (type != info->type_name)
    return refuse("config.pbtxt: " + kind + " '" + name + "' is " + type + ", and the model's is " + info->type_name);
  const auto reshape = item.find("reshape");
  const Json dims = reshape != item.end() ? list_of(*reshape, "shape") : list_of(item, "dims");
  Json expected = Json::array();
  for (std::size_t i = batched ? 1 : 0; i < info->extents.size(); ++i)
    expected.push_back(extent_or_any(info->extents[i]));
  bool fits = dims.size() == expected.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    const int64_t given = to_number(dims[i]), own = expected[i].get<int64_t>();
    fits = given == own || own < 0;
  }
  if (fits) return nullptr;
  return refuse("config.pbtxt: " + kind + " '" + name + "' has dims " + text_of(dims) + ", and the model's are " +
                text_of(expected) + (batched ? " beside the batch" : ""));
}

}  // namespace

Error read_config(TRITONBACKEND_Model* model, Config& out) {
  Json config;
  FUSEC_TRITON_TRY(read_document(model, config));
  out.file = config.value("default_model_filename", "");
  out.devices = devices_of(config);
  out.max_batch = config.contains("max_batch_size") ? to_number(config["max_batch_size"]) : 0;
  const Json parameters = config.value("parameters", Json::object());
  for (const auto& [key, value] : parameters.items()) {
    if (key == "device")
      return refuse("parameter 'device': the kind of the instance_group says where a model runs, KIND_CPU or KIND_GPU");
    out.options.emplace_back(key, value.value("string_value", ""));
  }
  return nullptr;
}

Error complete_config(TRITONBACKEND_Model* model, const Interface& interface) {
  Json config;
  FUSEC_TRITON_TRY(read_document(model, config));
  const bool has_inputs = !list_of(config, "input").empty(), has_outputs = !list_of(config, "output").empty();
  int64_t max_batch = config.contains("max_batch_size") ? to_number(config["max_batch_size"]) : 0;
  const bool may_choose = !has_inputs && !has_outputs && max_batch == 0;
  if (has_inputs && has_outputs) return nullptr;
  if (may_choose && !interface.batch.empty()) {
    max_batch = interface.most.value_or(server_max_batch(model));
    config["max_batch_size"] = max_batch;
    if (max_batch > 1 && !config.contains("dynamic_batching") && !config.contains("sequence_batching"))
      config["dynamic_batching"] = Json::object();
  }
  if (!has_inputs) config["input"] = describe(interface.inputs, max_batch > 0);
  if (!has_outputs) config["output"] = describe(interface.outputs, max_batch > 0);
  const std::string text = config.dump();
  TRITONSERVER_Message* message = nullptr;
  FUSEC_TRITON_TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, text.c_str(), text.size()));
  Error error = take(TRITONBACKEND_ModelSetConfig(model, 1, message));
  FUSEC_TRITON_TRY(TRITONSERVER_MessageDelete(message));
  return error;
}

Error check_config(TRITONBACKEND_Model* model, const Interface& interface) {
  Json config;
  FUSEC_TRITON_TRY(read_document(model, config));
  const int64_t max_batch = config.contains("max_batch_size") ? to_number(config["max_batch_size"]) : 0;
  if (max_batch > 0 && interface.batch.empty()) {
    return refuse("config.pbtxt: max_batch_size is " + std::to_string(max_batch) +
                  ", but no symbol is the first extent of all inputs and outputs and of nothing else; give 0");
  }
  if (interface.most && max_batch > *interface.most) {
    return refuse("config.pbtxt: max_batch_size is " + std::to_string(max_batch) + ", and the model allows at most " +
                  std::to_string(*interface.most));
  }
  const Json inputs = list_of(config, "input"), outputs = list_of(config, "output");
  for (const Json& item : inputs) FUSEC_TRITON_TRY(check_tensor(item, "input", interface.inputs, max_batch > 0));
  for (const Json& item : outputs) FUSEC_TRITON_TRY(check_tensor(item, "output", interface.outputs, max_batch > 0));
  for (const TensorInfo& info : interface.inputs) {
    const bool listed =
        std::any_of(inputs.begin(), inputs.end(), [&](const Json& i) { return i.value("name", "") == info.name; });
    if (!listed) return refuse("config.pbtxt: the model's input '" + info.name + "' is missing");
  }
  return nullptr;
}

}  // namespace fusec::triton
