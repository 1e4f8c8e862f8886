// SPDX-License-Identifier: Apache-2.0
// A CUDA driver for tests on machines without a GPU: memory is the host's, and streams do their work at once. It is
// preloaded under the name libcuda.so.1, by which the execution provider for ONNX Runtime and the Python package open
// it. FUSEC_FAKE_GPUS is the number of GPUs; FUSEC_FAKE_FAIL names a call that fails; FUSEC_FAKE_POOLS=0: memory has no
// pools.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/fake_cuda/state.h"

namespace fusec::fake_cuda {

State& state() {
  static auto* const all = new State;  // lives until the process ends: others call late
  return *all;
}

int gpus() {
  const char* const text = std::getenv("FUSEC_FAKE_GPUS");
  return text == nullptr ? 0 : std::atoi(text);
}

Block* find(std::map<uintptr_t, Block>& blocks, uintptr_t address) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  --next;
  return address < next->first + next->second.bytes ? &next->second : nullptr;
}

void* take_stream(void* stream) {
  if (stream == nullptr) return kLegacy;
  return stream == kPerThread || stream == kLegacy || state().streams.count(stream) != 0 ? stream : nullptr;
}

void look_at(uintptr_t address, void* stream, bool write) {
  Block* const block = find(state().memory, address);
  if (block == nullptr || state().captured.count(stream) != 0) return;  // the order is that of the graph's launches
  Order& order = state().order;
  if (!(write ? order.write(block->accesses, stream) : order.read(block->accesses, stream))) ++state().races;
}

namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidContext = 201,
                 kInvalidHandle = 400, kCaptureIsolation = 905, kCaptureImplicit = 906;

thread_local std::vector<void*> contexts;  // the stack of them
thread_local int capture_mode = 0;

// Counts a call. Answers whether it fails.
bool fails(const char* name) {
  ++state().calls[name];
  const char* const failing = std::getenv("FUSEC_FAKE_FAIL");
  return failing != nullptr && std::strcmp(failing, name) == 0;
}

void* new_handle() { return std::malloc(1); }

bool has_pools() {
  const char* const text = std::getenv("FUSEC_FAKE_POOLS");
  return text == nullptr || std::strcmp(text, "0") != 0;
}

// The stream of a call other than a run.
void* enter_stream(void* stream) {
  void* const found = take_stream(stream);
  state().graph_nodes += static_cast<long>(state().captured.count(found));
  return found;
}

Result allocate(unsigned long long* memory, std::size_t bytes, void* stream) {
  void* const block = bytes == 0 ? nullptr : std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (block == nullptr) return bytes == 0 ? kInvalidValue : kOutOfMemory;
  std::memset(block, 0xcd, bytes);
  *memory = reinterpret_cast<uintptr_t>(block);
  state().memory[*memory].bytes = bytes;
  if (stream != nullptr) {
    state().order.put(stream);
    look_at(*memory, stream, true);
  }
  return kSuccess;
}

Result release(unsigned long long memory, void* stream) {
  if (state().memory.count(memory) == 0) return kInvalidValue;
  if (stream != nullptr) state().order.put(stream);
  look_at(memory, stream, true);
  state().memory.erase(memory);
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}

}  // namespace
}  // namespace fusec::fake_cuda

using namespace fusec::fake_cuda;

#define FAKE(name, ...)                                                       \
  extern "C" __attribute__((visibility("default"))) Result name(__VA_ARGS__); \
  Result name(__VA_ARGS__)
#define ENTER(name)                          \
  const std::lock_guard lock(state().mutex); \
  if (fails(name)) return kInvalidValue
#define ENTER_CONTEXT(name) \
  ENTER(name);              \
  if (contexts.empty()) return kInvalidContext
