// SPDX-License-Identifier: Apache-2.0
// Functions in front of those of libfusec-c: what asks for a GPU is compiled for the CPU, which can read the fake's
// memory, too, and looks as if it ran on the GPU.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fake_cuda/state.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace fusec::fake_cuda {
namespace {

template <class Function>
Function real(const char* name) {
  void* const library = dlopen("libfusec-c.so.0", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string device_list() {
  std::string list = R"([{"device": "cpu", "name": "CPU", "memory_bytes": 1, "driver": "", "target": "cpu"})";
  for (int i = 0; i < gpus(); ++i) {
    list += R"(, {"device": "cuda:)" + std::to_string(i) + R"(", "name": "Fake )" + std::to_string(i) +
            R"(", "memory_bytes": 1, "driver": "13.0", "target": "sm_90"})";
  }
  return list + "]";
}

void look_at_all(void* const* tensors, std::size_t count, void* stream, bool write) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(tensors[i]);
    if (address == 0) continue;
    if (find(state().memory, address) != nullptr) {
      look_at(address, stream, write);
    } else if (find(state().pinned, address) == nullptr) {
      ++state().strays;
    }
  }
}

// The tensors as the CPU takes them. Those of a GPU are of this one, and in its memory.
std::vector<fusec_tensor> on_cpu(const fusec_tensor* tensors, std::size_t count, int ordinal, bool all_on_gpu) {
  std::vector<fusec_tensor> made(tensors, tensors + count);
  for (fusec_tensor& tensor : made) {
    if (tensor.device.type != FUSEC_DEVICE_CUDA) {
      state().strays += all_on_gpu;
      continue;
    }
    state().strays += tensor.device.ordinal != ordinal;
    tensor.device = {FUSEC_DEVICE_CPU, 0};
  }
  return made;
}

void look_at_tensors(const fusec_tensor* tensors, std::size_t count, void* stream, bool write) {
  std::vector<void*> data;
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i].device.type == FUSEC_DEVICE_CUDA) data.push_back(tensors[i].data);
  }
  look_at_all(data.data(), data.size(), stream, write);
}

// A tensor that the host reads.
fusec_tensor read_here(fusec_tensor tensor) {
  if (tensor.device.type != FUSEC_DEVICE_CUDA) return tensor;
  const std::lock_guard lock(state().mutex);
  look_at(reinterpret_cast<uintptr_t>(tensor.data), nullptr, false);
  tensor.device = {FUSEC_DEVICE_CPU, 0};
  return tensor;
}

// As a package for a GPU could not be loaded here.
const char* target_here(const char* target) { return std::strncmp(target, "cuda:", 5) == 0 ? "cpu:native" : target; }

// What is captured makes nothing, so it must be there.
void note_run(State::Counts& session, void* stream) {
  state().strays += static_cast<long>(state().captured.count(stream) != 0 && !session.is_ready);
  session.is_ready = true;
}

// A run of tensors, on a stream or, with nullptr, of the host.
fusec_error* run(fusec_session* session, const fusec_tensor* inputs, size_t input_count, const fusec_tensor* outputs,
                 size_t output_count, void* stream, bool is_async) {
  std::vector<fusec_tensor> in(inputs, inputs + input_count), out(outputs, outputs + output_count);
  {
    const std::lock_guard lock(state().mutex);
    const int ordinal = state().sessions[session].ordinal;
    if (ordinal >= 0) {
      void* const found = is_async ? take_stream(stream) : nullptr;
      if (is_async) {
        ++state().runs;
        if (found == nullptr) ++state().strays;
      }
      if (found != nullptr) state().order.put(found);
      note_run(state().sessions[session], found);
      look_at_tensors(inputs, input_count, found, false);
      look_at_tensors(outputs, output_count, found, true);
      in = on_cpu(inputs, input_count, ordinal, is_async);
      out = on_cpu(outputs, output_count, ordinal, is_async);
    }
  }
  return real<decltype(&fusec_session_run)>("fusec_session_run")(session, in.data(), in.size(), out.data(), out.size());
}

}  // namespace
}  // namespace fusec::fake_cuda

using namespace fusec::fake_cuda;

SHOWN fusec_error* fusec_devices_json(char** out) {
  *out = strdup(device_list().c_str());
  return nullptr;
}

SHOWN fusec_error* fusec_options_set(fusec_options* options, const char* key, const char* value) {
  const bool is_gpu = std::strcmp(key, "device") == 0 && std::strncmp(value, "cuda:", 5) == 0;
  if (is_gpu) {
    const std::lock_guard lock(state().mutex);
    state().options[options] = std::atoi(value + 5);
  }
  return real<decltype(&fusec_options_set)>("fusec_options_set")(options, key, is_gpu ? "cpu" : value);
}

SHOWN void fusec_options_free(fusec_options* options) {
  {
    const std::lock_guard lock(state().mutex);
    state().options.erase(options);
  }
  real<decltype(&fusec_options_free)>("fusec_options_free")(options);
}

namespace {

fusec_error* note_engine(fusec_error* error, const fusec_options* options, fusec_engine** out) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().options.find(options);
  if (error == nullptr) state().engines[*out] = found == state().options.end() ? -1 : found->second;
  return error;
}

}  // namespace

