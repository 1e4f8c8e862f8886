// SPDX-License-Identifier: Apache-2.0
// Devices, models from ONNX, and packages written of them.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "bindings/c/json.h"
#include "bindings/c/options.h"
#include "bindings/c/tensor.h"
#include "fusec/device.h"

namespace fusec::c {
namespace {

Status give_model(Result<Model> model, fusec_model** out) {
  if (!model.ok()) return model.status();
  auto handle = std::make_unique<fusec_model>();
  handle->model = std::move(*model);
  *out = handle.release();
  return {};
}

// `read(i, what)` answers constant i.
template <class Read>
Status add_constants(const char* const* names, const void* tensors, std::size_t count, const Read& read,
                     ImportOptions& options) {
  if (count == 0) return {};
  FUSEC_TRY(check_pointer(names, "constant_names"));
  FUSEC_TRY(check_pointer(tensors, "constants"));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    FUSEC_TRY(check_pointer(names[i], ("constant_names" + index).c_str()));
    FUSEC_ASSIGN(Tensor data, read(i, "constants" + index));
    if (!options.constants.emplace(names[i], std::move(data)).second) {
      return Status(StatusCode::invalid_argument, std::string("constant_names has '") + names[i] + "' twice");
    }
  }
  return {};
}

Result<std::vector<std::string>> read_targets(const char* const* targets, std::size_t count) {
  FUSEC_TRY(check_pointer(targets, "targets"));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    FUSEC_TRY(check_pointer(targets[i], ("targets[" + std::to_string(i) + "]").c_str()));
    names.emplace_back(targets[i]);
  }
  return names;
}

// Checks what all functions that load ONNX are given. `source`: the path or the bytes.
Result<ImportOptions> begin_load(const void* source, const char* parameter, const fusec_options* options,
                                 fusec_model** out) {
  FUSEC_TRY(check_pointer(out, "out"));
  *out = nullptr;
  FUSEC_TRY(check_pointer(source, parameter));
  FUSEC_TRY(check_options(options));
  return options == nullptr ? ImportOptions() : options->import;
}

}  // namespace
}  // namespace fusec::c

using namespace fusec::c;

fusec_error* fusec_devices_json(char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    JsonWriter json;
    json.open('[');
    for (const fusec::DeviceInfo& info : fusec::devices()) {
      json.open('{').member("device", to_string(info.device)).member("name", info.name);
      json.member("memory_bytes", info.memory_bytes).member("driver", info.driver);
      json.member("target", info.target.name).close('}');
    }
    return give_json(json.close(']'), out);
  });
}

fusec_error* fusec_model_load_onnx(const char* path, const fusec_options* options, fusec_model** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_ASSIGN(const fusec::ImportOptions import, begin_load(path, "path", options, out));
    return give_model(fusec::load_onnx(path, import), out);
  });
}

fusec_error* fusec_model_load_onnx_bytes(const void* bytes, size_t size, const char* const* constant_names,
                                         const fusec_tensor* constants, size_t constant_count,
                                         const fusec_options* options, fusec_model** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_ASSIGN(fusec::ImportOptions import, begin_load(bytes, "bytes", options, out));
    const auto read = [&](std::size_t i, const std::string& what) { return copy_to_host(constants[i], what); };
    FUSEC_TRY(add_constants(constant_names, constants, constant_count, read, import));
    return give_model(fusec::load_onnx_bytes({static_cast<const uint8_t*>(bytes), size}, import), out);
  });
}

fusec_error* fusec_model_load_onnx_managed(const void* bytes, size_t size, const char* const* constant_names,
                                           fusec_managed_tensor* const* constants, size_t constant_count,
                                           const fusec_options* options, fusec_model** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_ASSIGN(fusec::ImportOptions import, begin_load(bytes, "bytes", options, out));
    std::vector<std::shared_ptr<ManagedOwner>> owners;
    const auto read = [&](std::size_t i, const std::string& what) -> fusec::Result<fusec::Tensor> {
      FUSEC_TRY(check_pointer(constants[i], what.c_str()));
      FUSEC_ASSIGN(SharedTensor shared, share(*constants[i], what, "fusec_model_load_onnx_bytes"));
      owners.push_back(std::move(shared.owner));
      return std::move(shared.tensor);
    };
    FUSEC_TRY(add_constants(constant_names, constants, constant_count, read, import));
    FUSEC_TRY(give_model(fusec::load_onnx_bytes({static_cast<const uint8_t*>(bytes), size}, import), out));
    for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->take(constants[i]);
    return {};
  });
}

fusec_error* fusec_onnx_support_json(const void* bytes, size_t size, const fusec_options* options, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_pointer(bytes, "bytes"));
    FUSEC_TRY(check_options(options));
    FUSEC_ASSIGN(const std::vector<fusec::NodeSupport> nodes,
                 fusec::check_onnx_bytes({static_cast<const uint8_t*>(bytes), size},
                                         options == nullptr ? fusec::ImportOptions() : options->import));
    JsonWriter json;
    json.open('[');
    for (const fusec::NodeSupport& node : nodes) {
      json.open('{').member("node", node.node).member("op", node.op).member("domain", node.domain);
      json.member("supported", node.supported).member("reason", node.reason).close('}');
    }
    return give_json(json.close(']'), out);
  });
}

fusec_error* fusec_model_io_json(const fusec_model* model, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(model, "model"));
    JsonWriter json;
    json.open('{');
    write_io(json, model->model.inputs, model->model.outputs, model->model.symbols, model->model.graph->limits);
    return give_json(json.close('}'), out);
  });
}

void fusec_model_free(fusec_model* model) { free_handle(model, "model"); }

fusec_error* fusec_compile_package_bytes(const fusec_model* model, const char* const* targets, size_t target_count,
                                         const fusec_options* options, void** bytes, size_t* size) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(bytes, "bytes"));
    *bytes = nullptr;
    FUSEC_TRY(check_pointer(size, "size"));
    *size = 0;
    FUSEC_TRY(check_handle(model, "model"));
    FUSEC_ASSIGN(const std::vector<std::string> names, read_targets(targets, target_count));
    FUSEC_TRY(check_options(options));
    const std::optional<fusec::SigningKey> sign = options == nullptr ? std::nullopt : options->sign;
    FUSEC_ASSIGN(const std::vector<std::byte> made,
                 fusec::package_bytes(model->model, names, compile_options(options), sign));
    *bytes = std::malloc(made.size());
    if (*bytes == nullptr) return fusec::Status(fusec::StatusCode::out_of_memory, "no memory for the package");
    std::memcpy(*bytes, made.data(), made.size());
    *size = made.size();
    return {};
  });
}

fusec_error* fusec_compile_package(const fusec_model* model, const char* const* targets, size_t target_count,
                                   const char* path, const fusec_options* options) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(model, "model"));
    FUSEC_ASSIGN(const std::vector<std::string> names, read_targets(targets, target_count));
    FUSEC_TRY(check_pointer(path, "path"));
    FUSEC_TRY(check_options(options));
    const std::optional<fusec::SigningKey> sign = options == nullptr ? std::nullopt : options->sign;
    return fusec::write_package(model->model, names, path, compile_options(options), sign);
  });
}
