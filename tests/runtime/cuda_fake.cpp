// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/cuda_fake.h"

#if FUSEC_WITH_CUDA
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <list>

#include "runtime/plan/state.h"
#include "runtime/run/cuda/link.h"

namespace fusec::runtime_test {
namespace {

using Op = std::function<void()>;
using Ops = std::vector<Op>;

struct FakeStream {
  bool capturing = false, broken = false;
  Ops recorded;
  FakeStream* capture = nullptr;  // of the stream that began the capture which an event drew this one into
  bool open = false;              // the other does not wait for what was recorded last
};
struct FakeFunction {
  std::string name;
  FakeDriver::Kernel kernel;
  int max_dynamic = 48 << 10;
};
struct FakeLibrary {
  std::string name;
  std::list<FakeFunction> functions;
};
struct FakeEvent {
  FakeStream* recorded_in = nullptr;
  std::size_t graphs = 0;  // that were launched before
};

FakeDriver* active = nullptr;
std::recursive_mutex mutex;
thread_local std::vector<CUcontext> contexts;
thread_local FakeStream* captured_here = nullptr;

}  // namespace

struct FakeDriver::Impl {
  explicit Impl(FakeDriver& f) : fake(f) {}
  FakeDriver& fake;
  std::set<void*> device, pinned;
  std::set<FakeStream*> streams;
  std::set<FakeEvent*> events;
  std::set<Ops*> graphs, execs;
  std::set<FakeLibrary*> libraries;
  FakeStream default_stream;
  CUresult sticky = CUDA_SUCCESS;

  // What a call answers before it does anything.
  CUresult enter(const char* call, bool needs_context = true) {
    ++fake.calls_;
    fake.log.emplace_back(call);
    if (sticky != CUDA_SUCCESS && needs_context) return sticky;
    if (fake.fail_at_ > 0 && --fake.fail_at_ == 0) {
      fake.failed_call_ = call;
      if (fake.fail_with_ >= CUDA_ERROR_ILLEGAL_ADDRESS && fake.fail_with_ <= CUDA_ERROR_LAUNCH_FAILED)
        sticky = fake.fail_with_;
      return fake.fail_with_;
    }
    if (needs_context && (contexts.empty() || contexts.back() == nullptr)) return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_SUCCESS;
  }

