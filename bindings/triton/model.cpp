// SPDX-License-Identifier: Apache-2.0
// Finds and loads the model of a folder of Triton's repository.

#include "bindings/triton/model.h"

#include <filesystem>

namespace fusec::triton {
namespace {

namespace fs = std::filesystem;

bool is_package(const std::string& path) { return fs::path(path).extension() == ".fsc"; }

// A function `_json` of the interface, read.
template <class T>
Error read_interface_from(fusec_error* (*describe)(const T*, char**), const T* handle, Interface& out) {
  char* text = nullptr;
  FUSEC_TRITON_TRY(describe(handle, &text));
  const std::unique_ptr<char, decltype(&fusec_free)> owned(text, fusec_free);
  return read_interface(text, out);
}

}  // namespace

Error Model::find_file(TRITONBACKEND_Model* model) {
  TRITONBACKEND_ArtifactType type;
  const char* location = nullptr;
  uint64_t version = 0;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelRepository(model, &type, &location));
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelVersion(model, &version));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
    return make_error(TRITONSERVER_ERROR_UNSUPPORTED, "a model that is not a folder of files");
  const fs::path folder = fs::path(location) / std::to_string(version);
  std::error_code error;
  for (const std::string& name : config_.file.empty() ? std::vector<std::string>{"model.fsc", "model.onnx"}
                                                      : std::vector<std::string>{config_.file}) {
    path_ = (folder / name).string();
    if (fs::is_regular_file(path_, error)) return nullptr;
  }
  return make_error(TRITONSERVER_ERROR_NOT_FOUND,
                    "there is no " + (config_.file.empty() ? std::string("model.fsc or model.onnx") : config_.file) +
                        " in " + folder.string());
}

Error Model::make_options(const std::string& device, Handle<fusec_options>& out) const {
  fusec_options* options = nullptr;
  FUSEC_TRITON_TRY(fusec_options_new(&options));
  out.reset(options);
  for (const auto& [key, value] : config_.options) {
    if (Error error = take(fusec_options_set(options, key.c_str(), value.c_str())))
      return refuse("parameter '" + key + "': " + TRITONSERVER_ErrorMessage(error.get()));
  }
  return take(fusec_options_set(options, "device", device.c_str()));
}

Error Model::make_engine(const std::string& device, EnginePtr& out) const {
  Handle<fusec_options> options;
  FUSEC_TRITON_TRY(make_options(device, options));
  fusec_engine* engine = nullptr;
  if (is_package(path_)) {
    FUSEC_TRITON_TRY(fusec_engine_load(path_.c_str(), options.get(), &engine));
  } else {
    fusec_model* model = nullptr;
    FUSEC_TRITON_TRY(fusec_model_load_onnx(path_.c_str(), options.get(), &model));
    const Handle<fusec_model> owned(model);
    FUSEC_TRITON_TRY(fusec_engine_compile(model, options.get(), &engine));
  }
  out = EnginePtr(engine, EndHandle());
  return nullptr;
}

Error Model::engine(const std::string& device, EnginePtr& out) {
  const std::lock_guard lock(mutex_);
  EnginePtr& engine = engines_[device];
  if (!engine) FUSEC_TRITON_TRY(make_engine(device, engine));
  out = engine;
  return nullptr;
}

// A package tells its interface when it is loaded, for the first device that it has code for.
Error Model::read_interface_of_file() {
  if (is_package(path_)) {
    Error error;
    for (const std::string& device : config_.devices) {
      EnginePtr loaded;
      Error failed = engine(device, loaded);
      if (!failed)
        return read_interface_from(fusec_engine_io_json, static_cast<const fusec_engine*>(loaded.get()), interface_);
      if (!error) error = std::move(failed);
    }
    return error;
  }
  Handle<fusec_options> options;
  FUSEC_TRITON_TRY(make_options("cpu", options));
  fusec_model* model = nullptr;
  FUSEC_TRITON_TRY(fusec_model_load_onnx(path_.c_str(), options.get(), &model));
  const Handle<fusec_model> owned(model);
  return read_interface_from(fusec_model_io_json, static_cast<const fusec_model*>(model), interface_);
}

Error Model::open(TRITONBACKEND_Model* model, std::unique_ptr<Model>& out) {
  auto made = std::make_unique<Model>();
  FUSEC_TRITON_TRY(read_config(model, made->config_));
  FUSEC_TRITON_TRY(made->find_file(model));
  FUSEC_TRITON_TRY(made->read_interface_of_file());
  bool completes = false;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &completes));
  if (completes) {
    FUSEC_TRITON_TRY(complete_config(model, made->interface_));
    made->config_.options.clear();
    FUSEC_TRITON_TRY(read_config(model, made->config_));
  }
  FUSEC_TRITON_TRY(check_config(model, made->interface_));
  out = std::move(made);
  return nullptr;
}

}  // namespace fusec::triton