#define ENTER_STREAM(name)                  \
  ENTER_CONTEXT(name);                      \
  void* const found = enter_stream(stream); \
  if (found == nullptr) return kInvalidHandle

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
FAKE(cuDeviceGetAttribute, int* value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute");
  if (attribute != 115 || device < 7) return kInvalidValue;
  *value = static_cast<int>(has_pools());
  return kSuccess;
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
  contexts.push_back(context);
  return kSuccess;
}
FAKE(cuCtxPopCurrent_v2, void**) {
  ENTER("cuCtxPopCurrent");
  if (contexts.empty()) return kInvalidContext;
  contexts.pop_back();
  return kSuccess;
}
FAKE(cuCtxSynchronize) {
  ENTER_CONTEXT("cuCtxSynchronize");
  state().order.synchronize_all();
  return kSuccess;
}
FAKE(cuThreadExchangeStreamCaptureMode, int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return kSuccess;
}
FAKE(cuMemAlloc_v2, unsigned long long* memory, std::size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc");
  return allocate(memory, bytes, nullptr);
}
FAKE(cuMemFree_v2, unsigned long long memory) {
  ENTER_CONTEXT("cuMemFree");
  return release(memory, nullptr);
}
FAKE(cuMemPoolCreate, void** pool, const int* properties) {
  ENTER_CONTEXT("cuMemPoolCreate");
  if (!has_pools() || properties[0] != 1 || properties[1] != 0 || properties[2] != 1 || properties[3] < 7)
    return kInvalidValue;
  *pool = new_handle();
  return kSuccess;
}
FAKE(cuMemPoolSetAttribute, void* pool, int, const void*) {
  ENTER_CONTEXT("cuMemPoolSetAttribute");
  return pool != nullptr ? kSuccess : kInvalidValue;
}
FAKE(cuMemAllocFromPoolAsync, unsigned long long* memory, std::size_t bytes, void* pool, void* stream) {
  ENTER_STREAM("cuMemAllocFromPoolAsync");
  return pool != nullptr ? allocate(memory, bytes, found) : kInvalidValue;
}
FAKE(cuMemFreeAsync, unsigned long long memory, void* stream) {
  ENTER_STREAM("cuMemFreeAsync");
  return release(memory, found);
}
FAKE(cuMemHostAlloc, void** memory, std::size_t bytes, unsigned) {
  ENTER_CONTEXT("cuMemHostAlloc");
  *memory = std::malloc(bytes);
  state().pinned[reinterpret_cast<uintptr_t>(*memory)].bytes = bytes;
  return kSuccess;
}
FAKE(cuMemFreeHost, void* memory) {
  ENTER_CONTEXT("cuMemFreeHost");
  if (state().pinned.erase(reinterpret_cast<uintptr_t>(memory)) == 0) return kInvalidValue;
  std::free(memory);
  return kSuccess;
}
FAKE(cuMemcpyAsync, unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  ENTER_STREAM("cuMemcpyAsync");
  const bool to_gpu = find(state().memory, to) != nullptr, from_gpu = find(state().memory, from) != nullptr;
  ++state().copies[to_gpu ? (from_gpu ? "inside" : "to gpu") : (from_gpu ? "to host" : "host")];
  state().order.put(found);
  look_at(from, found, false);
  look_at(to, found, true);
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}
FAKE(cuMemcpyDtoHAsync_v2, void* to, unsigned long long from, std::size_t bytes, void* stream) {
  return cuMemcpyAsync(reinterpret_cast<uintptr_t>(to), from, bytes, stream);
}
FAKE(cuMemcpyHtoDAsync_v2, unsigned long long to, const void* from, std::size_t bytes, void* stream) {
  return cuMemcpyAsync(to, reinterpret_cast<uintptr_t>(from), bytes, stream);
}
FAKE(cuMemcpyDtoDAsync_v2, unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}
FAKE(cuStreamCreate, void** stream, unsigned flags) {
  ENTER_CONTEXT("cuStreamCreate");
  if (flags > 1) return kInvalidValue;
  state().streams[*stream = new_handle()] = contexts.back();
  state().order.add_stream(*stream, flags == 0);
  state().non_blocking += flags;
  return kSuccess;
}
FAKE(cuStreamDestroy_v2, void* stream) {
  ENTER_CONTEXT("cuStreamDestroy");
  if (state().streams.erase(stream) == 0) return kInvalidHandle;
  state().order.remove_stream(stream);
  std::free(stream);
  return kSuccess;
}
FAKE(cuStreamGetCtx, void* stream, void** context) {
  ENTER_CONTEXT("cuStreamGetCtx");
  const auto found = state().streams.find(stream);
  if (found == state().streams.end()) return kInvalidHandle;
  *context = found->second;
  return kSuccess;
}
FAKE(cuStreamSynchronize, void* stream) {
  ENTER_STREAM("cuStreamSynchronize");
  state().order.synchronize(found);
  return kSuccess;
}
FAKE(cuStreamBeginCapture_v2, void* stream, int) {
  ENTER_CONTEXT("cuStreamBeginCapture");
  return state().streams.count(stream) != 0 && state().captured.insert(stream).second ? kSuccess : kInvalidHandle;
}
FAKE(cuStreamEndCapture, void* stream, void** graph) {
  ENTER_CONTEXT("cuStreamEndCapture");
  *graph = nullptr;
  return state().captured.erase(stream) != 0 ? kSuccess : kInvalidHandle;
}
FAKE(cuStreamIsCapturing, void* stream, int* status) {
  ENTER_CONTEXT("cuStreamIsCapturing");
  void* const found = take_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found == kLegacy && !state().captured.empty()) return kCaptureImplicit;
  *status = static_cast<int>(state().captured.count(found));
  return kSuccess;
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
  ENTER_STREAM("cuEventRecord");
  if (state().events.count(event) == 0) return kInvalidHandle;
  state().order.record(event, found);
  return kSuccess;
}
FAKE(cuStreamWaitEvent, void* stream, void* event, unsigned) {
  ENTER_STREAM("cuStreamWaitEvent");
  if (state().captured.count(found) != 0) return kCaptureIsolation;  // the event is from outside
  if (state().events.count(event) == 0) return kInvalidHandle;
  state().order.wait(found, event);
  return kSuccess;
}
FAKE(cuEventSynchronize, void* event) {
  ENTER_CONTEXT("cuEventSynchronize");
  if (state().events.count(event) == 0) return kInvalidHandle;
  state().order.synchronize_event(event);
  return kSuccess;
}
FAKE(cuGetErrorName, Result, const char** name) {
  *name = "CUDA_ERROR_OF_THE_FAKE";
  return kSuccess;
}

