// SPDX-License-Identifier: Apache-2.0
// Engines: compiled from a model or loaded from a package, and what they tell.

#include <memory>

#include "bindings/c/extents.h"
#include "bindings/c/json.h"
#include "bindings/c/options.h"
#include "bindings/c/tensor.h"
#include "fusec/device.h"
#include "fusec/stats.h"
#include "runtime/plan/state.h"

namespace fusec::c {
namespace {

Status give_engine(Result<Engine> engine, fusec_engine** out) {
  if (!engine.ok()) return engine.status();
  *out = new fusec_engine(std::move(*engine));
  return {};
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
    return give_json(json.close('}'), out);
  });
}

fusec_error* fusec_engine_stats_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    return give_text(fusec::to_json(engine->engine.stats()), out);
  });
}

fusec_error* fusec_engine_plan_json(const fusec_engine* engine, const int64_t* input_extents, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    FUSEC_ASSIGN(const std::vector<fusec::TensorShape> shapes, read_shapes(engine->engine, input_extents));
    FUSEC_ASSIGN(const fusec::PlanStats stats, engine->engine.plan(shapes));
    return give_text(fusec::to_json(stats), out);
  });
}

fusec_error* fusec_engine_weights_json(const fusec_engine* engine, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    JsonWriter json;
    write_infos(json, engine->engine.weights());
    return give_json(json, out);
  });
}

fusec_error* fusec_engine_set_weight(fusec_engine* engine, const char* name, const fusec_tensor* data) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(engine, "engine"));
    FUSEC_TRY(check_pointer(name, "name"));
    FUSEC_TRY(check_pointer(data, "data"));
    FUSEC_ASSIGN(const fusec::Tensor tensor, borrow(*data, "parameter 'data'"));
    return engine->engine.set_weight(name, tensor);
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
