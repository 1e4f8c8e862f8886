// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/gpu_run.h"

#include <gtest/gtest.h>

#include "codegen/ptx/ptx.h"
#include "tests/codegen/lowered.h"

#if FUSEC_WITH_CUDA

#include <algorithm>
#include <cstring>

#include "runtime/device/cuda/handles.h"
#include "runtime/device/cuda/tensors.h"

namespace fusec::codegen_test {
namespace {

using namespace runtime::cuda;

constexpr std::size_t kGuard = 256;  // bytes behind each buffer that must stay
constexpr int kPattern = 0xcd;

struct Gpu {
  std::shared_ptr<Context> context;
  Target target;
};

const Result<Gpu>& gpu() {
  static const Result<Gpu> opened = []() -> Result<Gpu> {
    Gpu out;
    FUSEC_ASSIGN(out.context, Context::open(0));
    FUSEC_ASSIGN(Detected detected, detect(out.context->driver(), out.context->device()));
    out.target = detected.target;
    return out;
  }();
  return opened;
}

// A buffer of the device with a pattern behind its contents.
struct Guarded {
  DeviceBuffer memory;
  std::size_t bytes = 0;
};

Status fill(Guarded& g, const void* from, std::size_t bytes) {
  const Driver& driver = gpu()->context->driver();
  FUSEC_ASSIGN(g.memory, DeviceBuffer::make(gpu()->context, static_cast<int64_t>(bytes + kGuard)));
  g.bytes = bytes;
  FUSEC_TRY(gpu()->context->check(driver.cuMemsetD8(g.memory.address(), kPattern, bytes + kGuard), "cuMemsetD8"));
  if (from == nullptr || bytes == 0) return {};
  return gpu()->context->check(driver.cuMemcpyHtoD(g.memory.address(), from, bytes), "cuMemcpyHtoD");
}

Status fetch(const Guarded& g, void* to) {
  std::vector<unsigned char> all(g.bytes + kGuard);
  const Driver& driver = gpu()->context->driver();
  FUSEC_TRY(gpu()->context->check(driver.cuMemcpyDtoH(all.data(), g.memory.address(), all.size()), "cuMemcpyDtoH"));
  if (to != nullptr && g.bytes > 0) std::memcpy(to, all.data(), g.bytes);
  const bool whole = std::all_of(all.begin() + static_cast<std::ptrdiff_t>(g.bytes), all.end(),
                                 [](unsigned char c) { return c == kPattern; });
  return whole ? Status() : Status(StatusCode::internal, "a write past the end of a buffer");
}

// Of the memory behind a tensor, gaps of strided ones included.
std::size_t span_bytes(const Tensor& t) {
  int64_t last = 0;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    if (t.shape()[i] == 0) return 0;
    last += (t.shape()[i] - 1) * t.strides()[i];
  }
  return static_cast<std::size_t>(last + 1) * size_of(t.dtype());
}

}  // namespace

struct GpuLibrary::State {
  struct Loaded {
    codegen::Artifact artifact;
    Code code;
    std::vector<CUfunction> functions;
  };
  std::vector<ir::Kernel> kernels;
  std::vector<Loaded> loaded;

  static Result<Loaded> load(codegen::Artifact artifact, bool ptx);
  Status run(std::size_t number, const std::vector<Tensor>& args, const Extents& extents, int32_t& status) const;
};

