// SPDX-License-Identifier: Apache-2.0
// A CUDA driver for the tests of the execution provider for ONNX Runtime, on machines without a GPU: memory is the
// host's, and streams do their work at once. It is preloaded under the name libcuda.so.1, which is how the provider
// finds it. What the provider asks of fusec for a GPU is compiled for the CPU here, which can read the memory, too.
// FUSEC_FAKE_GPUS is the number of GPUs; FUSEC_FAKE_FAIL names a call that fails.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "fusec/c.h"

namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidContext = 201,
                 kInvalidHandle = 400;

struct State {
  std::mutex mutex;
  std::map<std::string, long> calls;   // by name
  std::map<std::string, long> copies;  // "to gpu", "to host", "inside", "host"
  std::map<uintptr_t, std::size_t> memory, pinned;
  std::set<void*> streams, events;
  std::map<int, long> contexts;  // by ordinal, how often retained
  struct Counts {
    std::size_t inputs, outputs;
  };
  std::map<const fusec_session*, Counts> sessions;
  long strays = 0;  // tensors of a run that a GPU cannot reach
  long runs = 0;    // on a stream
};

State& state() {
  static auto* const all = new State;  // lives until the process ends: others call late
  return *all;
}

int gpus() {
  const char* const text = std::getenv("FUSEC_FAKE_GPUS");
  return text == nullptr ? 0 : std::atoi(text);
}

thread_local int depth = 0;  // of the stack of contexts

// Counts a call. Answers whether it fails.
bool fails(const char* name) {
  ++state().calls[name];
  const char* const failing = std::getenv("FUSEC_FAKE_FAIL");
  return failing != nullptr && std::strcmp(failing, name) == 0;
}

bool holds(const std::map<uintptr_t, std::size_t>& blocks, uintptr_t address) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return false;
  --next;
  return address < next->first + next->second;
}

bool is_stream(void* stream) { return stream == nullptr || state().streams.count(stream) != 0; }

void* new_handle() { return std::malloc(1); }

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

void look_at(void* const* tensors, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(tensors[i]);
    if (address != 0 && !holds(state().memory, address) && !holds(state().pinned, address)) ++state().strays;
  }
}

}  // namespace

#define FAKE(name, ...)                                                       \
  extern "C" __attribute__((visibility("default"))) Result name(__VA_ARGS__); \
  Result name(__VA_ARGS__)
#define ENTER(name)                          \
  const std::lock_guard lock(state().mutex); \
  if (fails(name)) return kInvalidValue
#define ENTER_CONTEXT(name) \
  ENTER(name);              \
  if (depth == 0) return kInvalidContext