  FakeStream& stream(CUstream handle) {
    if (handle == nullptr) return default_stream;
    auto* s = reinterpret_cast<FakeStream*>(handle);
    EXPECT_TRUE(streams.count(s)) << "a stream that is not there";
    return *s;
  }
  CUresult submit(CUstream handle, Op op) {
    FakeStream& s = stream(handle);
    if (s.capture != nullptr) {
      s.open = true;
      s.capture->recorded.push_back(std::move(op));
    } else if (s.capturing) {
      s.recorded.push_back(std::move(op));
    } else {
      op();
    }
    return CUDA_SUCCESS;
  }
  // Allocation and waiting break a capture of this thread.
  bool forbidden() const {
    if (captured_here == nullptr) return false;
    captured_here->broken = true;
    return true;
  }
};

namespace {

FakeDriver::Impl& impl() { return *active->impl; }

#define FAKE_ENTER(call)             \
  const std::lock_guard lock(mutex); \
  if (CUresult r_ = impl().enter(call); r_ != CUDA_SUCCESS) return r_;
#define FAKE_ENTER_FREE(call)        \
  const std::lock_guard lock(mutex); \
  if (CUresult r_ = impl().enter(call, false); r_ != CUDA_SUCCESS) return r_;
#define FAKE_ENTER_ALONE(call) \
  FAKE_ENTER(call)             \
  if (impl().forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

template <class T>
T* pointer(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}

int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return active->sm / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return active->sm % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 114;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return active->memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return active->bus_bits;
    default:
      return 0;
  }
}

void fill_devices(runtime::cuda::Driver& d) {
  d.cuInit = [](unsigned) { return CUDA_SUCCESS; };
  d.cuDriverGetVersion = [](int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  d.cuGetErrorName = [](CUresult result, const char** text) {
    *text = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_UNKNOWN       ? "CUDA_ERROR_UNKNOWN"
                                                 : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
  };
  d.cuGetErrorString = [](CUresult, const char** text) {
    *text = "in words";
    return CUDA_SUCCESS;
  };
  d.cuDeviceGetCount = [](int* count) {
    FAKE_ENTER_FREE("cuDeviceGetCount")
    *count = active->gpus;
    return CUDA_SUCCESS;
  };
  d.cuDeviceGet = [](CUdevice* device, int ordinal) {
    FAKE_ENTER_FREE("cuDeviceGet")
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  d.cuDeviceGetName = [](char* name, int length, CUdevice) {
    std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
    return CUDA_SUCCESS;
  };
  d.cuDeviceTotalMem = [](std::size_t* bytes, CUdevice) {
    *bytes = std::size_t{80} << 30;
    return CUDA_SUCCESS;
  };
  d.cuDeviceGetAttribute = [](int* value, CUdevice_attribute which, CUdevice) {
    *value = attribute(which);
    return CUDA_SUCCESS;
  };
  d.cuMemGetInfo = [](std::size_t* free, std::size_t* total) {
    *free = 1000;
    *total = 2000;
    return CUDA_SUCCESS;
  };
}

void fill_contexts(runtime::cuda::Driver& d) {
  d.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    FAKE_ENTER_FREE("cuDevicePrimaryCtxRetain")
    *context = active->primary(device);
    ++*reinterpret_cast<int*>(*context);
    return CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRelease = [](CUdevice device) {
    const std::lock_guard lock(mutex);
    --*reinterpret_cast<int*>(active->primary(device));
    return CUDA_SUCCESS;
  };
  d.cuCtxGetCurrent = [](CUcontext* context) {
    FAKE_ENTER_FREE("cuCtxGetCurrent")
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
  };
  d.cuCtxPushCurrent = [](CUcontext context) {
    FAKE_ENTER_FREE("cuCtxPushCurrent")
    contexts.push_back(context);
    return CUDA_SUCCESS;
  };
  d.cuCtxPopCurrent = [](CUcontext* context) {
    *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
  };
}

void fill_memory(runtime::cuda::Driver& d) {
  d.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    FAKE_ENTER_ALONE("cuMemAlloc")
    void* const data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(data, 0xcd, bytes);
    impl().device.insert(data);
    *address = reinterpret_cast<CUdeviceptr>(data);
    return CUDA_SUCCESS;
  };
  d.cuMemFree = [](CUdeviceptr address) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(impl().device.erase(pointer<void>(address)), 1u);
    std::free(pointer<void>(address));
    return CUDA_SUCCESS;
  };
  d.cuMemHostAlloc = [](void** data, std::size_t bytes, unsigned) {
    FAKE_ENTER_ALONE("cuMemHostAlloc")
    *data = std::malloc(bytes);
    impl().pinned.insert(*data);
    return CUDA_SUCCESS;
  };
  d.cuMemFreeHost = [](void* data) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(impl().pinned.erase(data), 1u);
    std::free(data);
    return CUDA_SUCCESS;
  };
}