Result<GpuLibrary::State::Loaded> GpuLibrary::State::load(codegen::Artifact artifact, bool ptx) {
  const ContextPtr context = gpu()->context;
  const Driver& driver = context->driver();
  Loaded out;
  out.artifact = std::move(artifact);
  const void* image = ptx ? static_cast<const void*>(out.artifact.ptx.c_str()) : out.artifact.image.data();
  CUlibrary library = nullptr;
  FUSEC_TRY(context->check(driver.cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
                           "cuLibraryLoadData"));
  out.code = Code(library, Release{context});
  for (const codegen::ArtifactPhase& phase : out.artifact.phases) {
    CUkernel kernel = nullptr;
    CUfunction& function = out.functions.emplace_back();
    FUSEC_TRY(context->check(driver.cuLibraryGetKernel(&kernel, library, phase.entry.c_str()), "cuLibraryGetKernel"));
    FUSEC_TRY(context->check(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction"));
    if (phase.dynamic_shared == 0) continue;
    FUSEC_TRY(context->check(driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                       static_cast<int>(phase.dynamic_shared)),
                             "cuFuncSetAttribute"));
  }
  return out;
}

Status GpuLibrary::State::run(std::size_t number, const std::vector<Tensor>& args, const Extents& extents,
                              int32_t& status) const {
  const ContextPtr context = gpu()->context;
  const Driver& driver = context->driver();
  const ir::Kernel& kernel = kernels[number];
  std::vector<Guarded> buffers;
  for (const Tensor& t : args) FUSEC_TRY(fill(buffers.emplace_back(), t.data(), span_bytes(t)));
  for (const ir::Buffer& b : kernel.buffers) {
    if (b.space != ir::Space::scratch) continue;
    FUSEC_TRY(fill(buffers.emplace_back(), nullptr,
                   static_cast<std::size_t>(*named(kernel, num_elements(b.shape)).eval(extents)) * size_of(b.dtype)));
  }
  Guarded word;
  FUSEC_TRY(fill(word, &status, sizeof status));
  std::vector<CUdeviceptr> addresses;
  for (const Guarded& g : buffers) addresses.push_back(g.memory.address());
  std::vector<int64_t> sizes;
  for (const std::string& name : kernel.extents) sizes.push_back(extents.at(name));
  CUdeviceptr status_address = word.memory.address();
  std::vector<void*> parameters;
  for (CUdeviceptr& address : addresses) parameters.push_back(&address);
  for (int64_t& size : sizes) parameters.push_back(&size);
  parameters.push_back(&status_address);
  const Loaded& l = loaded[number];
  for (std::size_t p = 0; p < l.functions.size(); ++p) {
    const codegen::ArtifactPhase& phase = l.artifact.phases[p];
    const int64_t blocks = *phase.iterations.eval(extents);
    if (blocks <= 0) continue;
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(blocks);
    config.blockDimX = static_cast<unsigned>(phase.threads);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(phase.dynamic_shared);
    FUSEC_TRY(context->check(driver.cuLaunchKernelEx(&config, l.functions[p], parameters.data(), nullptr),
                             "cuLaunchKernelEx"));
  }
  FUSEC_TRY(context->check(driver.cuStreamSynchronize(nullptr), "cuStreamSynchronize"));
  for (std::size_t i = 0; i < buffers.size(); ++i)
    FUSEC_TRY(fetch(buffers[i], i < args.size() ? const_cast<void*>(args[i].data()) : nullptr));
  return fetch(word, &status);
}

Status GpuLibrary::available() { return gpu().status(); }

Status GpuLibrary::has(const GpuMode& mode) {
  ir::Kernel kernel;
  const auto probe =
      codegen_test::emit(kernel, gpu().ok() ? gpu()->target : named_target("sm_90").value(), {.codegen = mode.codegen});
  if (probe.status().code() == StatusCode::unsupported) return probe.status();
  return codegen::has_assembler() || mode.ptx ? Status() : Status(StatusCode::unsupported, "no assembler");
}

bool GpuLibrary::has_tile_products() { return gpu().ok() && gpu()->target.has_tile_products; }

std::unique_ptr<GpuLibrary> GpuLibrary::make(const std::vector<ir::Kernel>& kernels, const GpuMode& mode,
                                             int multiprocessors) {
  Target target = gpu()->target;
  if (multiprocessors > 0) target.sm_count = multiprocessors;
  const Current current(*gpu()->context);
  std::unique_ptr<GpuLibrary> out(new GpuLibrary);
  out->state_ = std::make_unique<State>();
  out->state_->kernels = kernels;
  for (const ir::Kernel& kernel : kernels) {
    auto artifact = codegen_test::emit(kernel, target, {.codegen = mode.codegen});
    Result<State::Loaded> loaded = artifact.ok() ? State::load(*std::move(artifact), mode.ptx) : artifact.status();
    EXPECT_TRUE(loaded.ok()) << mode.name << ": " << loaded.status().str();
    if (!loaded.ok()) return nullptr;
    out->state_->loaded.push_back(*std::move(loaded));
  }
  return out;
}

GpuLibrary::~GpuLibrary() {
  const Current current(*gpu()->context);
  state_.reset();
}

RunOutcome GpuLibrary::run(std::size_t kernel, const std::vector<Tensor>& args, const Extents& extents) const {
  const Current current(*gpu()->context);
  RunOutcome out;
  if (const Status status = state_->run(kernel, args, extents, out.status); !status.ok()) out.error = status.str();
  return out;
}

}  // namespace fusec::codegen_test

#else

namespace fusec::codegen_test {

struct GpuLibrary::State {};

Status GpuLibrary::available() { return Status(StatusCode::unsupported, "this build has no CUDA"); }
Status GpuLibrary::has(const GpuMode&) { return available(); }
bool GpuLibrary::has_tile_products() { return false; }
std::unique_ptr<GpuLibrary> GpuLibrary::make(const std::vector<ir::Kernel>&, const GpuMode&, int) { return nullptr; }
GpuLibrary::~GpuLibrary() = default;
RunOutcome GpuLibrary::run(std::size_t, const std::vector<Tensor>&, const Extents&) const { return {}; }

}  // namespace fusec::codegen_test

#endif
