// SPDX-License-Identifier: Apache-2.0
// Engines: compiled from a model or loaded from a package, and what they tell.

#include <memory>

#include "bindings/c/json.h"
#include "bindings/c/options.h"
#include "bindings/c/tensor.h"
#include "fusec/device.h"
#include "runtime/plan/state.h"

namespace fusec::c {
namespace {

Status give_engine(Result<Engine> engine, fusec_engine** out) {
  if (!engine.ok()) return engine.status();
  *out = new fusec_engine(std::move(*engine));
  return {};
}

Status give_stats(const EngineStats& stats, char** out) {
  JsonWriter json;
  json.open('{').member("compile_ms", stats.compile_ms).member("device_ms", stats.device_ms);
  json.member("weights_ms", stats.weights_ms).key("stages").open('[');
  for (const StageTime& stage : stats.stages) {
    json.open('{').member("stage", stage.stage).member("ms", stage.ms).close('}');
  }
  json.close(']').member("imported_ops", stats.imported_ops).member("distinct_kernels", stats.distinct_kernels);
  json.member("compiled_kernels", stats.compiled_kernels).key("kernels").open('[');
  for (const KernelTime& time : stats.kernels) {
    json.open('{').member("kernel", time.kernel).member("ms", time.ms).close('}');
  }
  json.close(']').member("cached_kernels", stats.cached_kernels).member("damaged_entries", stats.damaged_entries);
  json.member("code_bytes", stats.code_bytes).member("constant_bytes", stats.constant_bytes);
  return json.member("notes", stats.notes).close('}').give(out);
}

// `kind` is "inputs" or "outputs", of which infos are.
fusec_error* describe(const std::vector<TensorInfo>& infos, const char* kind, std::size_t index, const char** name,
                      fusec_dtype* dtype, int32_t* rank) {
  return guarded([&]() -> Status {
    if (index >= infos.size()) {
      return Status(StatusCode::invalid_argument, "parameter 'index' is " + std::to_string(index) +
                                                      ", and the engine has " + std::to_string(infos.size()) + " " +
                                                      kind);
    }
    const TensorInfo& info = infos[index];
    if (name != nullptr) *name = info.name.c_str();
    if (dtype != nullptr) *dtype = dtype_to_c(info.dtype);
    if (rank != nullptr) *rank = static_cast<int32_t>(info.shape.size());
    return {};
  });
}

Result<Package> read_package(const void* bytes, std::size_t size, const fusec_options* options) {
  FUSEC_TRY(check_pointer(bytes, "bytes"));
  FUSEC_TRY(check_options(options));
  return Package::read({static_cast<const std::byte*>(bytes), size},
                       options == nullptr ? PackageOptions() : options->package);
}

fusec_error* check_engine(const fusec_engine* engine) {
  return guarded([&] { return check_handle(engine, "engine"); });
}

}  // namespace
}  // namespace fusec::c

using namespace fusec::c;

fusec_error* fusec_engine_compile(const fusec_model* model, const fusec_options* options, fusec_engine** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(model, "model"));
    FUSEC_TRY(check_options(options));
    return give_engine(fusec::Engine::compile(model->model, compile_options(options)), out);
  });
}

fusec_error* fusec_engine_load(const char* path, const fusec_options* options, fusec_engine** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_pointer(path, "path"));
    FUSEC_TRY(check_options(options));
    FUSEC_ASSIGN(const fusec::Package package,
                 fusec::Package::open(path, options == nullptr ? fusec::PackageOptions() : options->package));
    return give_engine(fusec::Engine::load(package, compile_options(options)), out);
  });
}

fusec_error* fusec_engine_load_bytes(const void* bytes, size_t size, const fusec_options* options, fusec_engine** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_ASSIGN(const fusec::Package package, read_package(bytes, size, options));
    return give_engine(fusec::Engine::load(package, compile_options(options)), out);
  });
}

fusec_error* fusec_package_fit(const void* bytes, size_t size, const fusec_options* options, int* out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = FUSEC_FIT_NONE;
    FUSEC_ASSIGN(const fusec::Package package, read_package(bytes, size, options));
    FUSEC_ASSIGN(const fusec::PackageFit fit, fusec::package_fit(package, compile_options(options).device));
    *out = static_cast<int>(fit);
    return {};
  });
}

void fusec_engine_free(fusec_engine* engine) { free_handle(engine, "engine"); }

fusec_error* fusec_engine_io_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    const fusec::Engine& e = engine->engine;
    JsonWriter json;
    json.open('{');
    write_io(json, e.inputs(), e.outputs(), e.symbols(), e.state()->loaded->program.limits);
    json.member("device", to_string(e.device())).member("target", e.target().name);
    return json.close('}').give(out);
  });
}

fusec_error* fusec_engine_stats_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    return give_stats(engine->engine.stats(), out);
  });
}

fusec_error* fusec_engine_counts(const fusec_engine* engine, size_t* inputs, size_t* outputs) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(engine, "engine"));
    if (inputs != nullptr) *inputs = engine->engine.inputs().size();
    if (outputs != nullptr) *outputs = engine->engine.outputs().size();
    return {};
  });
}

fusec_error* fusec_engine_input(const fusec_engine* engine, size_t index, const char** name, fusec_dtype* dtype,
                                int32_t* rank) {
  if (fusec_error* const wrong = check_engine(engine)) return wrong;
  return describe(engine->engine.inputs(), "inputs", index, name, dtype, rank);
}

fusec_error* fusec_engine_output(const fusec_engine* engine, size_t index, const char** name, fusec_dtype* dtype,
                                 int32_t* rank) {
  if (fusec_error* const wrong = check_engine(engine)) return wrong;
  return describe(engine->engine.outputs(), "outputs", index, name, dtype, rank);
}