void fill_copies(runtime::cuda::Driver& d) {
  d.cuMemcpyHtoD = [](CUdeviceptr to, const void* from, std::size_t bytes) {
    FAKE_ENTER_ALONE("cuMemcpyHtoD")
    std::memcpy(pointer<void>(to), from, bytes);
    return CUDA_SUCCESS;
  };
  d.cuMemcpyDtoH = [](void* to, CUdeviceptr from, std::size_t bytes) {
    FAKE_ENTER_ALONE("cuMemcpyDtoH")
    std::memcpy(to, pointer<void>(from), bytes);
    return CUDA_SUCCESS;
  };
  d.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    FAKE_ENTER("cuMemcpyHtoDAsync")
    EXPECT_TRUE(impl().pinned.count(const_cast<void*>(from))) << "an asynchronous copy from memory that is not pinned";
    return impl().submit(stream, [=] { std::memcpy(pointer<void>(to), from, bytes); });
  };
  d.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    FAKE_ENTER("cuMemcpyDtoHAsync")
    EXPECT_TRUE(impl().pinned.count(to)) << "an asynchronous copy to memory that is not pinned";
    return impl().submit(stream, [=] { std::memcpy(to, pointer<void>(from), bytes); });
  };
  d.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    FAKE_ENTER("cuMemcpyDtoDAsync")
    return impl().submit(stream, [=] { std::memmove(pointer<void>(to), pointer<void>(from), bytes); });
  };
  d.cuMemcpy2DAsync = [](const CUDA_MEMCPY2D* given, CUstream stream) {
    FAKE_ENTER("cuMemcpy2DAsync")
    EXPECT_GE(given->srcPitch, given->WidthInBytes);
    EXPECT_GE(given->dstPitch, given->WidthInBytes);
    return impl().submit(stream, [c = *given] {
      for (std::size_t row = 0; row < c.Height; ++row) {
        std::memcpy(pointer<char>(c.dstDevice) + row * c.dstPitch, pointer<char>(c.srcDevice) + row * c.srcPitch,
                    c.WidthInBytes);
      }
    });
  };
  d.cuMemsetD8 = [](CUdeviceptr to, unsigned char value, std::size_t bytes) {
    FAKE_ENTER("cuMemsetD8")
    std::memset(pointer<void>(to), value, bytes);
    return CUDA_SUCCESS;
  };
  d.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
    FAKE_ENTER("cuMemsetD32Async")
    return impl().submit(stream, [=] { std::fill_n(pointer<unsigned>(to), count, value); });
  };
}

void fill_streams(runtime::cuda::Driver& d) {
  d.cuStreamCreate = [](CUstream* stream, unsigned flags) {
    FAKE_ENTER_ALONE("cuStreamCreate")
    EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    auto* const made = new FakeStream;
    impl().streams.insert(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
  };
  d.cuStreamDestroy = [](CUstream stream) {
    const std::lock_guard lock(mutex);
    auto* const s = reinterpret_cast<FakeStream*>(stream);
    EXPECT_EQ(impl().streams.erase(s), 1u);
    delete s;
    return CUDA_SUCCESS;
  };
  d.cuStreamSynchronize = [](CUstream stream) {
    FAKE_ENTER_ALONE("cuStreamSynchronize")
    EXPECT_FALSE(impl().stream(stream).capturing);
    return CUDA_SUCCESS;
  };
  d.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    FAKE_ENTER("cuStreamWaitEvent")
    active->waits.push_back(stream);
    auto* const e = reinterpret_cast<FakeEvent*>(event);
    EXPECT_TRUE(impl().events.count(e));
    FakeStream& waiting = impl().stream(stream);
    FakeStream* const from = e->recorded_in;
    if (from == nullptr) return CUDA_SUCCESS;
    if (from->capturing && &waiting != from) {
      waiting.capture = from;
      waiting.open = true;
    } else if (from->capture == &waiting) {
      from->open = false;
    }
    return CUDA_SUCCESS;
  };
  d.cuEventCreate = [](CUevent* event, unsigned) {
    FAKE_ENTER_ALONE("cuEventCreate")
    auto* const made = new FakeEvent;
    impl().events.insert(made);
    *event = reinterpret_cast<CUevent>(made);
    return CUDA_SUCCESS;
  };
  d.cuEventDestroy = [](CUevent event) {
    const std::lock_guard lock(mutex);
    auto* const e = reinterpret_cast<FakeEvent*>(event);
    EXPECT_EQ(impl().events.erase(e), 1u);
    delete e;
    return CUDA_SUCCESS;
  };
  d.cuEventRecord = [](CUevent event, CUstream stream) {
    FAKE_ENTER("cuEventRecord")
    auto* const e = reinterpret_cast<FakeEvent*>(event);
    EXPECT_TRUE(impl().events.count(e));
    FakeStream& s = impl().stream(stream);
    e->graphs = active->graph_streams.size();
    e->recorded_in = s.capturing || s.capture != nullptr ? &s : nullptr;
    return CUDA_SUCCESS;
  };
  d.cuEventSynchronize = [](CUevent) {
    FAKE_ENTER_ALONE("cuEventSynchronize")
    return CUDA_SUCCESS;
  };
  d.cuEventElapsedTime = [](float* ms, CUevent begin, CUevent end) {
    FAKE_ENTER("cuEventElapsedTime")
    const std::size_t graphs = reinterpret_cast<FakeEvent*>(end)->graphs - reinterpret_cast<FakeEvent*>(begin)->graphs;
    *ms = active->elapsed_ms() * static_cast<float>(std::max<std::size_t>(graphs, 1));
    return CUDA_SUCCESS;
  };
}

