// SPDX-License-Identifier: Apache-2.0
// Engines: compiled from a model or loaded from a package, and what they tell.

#include <memory>

#include "bindings/c/json.h"
#include "bindings/c/options.h"
#include "bindings/c/tensor.h"
#include "fusec/device.h"

namespace fusec::c {
namespace {

Status give_engine(Result<Engine> engine, fusec_engine** out) {
  if (!engine.ok()) return engine.status();
  *out = new fusec_engine(std::move(*engine));
  return {};
}

Json stats_json(const EngineStats& stats) {
  Json stages = Json::array(), kernels = Json::array();
  for (const StageTime& stage : stats.stages) stages.push_back({{"stage", stage.stage}, {"ms", stage.ms}});
  for (const KernelTime& time : stats.kernels) kernels.push_back({{"kernel", time.kernel}, {"ms", time.ms}});
  return {{"compile_ms", stats.compile_ms},
          {"device_ms", stats.device_ms},
          {"weights_ms", stats.weights_ms},
          {"stages", stages},
          {"imported_ops", stats.imported_ops},
          {"distinct_kernels", stats.distinct_kernels},
          {"compiled_kernels", stats.compiled_kernels},
          {"kernels", kernels},
          {"cached_kernels", stats.cached_kernels},
          {"damaged_entries", stats.damaged_entries},
          {"code_bytes", stats.code_bytes},
          {"constant_bytes", stats.constant_bytes},
          {"notes", stats.notes}};
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

void fusec_engine_free(fusec_engine* engine) { free_handle(engine, "engine"); }

fusec_error* fusec_engine_io_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    const fusec::Engine& e = engine->engine;
    Json json = io_json(e.inputs(), e.outputs(), e.symbols());
    json["device"] = to_string(e.device());
    json["target"] = e.target().name;
    return give_json(json, out);
  });
}

fusec_error* fusec_engine_stats_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    return give_json(stats_json(engine->engine.stats()), out);
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