FAKE(cuInit, unsigned) {
  ENTER("cuInit");
  return gpus() > 0 ? kSuccess : kNoDevice;
}
FAKE(cuDeviceGet, int* device, int ordinal) {
  ENTER("cuDeviceGet");
  *device = ordinal + 7;  // a handle is not an ordinal
  return ordinal < gpus() ? kSuccess : kInvalidValue;
}
FAKE(cuDeviceGetByPCIBusId, int*, const char*) {
  ENTER("cuDeviceGetByPCIBusId");
  return kInvalidValue;
}
FAKE(cuDevicePrimaryCtxRetain, void** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  ++state().contexts[device];
  *context = &state().contexts[device];
  return kSuccess;
}
FAKE(cuDevicePrimaryCtxRelease_v2, int device) {
  ENTER("cuDevicePrimaryCtxRelease");
  return --state().contexts[device] < 0 ? kInvalidContext : kSuccess;
}
FAKE(cuCtxPushCurrent_v2, void* context) {
  ENTER("cuCtxPushCurrent");
  if (context == nullptr) return kInvalidContext;
  ++depth;
  return kSuccess;
}
FAKE(cuCtxPopCurrent_v2, void**) {
  ENTER("cuCtxPopCurrent");
  return --depth < 0 ? kInvalidContext : kSuccess;
}
FAKE(cuMemAlloc_v2, unsigned long long* memory, std::size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc");
  void* const block = bytes == 0 ? nullptr : std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (block == nullptr) return kOutOfMemory;
  std::memset(block, 0xcd, bytes);
  *memory = reinterpret_cast<uintptr_t>(block);
  state().memory[*memory] = bytes;
  return kSuccess;
}
FAKE(cuMemFree_v2, unsigned long long memory) {
  ENTER_CONTEXT("cuMemFree");
  if (state().memory.erase(memory) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
FAKE(cuMemHostAlloc, void** memory, std::size_t bytes, unsigned) {
  ENTER_CONTEXT("cuMemHostAlloc");
  *memory = std::malloc(bytes);
  state().pinned[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  return kSuccess;
}
FAKE(cuMemFreeHost, void* memory) {
  ENTER_CONTEXT("cuMemFreeHost");
  if (state().pinned.erase(reinterpret_cast<uintptr_t>(memory)) == 0) return kInvalidValue;
  std::free(memory);
  return kSuccess;
}
FAKE(cuMemcpyAsync, unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyAsync");
  if (!is_stream(stream)) return kInvalidHandle;
  const bool to_gpu = holds(state().memory, to), from_gpu = holds(state().memory, from);
  ++state().copies[to_gpu ? (from_gpu ? "inside" : "to gpu") : (from_gpu ? "to host" : "host")];
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}
FAKE(cuStreamCreate, void** stream, unsigned flags) {
  ENTER_CONTEXT("cuStreamCreate");
  if (flags != 0) return kInvalidValue;  // copies without a stream rely on a blocking one
  state().streams.insert(*stream = new_handle());
  return kSuccess;
}
FAKE(cuStreamDestroy_v2, void* stream) {
  ENTER_CONTEXT("cuStreamDestroy");
  if (state().streams.erase(stream) == 0) return kInvalidHandle;
  std::free(stream);
  return kSuccess;
}
FAKE(cuStreamSynchronize, void* stream) {
  ENTER_CONTEXT("cuStreamSynchronize");
  return is_stream(stream) ? kSuccess : kInvalidHandle;
}
FAKE(cuEventCreate, void** event, unsigned) {
  ENTER_CONTEXT("cuEventCreate");
  state().events.insert(*event = new_handle());
  return kSuccess;
}
FAKE(cuEventDestroy_v2, void* event) {
  ENTER_CONTEXT("cuEventDestroy");
  if (state().events.erase(event) == 0) return kInvalidHandle;
  std::free(event);
  return kSuccess;
}
FAKE(cuEventRecord, void* event, void* stream) {
  ENTER_CONTEXT("cuEventRecord");
  return state().events.count(event) != 0 && is_stream(stream) ? kSuccess : kInvalidHandle;
}
FAKE(cuStreamWaitEvent, void* stream, void* event, unsigned) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  return state().events.count(event) != 0 && is_stream(stream) ? kSuccess : kInvalidHandle;
}
FAKE(cuEventSynchronize, void* event) {
  ENTER_CONTEXT("cuEventSynchronize");
  return state().events.count(event) != 0 ? kSuccess : kInvalidHandle;
}
FAKE(cuGetErrorName, Result, const char** name) {
  *name = "CUDA_ERROR_OF_THE_FAKE";
  return kSuccess;
}

// For the tests: "calls cuMemAlloc", "copies to gpu", "live memory", "strays", "runs".
extern "C" __attribute__((visibility("default"))) long fake_cuda_count(const char* what) {
  const std::lock_guard lock(state().mutex);
  const std::string text(what);
  const std::size_t space = text.find(' ');
  const std::string kind = text.substr(0, space), name = space == std::string::npos ? "" : text.substr(space + 1);
  if (kind == "calls") return state().calls[name];
  if (kind == "copies") return state().copies[name];
  if (kind == "strays") return state().strays;
  if (kind == "runs") return state().runs;
  if (name == "memory") return static_cast<long>(state().memory.size());
  if (name == "pinned") return static_cast<long>(state().pinned.size());
  if (name == "streams") return static_cast<long>(state().streams.size());
  if (name == "events") return static_cast<long>(state().events.size());
  if (name == "contexts") {
    long all = 0;
    for (const auto& [device, count] : state().contexts) all += count;
    return all;
  }
  return -1;
}

// What follows stands in front of functions of libfusec-c, as the library is preloaded.
extern "C" __attribute__((visibility("default"))) fusec_error* fusec_devices_json(char** out) {
  *out = strdup(device_list().c_str());
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) fusec_error* fusec_options_set(fusec_options* options,
                                                                                 const char* key, const char* value) {
  const bool is_gpu = std::strcmp(key, "device") == 0 && std::strncmp(value, "cuda", 4) == 0;
  return real<decltype(&fusec_options_set)>("fusec_options_set")(options, key, is_gpu ? "cpu" : value);
}

extern "C" __attribute__((visibility("default"))) fusec_error* fusec_session_new(const fusec_engine* engine,
                                                                                 fusec_session** out) {
  State::Counts counts = {};
  fusec_error* error =
      real<decltype(&fusec_engine_counts)>("fusec_engine_counts")(engine, &counts.inputs, &counts.outputs);
  if (error == nullptr) error = real<decltype(&fusec_session_new)>("fusec_session_new")(engine, out);
  const std::lock_guard lock(state().mutex);
  if (error == nullptr) state().sessions[*out] = counts;
  return error;
}

extern "C" __attribute__((visibility("default"))) fusec_error* fusec_session_run_raw(
    fusec_session* session, const int64_t* extents, void* const* inputs, void* const* outputs, void* stream) {
  if (stream != nullptr) {
    const std::lock_guard lock(state().mutex);
    ++state().runs;
    const State::Counts counts = state().sessions[session];
    look_at(inputs, counts.inputs);
    look_at(outputs, counts.outputs);
  }
  return real<decltype(&fusec_session_run_raw)>("fusec_session_run_raw")(session, extents, inputs, outputs, stream);
}

namespace {

// As a package for a GPU could not be loaded here.
const char* target_here(const char* target) { return std::strncmp(target, "cuda:", 5) == 0 ? "cpu:native" : target; }

}  // namespace

extern "C" __attribute__((visibility("default"))) fusec_error* fusec_compile_package(const fusec_model* model,
                                                                                     const char* const* targets,
                                                                                     size_t count, const char* path,
                                                                                     const fusec_options* options) {
  const char* const target = target_here(targets[0]);
  return real<decltype(&fusec_compile_package)>("fusec_compile_package")(model, &target, count, path, options);
}

extern "C" __attribute__((visibility("default"))) fusec_error* fusec_compile_package_bytes(const fusec_model* model,
                                                                                           const char* const* targets,
                                                                                           size_t count,
                                                                                           const fusec_options* options,
                                                                                           void** bytes, size_t* size) {
  const char* const target = target_here(targets[0]);
  return real<decltype(&fusec_compile_package_bytes)>("fusec_compile_package_bytes")(model, &target, count, options,
                                                                                     bytes, size);
}