void fill_graphs(runtime::cuda::Driver& d) {
  d.cuStreamBeginCapture = [](CUstream stream, CUstreamCaptureMode mode) {
    FAKE_ENTER("cuStreamBeginCapture")
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    FakeStream& s = impl().stream(stream);
    s.capturing = true;
    s.broken = false;
    s.recorded.clear();
    captured_here = &s;
    return CUDA_SUCCESS;
  };
  d.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    FAKE_ENTER("cuStreamIsCapturing")
    *status = impl().stream(stream).capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  d.cuStreamEndCapture = [](CUstream stream, CUgraph* graph) {
    const std::lock_guard lock(mutex);
    FakeStream& s = impl().stream(stream);
    EXPECT_TRUE(s.capturing);
    s.capturing = false;  // whatever is answered
    captured_here = nullptr;
    *graph = nullptr;
    bool open = false;
    for (FakeStream* branch : impl().streams) {
      if (branch->capture != &s) continue;
      open = open || branch->open;
      branch->capture = nullptr;
    }
    if (CUresult r = impl().enter("cuStreamEndCapture"); r != CUDA_SUCCESS) return r;
    if (open) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (s.broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    auto* const made = new Ops(std::move(s.recorded));
    impl().graphs.insert(made);
    *graph = reinterpret_cast<CUgraph>(made);
    return CUDA_SUCCESS;
  };
  d.cuGraphInstantiate = [](CUgraphExec* exec, CUgraph graph, unsigned long long) {
    FAKE_ENTER("cuGraphInstantiate")
    auto* const made = new Ops(*reinterpret_cast<Ops*>(graph));
    impl().execs.insert(made);
    *exec = reinterpret_cast<CUgraphExec>(made);
    return CUDA_SUCCESS;
  };
  d.cuGraphDestroy = [](CUgraph graph) {
    const std::lock_guard lock(mutex);
    auto* const g = reinterpret_cast<Ops*>(graph);
    EXPECT_EQ(impl().graphs.erase(g), 1u);
    delete g;
    return CUDA_SUCCESS;
  };
  d.cuGraphExecDestroy = [](CUgraphExec exec) {
    const std::lock_guard lock(mutex);
    auto* const g = reinterpret_cast<Ops*>(exec);
    impl().fake.log.emplace_back("cuGraphExecDestroy");
    EXPECT_EQ(impl().execs.erase(g), 1u);
    delete g;
    return CUDA_SUCCESS;
  };
  d.cuGraphUpload = [](CUgraphExec, CUstream) {
    FAKE_ENTER("cuGraphUpload")
    return CUDA_SUCCESS;
  };
  d.cuGraphLaunch = [](CUgraphExec exec, CUstream stream) {
    FAKE_ENTER("cuGraphLaunch")
    active->graph_streams.push_back(stream);
    return impl().submit(stream, [ops = *reinterpret_cast<Ops*>(exec)] {
      for (const Op& op : ops) op();
    });
  };
}

void run_kernel(const FakeFunction& function, const FakeLaunch& launch) {
  active->launches.push_back(launch);
  std::vector<void*> buffers;
  std::vector<int64_t> extents;
  const FakeDriver::Kernel& k = function.kernel;
  for (int i = 0; i < k.buffers; ++i) buffers.push_back(pointer<void>(launch.params[static_cast<std::size_t>(i)]));
  for (int i = 0; i < k.extents; ++i)
    extents.push_back(static_cast<int64_t>(launch.params[static_cast<std::size_t>(k.buffers + i)]));
  const codegen::HostArgs args{buffers.data(), extents.data(), nullptr, pointer<int32_t>(launch.params.back())};
  k.function(&args, 0, launch.grid, nullptr);
}

bool starts_early(const CUlaunchConfig& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const CUlaunchAttribute& attribute) {
    return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
           attribute.value.programmaticStreamSerializationAllowed != 0;
  });
}