// For the tests: a kernel of somebody else.
extern "C" __attribute__((visibility("default"))) void fake_cuda_use(unsigned long long memory, void* stream,
                                                                     int write) {
  const std::lock_guard lock(state().mutex);
  void* const found = take_stream(stream);
  if (found == nullptr) return;
  state().order.put(found);
  look_at(memory, found, write != 0);
}

// For the tests: whether a stream waits for what is on another one.
extern "C" __attribute__((visibility("default"))) int fake_cuda_is_behind(void* stream, void* other) {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().order.is_behind(take_stream(stream), take_stream(other)));
}

// For the tests: "calls cuMemAlloc", "copies to gpu", "live memory", "strays", "runs", "races", ...
extern "C" __attribute__((visibility("default"))) long fake_cuda_count(const char* what) {
  const std::lock_guard lock(state().mutex);
  const std::string text(what);
  const std::size_t space = text.find(' ');
  const std::string kind = text.substr(0, space), name = space == std::string::npos ? "" : text.substr(space + 1);
  if (kind == "calls") return state().calls[name];
  if (kind == "copies") return state().copies[name];
  if (kind == "strays") return state().strays;
  if (kind == "runs") return state().runs;
  if (kind == "races") return state().races;
  if (kind == "nodes") return state().graph_nodes;
  if (kind == "non-blocking") return state().non_blocking;
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
