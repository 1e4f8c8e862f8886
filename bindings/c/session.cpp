// SPDX-License-Identifier: Apache-2.0
// Sessions: runs on tensors, and on plain pointers without allocating.

#include <algorithm>

#include "bindings/c/extents.h"
#include "bindings/c/tensor.h"
#include "fusec/stats.h"

namespace fusec::c {
namespace {

constexpr std::size_t kRawShapes = 16;  // as many as a Session keeps ready

std::vector<Tensor> make_tensors(const Engine& engine, const std::vector<TensorInfo>& infos,
                                 std::vector<TensorShape> shapes) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    tensors.push_back(Tensor::borrow(infos[i].dtype, std::move(shapes[i]), nullptr, {}, engine.device()));
  }
  return tensors;
}

// The entry of these extents, made where they are new. Those used longest ago make room.
Result<RawShapes*> find_raw(fusec_session& handle, std::span<const int64_t> extents) {
  for (RawShapes& entry : handle.raw) {
    if (!std::equal(entry.extents.begin(), entry.extents.end(), extents.begin(), extents.end())) continue;
    entry.used = ++handle.clock;
    return &entry;
  }
  const Engine& engine = handle.session.engine();
  std::vector<TensorShape> shapes = split_extents(engine.inputs(), extents);
  FUSEC_ASSIGN(std::vector<TensorShape> output_shapes, handle.session.output_shapes(shapes));
  RawShapes entry;
  entry.extents.assign(extents.begin(), extents.end());
  entry.inputs = make_tensors(engine, engine.inputs(), std::move(shapes));
  entry.outputs = make_tensors(engine, engine.outputs(), std::move(output_shapes));
  entry.used = ++handle.clock;
  if (handle.raw.size() < kRawShapes) {
    handle.raw.push_back(std::move(entry));
    return &handle.raw.back();
  }
  const auto oldest = std::min_element(handle.raw.begin(), handle.raw.end(),
                                       [](const RawShapes& a, const RawShapes& b) { return a.used < b.used; });
  *oldest = std::move(entry);
  return &*oldest;
}

Status set_pointers(std::vector<Tensor>& tensors, void* const* pointers, const char* parameter) {
  static char nothing[64];  // of tensors without elements
  if (!tensors.empty()) FUSEC_TRY(check_pointer(pointers, parameter));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    void* data = pointers[i];
    if (data == nullptr) {
      if (tensors[i].num_elements() > 0) return reject_null((parameter + ("[" + std::to_string(i) + "]")).c_str());
      data = nothing;
    }
    set_data(tensors[i], data);
  }
  return {};
}

// On the CPU `run`, which keeps its threads for the whole of it.
Status run_async(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
  if (session.engine().device().kind == TargetKind::cpu) return session.run(inputs, outputs);
  return session.run_async(inputs, outputs, stream);
}

template <class Run>
Status run_tensors(fusec_session* session, const fusec_tensor* inputs, size_t input_count, const fusec_tensor* outputs,
                   size_t output_count, const Run& run) {
  FUSEC_TRY(check_handle(session, "session"));
  FUSEC_ASSIGN(const std::vector<Tensor> in, borrow_all(inputs, input_count, "inputs"));
  FUSEC_ASSIGN(std::vector<Tensor> out, borrow_all(outputs, output_count, "outputs"));
  return run(in, out);
}

}  // namespace
}  // namespace fusec::c

using namespace fusec::c;

fusec_error* fusec_session_new(const fusec_engine* engine, fusec_session** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    FUSEC_ASSIGN(fusec::Session session, fusec::Session::create(engine->engine));
    *out = new fusec_session(std::move(session));
    return {};
  });
}

void fusec_session_free(fusec_session* session) {
  if (session == nullptr || read_magic(session) != fusec_session::kMagic || session->pool == nullptr)
    return free_handle(session, "session");
  log_mistake(fusec::Status(fusec::StatusCode::invalid_argument,
                            "parameter 'session' belongs to a pool; fusec_session_pool_release gives it back"));
}

fusec_error* fusec_session_output_shapes(fusec_session* session, const int64_t* input_extents,
                                         int64_t* output_extents) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(session, "session"));
    FUSEC_ASSIGN(const std::span<const int64_t> extents, check_extents(session->session.engine(), input_extents));
    const fusec::Engine& engine = session->session.engine();
    if (total_rank(engine.outputs()) > 0) FUSEC_TRY(check_pointer(output_extents, "output_extents"));
    FUSEC_ASSIGN(const std::vector<fusec::TensorShape> shapes,
                 session->session.output_shapes(split_extents(engine.inputs(), extents)));
    for (const fusec::TensorShape& shape : shapes)
      output_extents = std::copy(shape.begin(), shape.end(), output_extents);
    return {};
  });
}

fusec_error* fusec_session_prepare(fusec_session* session, const int64_t* input_extents) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(session, "session"));
    FUSEC_ASSIGN(const std::span<const int64_t> extents, check_extents(session->session.engine(), input_extents));
    return session->session.prepare(split_extents(session->session.engine().inputs(), extents));
  });
}

fusec_error* fusec_session_run(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                               const fusec_tensor* outputs, size_t output_count) {
  return guarded([&] {
    return run_tensors(session, inputs, input_count, outputs, output_count,
                       [&](const auto& in, auto& out) { return session->session.run(in, out); });
  });
}

fusec_error* fusec_session_run_async(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                     const fusec_tensor* outputs, size_t output_count, void* stream) {
  return guarded([&] {
    return run_tensors(session, inputs, input_count, outputs, output_count, [&](const auto& in, auto& out) {
      return fusec::c::run_async(session->session, in, out, stream);
    });
  });
}

fusec_error* fusec_session_run_raw(fusec_session* session, const int64_t* input_extents, void* const* inputs,
                                   void* const* outputs, void* stream) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(session, "session"));
    FUSEC_ASSIGN(const std::span<const int64_t> extents, check_extents(session->session.engine(), input_extents));
    FUSEC_ASSIGN(RawShapes* const shapes, find_raw(*session, extents));
    FUSEC_TRY(set_pointers(shapes->inputs, inputs, "inputs"));
    FUSEC_TRY(set_pointers(shapes->outputs, outputs, "outputs"));
    return fusec::c::run_async(session->session, shapes->inputs, shapes->outputs, stream);
  });
}

fusec_error* fusec_session_stats_json(const fusec_session* session, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(session, "session"));
    return give_text(fusec::to_json(session->session.stats()), out);
  });
}

fusec_error* fusec_session_profile_json(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                        int64_t runs, char** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(session, "session"));
    FUSEC_ASSIGN(const std::vector<fusec::Tensor> in, borrow_all(inputs, input_count, "inputs"));
    fusec::ProfileOptions options;
    if (runs != 0) options.runs = runs;
    FUSEC_ASSIGN(const fusec::Profile profile, session->session.profile(in, options));
    return give_text(fusec::to_json(profile), out);
  });
}
