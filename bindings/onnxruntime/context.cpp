// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/context.h"

#include <limits>
#include <vector>

#include "bindings/onnxruntime/attributes.h"
#include "bindings/onnxruntime/json.h"

namespace fusec::ort {
namespace {

constexpr const char* kOp = "EPContext";
constexpr const char* kDomain = "com.microsoft";

// With the slash at the end; "" for a file of the current folder.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::string without_suffix(const std::string& name) { return name.substr(0, name.rfind('.')); }

Failure no_path() {
  return Failure(ErrorCode::invalid_argument,
                 "fusec: the model has no path beside which its package could lie; set ep.context_file_path, or "
                 "ep.context_embed_mode to 1, which puts it inside the model");
}

// The file beside the model that is to be written.
std::string package_path(const Graph& graph, const std::string& name, const Settings& settings) {
  std::string model = settings.context_path;
  if (model.empty() && !graph.model_path.empty()) model = without_suffix(graph.model_path) + "_ctx.onnx";
  if (model.empty()) throw no_path();
  return without_suffix(model) + "_" + name + ".fsc";
}

class Attributes {
 public:
  explicit Attributes(const Api& api) : api_(api) {}
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() {
    for (OrtOpAttr* attribute : made_) api_.plain<api::ReleaseOpAttr>(attribute);
  }
  void add(const char* name, int64_t value) { add(name, &value, 1, AttributeKind::integer); }
  void add(const char* name, std::string_view value) { add(name, value.data(), value.size(), AttributeKind::string); }
  std::vector<OrtOpAttr*>& all() { return made_; }

 private:
  void add(const char* name, const void* data, std::size_t count, AttributeKind kind) {
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw Failure(
          ErrorCode::invalid_argument,
          "fusec: the package has more than 2 GB and does not fit into the model; set ep.context_embed_mode to 0");
    }
    OrtOpAttr* attribute = nullptr;
    api_.call<api::CreateOpAttr>(name, data, static_cast<int>(count), static_cast<int>(kind), &attribute);
    made_.push_back(attribute);
  }
  const Api& api_;
  std::vector<OrtOpAttr*> made_;
};

// What the package is compiled for: the device that runs the piece.
std::string target_of(const Settings& settings) {
  if (settings.device == "cpu") return "cpu:native";
  const std::string device = settings.device == "cuda" ? "cuda:0" : settings.device;
  char* text = nullptr;
  check(fusec_devices_json(&text));
  const TextHandle owner(text);
  for (JsonObject& known : read_json_list(text)) {
    if (known["device"] == device) return "cuda:" + known["target"];
  }
  throw Failure(ErrorCode::ep_fail, "fusec: the device " + device + " is gone");
}

std::vector<const char*> names_of(const std::vector<Port>& ports) {
  std::vector<const char*> names;
  for (const Port& port : ports) names.push_back(port.name.c_str());
  return names;
}

}  // namespace

bool is_context_node(const Node& node) { return node.op == kOp && node.domain == kDomain; }

std::unique_ptr<Compiled> load_context(const Api& api, const Graph& graph, const Node& node, const Settings& settings) {
  const std::string contents = string_attribute(api, node.handle, "ep_cache_context");
  const OptionsHandle options = settings.options_for({});
  fusec_engine* engine = nullptr;
  if (integer_attribute(api, node.handle, "embed_mode", 1) == 1) {
    check(fusec_engine_load_bytes(contents.data(), contents.size(), options.get(), &engine));
  } else {
    if (contents.empty() || contents.find('/') != std::string::npos) {
      throw Failure(ErrorCode::invalid_argument, "fusec: node '" + node.label() + "' names the package '" + contents +
                                                     "'; it must be a file beside the model, without a folder");
    }
    if (graph.model_path.empty()) throw no_path();
    check(fusec_engine_load((folder_of(graph.model_path) + contents).c_str(), options.get(), &engine));
  }
  return std::make_unique<Compiled>(EngineHandle(engine), settings);
}

OrtNode* write_context(const Api& api, const Graph& graph, const Piece& piece, const std::string& name,
                       const Settings& settings) {
  const std::string target_name = target_of(settings);
  const char* const target = target_name.c_str();
  const OptionsHandle options = settings.options_for({});
  Attributes attributes(api);
  attributes.add("main_context", 1);
  attributes.add("embed_mode", settings.embeds_context ? 1 : 0);
  attributes.add("ep_sdk_version", std::string_view(fusec_version()));
  attributes.add("partition_name", std::string_view(name));
  attributes.add("source", std::string_view(kProviderName));
  if (settings.embeds_context) {
    void* bytes = nullptr;
    std::size_t size = 0;
    check(fusec_compile_package_bytes(piece.model.get(), &target, 1, options.get(), &bytes, &size));
    const BytesHandle owner(bytes);
    attributes.add("ep_cache_context", std::string_view(static_cast<const char*>(bytes), size));
  } else {
    const std::string path = package_path(graph, name, settings);
    check(fusec_compile_package(piece.model.get(), &target, 1, path.c_str(), options.get()));
    attributes.add("ep_cache_context", std::string_view(path).substr(folder_of(path).size()));
  }
  const std::vector<const char*> inputs = names_of(piece.compiled->inputs());
  const std::vector<const char*> outputs = names_of(piece.compiled->outputs());
  OrtNode* node = nullptr;
  api.call_editor<editor_api::CreateNode>(kOp, kDomain, name.c_str(), inputs.data(), inputs.size(), outputs.data(),
                                          outputs.size(), attributes.all().data(), attributes.all().size(), &node);
  return node;
}

}  // namespace fusec::ort