SHOWN fusec_error* fusec_engine_compile(const fusec_model* model, const fusec_options* options, fusec_engine** out) {
  return note_engine(real<decltype(&fusec_engine_compile)>("fusec_engine_compile")(model, options, out), options, out);
}

SHOWN fusec_error* fusec_engine_load(const char* path, const fusec_options* options, fusec_engine** out) {
  return note_engine(real<decltype(&fusec_engine_load)>("fusec_engine_load")(path, options, out), options, out);
}

SHOWN fusec_error* fusec_engine_load_bytes(const void* bytes, size_t size, const fusec_options* options,
                                           fusec_engine** out) {
  return note_engine(real<decltype(&fusec_engine_load_bytes)>("fusec_engine_load_bytes")(bytes, size, options, out),
                     options, out);
}

SHOWN fusec_error* fusec_engine_io_json(const fusec_engine* engine, char** out) {
  fusec_error* const error = real<decltype(&fusec_engine_io_json)>("fusec_engine_io_json")(engine, out);
  const std::lock_guard lock(state().mutex);
  const auto found = state().engines.find(engine);
  if (error != nullptr || found == state().engines.end() || found->second < 0) return error;
  const std::string cpu = R"("device":"cpu")", gpu = R"("device":"cuda:)" + std::to_string(found->second) + '"';
  std::string text = *out;
  text.replace(text.find(cpu), cpu.size(), gpu);
  fusec_free(*out);
  *out = strdup(text.c_str());
  return nullptr;
}

SHOWN fusec_error* fusec_session_new(const fusec_engine* engine, fusec_session** out) {
  State::Counts counts = {};
  fusec_error* error =
      real<decltype(&fusec_engine_counts)>("fusec_engine_counts")(engine, &counts.inputs, &counts.outputs);
  if (error == nullptr) error = real<decltype(&fusec_session_new)>("fusec_session_new")(engine, out);
  const std::lock_guard lock(state().mutex);
  const auto found = state().engines.find(engine);
  counts.ordinal = found == state().engines.end() ? -1 : found->second;
  if (error == nullptr) state().sessions[*out] = counts;
  return error;
}

SHOWN fusec_error* fusec_session_prepare(fusec_session* session, const int64_t* extents) {
  {
    const std::lock_guard lock(state().mutex);
    state().sessions[session].is_ready = true;
  }
  return real<decltype(&fusec_session_prepare)>("fusec_session_prepare")(session, extents);
}

SHOWN fusec_error* fusec_session_run(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                     const fusec_tensor* outputs, size_t output_count) {
  return run(session, inputs, input_count, outputs, output_count, nullptr, false);
}

SHOWN fusec_error* fusec_session_run_async(fusec_session* session, const fusec_tensor* inputs, size_t input_count,
                                           const fusec_tensor* outputs, size_t output_count, void* stream) {
  return run(session, inputs, input_count, outputs, output_count, stream, true);
}

SHOWN fusec_error* fusec_session_run_raw(fusec_session* session, const int64_t* extents, void* const* inputs,
                                         void* const* outputs, void* stream) {
  if (stream != nullptr) {
    const std::lock_guard lock(state().mutex);
    ++state().runs;
    State::Counts& counts = state().sessions[session];
    note_run(counts, take_stream(stream));
    state().order.put(take_stream(stream));
    look_at_all(inputs, counts.inputs, take_stream(stream), false);
    look_at_all(outputs, counts.outputs, take_stream(stream), true);
  }
  return real<decltype(&fusec_session_run_raw)>("fusec_session_run_raw")(session, extents, inputs, outputs, stream);
}

SHOWN fusec_error* fusec_builder_constant(fusec_builder* builder, const fusec_tensor* tensor, fusec_value* out) {
  const fusec_tensor here = read_here(*tensor);
  return real<decltype(&fusec_builder_constant)>("fusec_builder_constant")(builder, &here, out);
}

SHOWN fusec_error* fusec_builder_weight(fusec_builder* builder, const char* name, const fusec_tensor* tensor,
                                        fusec_value* out) {
  const fusec_tensor here = read_here(*tensor);
  return real<decltype(&fusec_builder_weight)>("fusec_builder_weight")(builder, name, &here, out);
}

SHOWN fusec_error* fusec_engine_set_weight(fusec_engine* engine, const char* name, const fusec_tensor* tensor) {
  const fusec_tensor here = read_here(*tensor);
  return real<decltype(&fusec_engine_set_weight)>("fusec_engine_set_weight")(engine, name, &here);
}

SHOWN fusec_error* fusec_compile_package(const fusec_model* model, const char* const* targets, size_t count,
                                         const char* path, const fusec_options* options) {
  const char* const target = target_here(targets[0]);
  return real<decltype(&fusec_compile_package)>("fusec_compile_package")(model, &target, count, path, options);
}

SHOWN fusec_error* fusec_compile_package_bytes(const fusec_model* model, const char* const* targets, size_t count,
                                               const fusec_options* options, void** bytes, size_t* size) {
  const char* const target = target_here(targets[0]);
  return real<decltype(&fusec_compile_package_bytes)>("fusec_compile_package_bytes")(model, &target, count, options,
                                                                                     bytes, size);
}