void fill_code(runtime::cuda::Driver& d) {
  d.cuLibraryLoadData = [](CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
    FAKE_ENTER("cuLibraryLoadData")
    const std::string text = static_cast<const char*>(code);
    const bool cubin = text.starts_with("cubin:");
    if (cubin ? active->refuse_cubins : !text.starts_with("ptx:")) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    auto* const made = new FakeLibrary{text.substr(text.find(':') + 1), {}};
    impl().libraries.insert(made);
    *library = reinterpret_cast<CUlibrary>(made);
    return CUDA_SUCCESS;
  };
  d.cuLibraryUnload = [](CUlibrary library) {
    const std::lock_guard lock(mutex);
    auto* const l = reinterpret_cast<FakeLibrary*>(library);
    EXPECT_EQ(impl().libraries.erase(l), 1u);
    delete l;
    return CUDA_SUCCESS;
  };
  d.cuLibraryGetKernel = [](CUkernel* kernel, CUlibrary library, const char* name) {
    FAKE_ENTER("cuLibraryGetKernel")
    auto& l = *reinterpret_cast<FakeLibrary*>(library);
    if (l.name != name || !active->kernels.count(name)) return CUDA_ERROR_NOT_FOUND;
    l.functions.push_back({name, active->kernels[name]});
    *kernel = reinterpret_cast<CUkernel>(&l.functions.back());
    return CUDA_SUCCESS;
  };
  d.cuKernelGetFunction = [](CUfunction* function, CUkernel kernel) {
    FAKE_ENTER("cuKernelGetFunction")
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
  };
  d.cuFuncLoad = [](CUfunction) {
    FAKE_ENTER("cuFuncLoad")
    return CUDA_SUCCESS;
  };
  d.cuFuncGetName = [](const char** name, CUfunction function) {
    FAKE_ENTER("cuFuncGetName")
    *name = reinterpret_cast<FakeFunction*>(function)->name.c_str();
    return CUDA_SUCCESS;
  };
  d.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
    FAKE_ENTER("cuFuncGetAttribute")
    *value = 32;
    return CUDA_SUCCESS;
  };
  d.cuFuncSetAttribute = [](CUfunction function, CUfunction_attribute, int value) {
    FAKE_ENTER("cuFuncSetAttribute")
    reinterpret_cast<FakeFunction*>(function)->max_dynamic = value;
    return CUDA_SUCCESS;
  };
  d.cuLaunchKernelEx = [](const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
    FAKE_ENTER("cuLaunchKernelEx")
    const auto& function = *reinterpret_cast<FakeFunction*>(handle);
    const unsigned grid = config->gridDimX, block = config->blockDimX, shared = config->sharedMemBytes;
    if (grid == 0 || block == 0 || static_cast<int>(shared) > function.max_dynamic) return CUDA_ERROR_INVALID_VALUE;
    FakeLaunch launch{function.name, grid, block, shared, {}, config->hStream, starts_early(*config)};
    for (int i = 0; i < function.kernel.buffers + function.kernel.extents + 1; ++i) {
      launch.params.push_back(*static_cast<const uint64_t*>(params[i]));
    }
    return impl().submit(config->hStream, [&function, launch] { run_kernel(function, launch); });
  };
}

}  // namespace

FakeDriver::FakeDriver() : impl(std::make_unique<Impl>(*this)) {
  EXPECT_EQ(active, nullptr);
  active = this;
  fill_devices(table_);
  fill_contexts(table_);
  fill_memory(table_);
  fill_copies(table_);
  fill_streams(table_);
  fill_graphs(table_);
  fill_code(table_);
  installed_ = std::make_unique<runtime::cuda::DriverForTest>(table_);
}

FakeDriver::~FakeDriver() {
  // A context that cannot be made current keeps what was to be given back.
  if (!failed_call_.starts_with("cuCtx") && impl->sticky == CUDA_SUCCESS) {
    const std::size_t left[] = {impl->device.size(), impl->pinned.size(), impl->streams.size(),  impl->events.size(),
                                impl->graphs.size(), impl->execs.size(),  impl->libraries.size()};
    for (const std::size_t count : left)
      EXPECT_EQ(count, 0u) << "handle " << &count - left << " after " << failed_call_;
  }
  for (void* data : impl->device) std::free(data);
  for (void* data : impl->pinned) std::free(data);
  for (FakeStream* stream : impl->streams) delete stream;
  for (FakeEvent* event : impl->events) delete event;
  for (Ops* graph : impl->graphs) delete graph;
  for (Ops* graph : impl->execs) delete graph;
  for (FakeLibrary* library : impl->libraries) delete library;
  for (const auto& [ordinal, retained] : primaries_) EXPECT_EQ(retained, 0) << "cuda:" << ordinal;
  installed_.reset();
  active = nullptr;
}

void FakeDriver::fail(int at, CUresult with) {
  fail_at_ = at;
  fail_with_ = with;
  failed_call_.clear();
}

int FakeDriver::count(const std::string& call) const {
  return static_cast<int>(std::count(log.begin(), log.end(), call));
}
CUcontext FakeDriver::current() { return contexts.empty() ? nullptr : contexts.back(); }
void FakeDriver::set_current(CUcontext context) {
  contexts.clear();
  if (context != nullptr) contexts.push_back(context);
}

Result<Engine> gpu_engine(const ProgramBuilder& builder, FakeDriver& fake, const Options& options,
                          std::vector<std::shared_ptr<runtime::Library>> libraries) {
  runtime::Artifacts artifacts;
  for (const auto& [id, spec] : builder.specs()) {
    fake.kernels[spec.name] = {spec.inputs + spec.outputs, 1, spec.function};
    auto artifact = std::make_shared<codegen::Artifact>();
    const std::string image = "cubin:" + spec.name;
    artifact->image.assign(image.begin(), image.end());
    artifact->image.push_back(0);
    artifact->ptx = "ptx:" + spec.name;
    codegen::ArtifactPhase phase;
    phase.iterations = n();
    phase.entry = spec.name;
    phase.threads = 128;
    phase.dynamic_shared = spec.alignment == 64 ? 64 << 10 : 0;
    phase.waits = spec.waits;
    artifact->phases.push_back(phase);
    artifacts[id] = std::move(artifact);
  }
  FUSEC_ASSIGN(const std::shared_ptr<runtime::cuda::Context> context, runtime::cuda::Context::open(0));
  auto state = std::make_shared<runtime::EngineState>();
  FUSEC_ASSIGN(state->loaded, runtime::cuda::link(builder.program, artifacts, std::move(libraries), context));
  state->device = {TargetKind::cuda, 0};
  state->target = named_target("sm_90").value();
  state->options = options;
  state->inputs = builder.inputs(), state->outputs = builder.outputs();
  return Engine(std::move(state));
}

}  // namespace fusec::runtime_test
#endif
