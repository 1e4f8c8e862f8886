// SPDX-License-Identifier: Apache-2.0
// Implements fusec/device.h: device names, tensors on a device, copies, and the list of devices. Opens the device that
// the Options name and determines its Target, before the first stage of compiling or loading; for a GPU this retains
// the context, which the Engine keeps. In a build without CUDA the GPU functions return a Status.

#include "fusec/device.h"

#include <unistd.h>

#include <charconv>

#include "ir/support/check.h"
#include "ir/support/shared_library.h"
#include "runtime/device/device.h"
#include "runtime/device/host/detect.h"
#include "runtime/device/host/memory.h"
#include "runtime/device/machine_model.h"

#if FUSEC_WITH_CUDA
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/tensors.h"
#endif

namespace fusec {
namespace {

#if !FUSEC_WITH_CUDA
Status no_support() { return Status(StatusCode::device, "this build has no GPU support"); }
#endif

DeviceInfo host_info() {
  DeviceInfo info;
  info.name = "CPU";
  info.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  info.limits_source = "from the device";
  if (Result<Target> target = runtime::host_target({}); target.ok()) info.target = *std::move(target);
  return info;
}

Status check_alike(const Tensor& from, const Tensor& to) {
  if (from.dtype() == to.dtype() && from.shape() == to.shape()) return {};
  return Status(StatusCode::invalid_argument, "copy: the two tensors differ in dtype or shape");
}

}  // namespace

std::string to_string(const Device& device) {
  return device.kind == TargetKind::cpu ? "cpu" : "cuda:" + std::to_string(device.ordinal);
}

Result<Device> parse_device(const std::string& text) noexcept {
  if (text == "cpu") return Device{};
  if (text == "cuda") return Device{TargetKind::cuda, 0};
  if (text.starts_with("cuda:")) {
    int ordinal = -1;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + 5, end, ordinal);
    if (error == std::errc() && rest == end && ordinal >= 0) return Device{TargetKind::cuda, ordinal};
  }
  return ir::guarded([&]() -> Result<Device> {
    return Status(StatusCode::invalid_argument,
                  "no device is named '" + text + "'; known are cpu, cuda, cuda:0, cuda:1, ...");
  });
}

Result<Tensor> make_tensor(const Device& device, DType dtype, std::vector<int64_t> shape) noexcept {
  if (device.kind == TargetKind::cpu) return Tensor::make(dtype, std::move(shape));
  return ir::guarded([&]() -> Result<Tensor> {
#if FUSEC_WITH_CUDA
    return runtime::cuda::make_gpu_tensor(device, dtype, std::move(shape));
#else
    return no_support();
#endif
  });
}

namespace {

Status copy_any(const Tensor& from, Tensor& to) {
  FUSEC_TRY(check_alike(from, to));
  if (from.num_elements() == 0) return {};
  if (from.on_host() && to.on_host()) {
    runtime::strided_copy(to.data(), to.strides(), from.data(), from.strides(), from.shape(),
                          static_cast<int64_t>(size_of(from.dtype())));
    return {};
  }
#if FUSEC_WITH_CUDA
  return runtime::cuda::copy_with_gpu(from, to);
#else
  return no_support();
#endif
}

}  // namespace

Status copy(const Tensor& from, Tensor& to) noexcept {
  return ir::guarded([&] { return copy_any(from, to); });
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> out = {host_info()};
#if FUSEC_WITH_CUDA
  for (DeviceInfo& gpu : runtime::cuda::list_gpus()) out.push_back(std::move(gpu));
#endif
  return out;
}

Status gpu_status() noexcept {
  return ir::guarded([] {
#if FUSEC_WITH_CUDA
    return runtime::cuda::driver_status();
#else
    return no_support();
#endif
  });
}

}  // namespace fusec

namespace fusec::runtime {
namespace {

#if FUSEC_WITH_CUDA
Result<Machine> open_gpu(const Device& device, const Options& options) {
  Machine machine{device, {}, nullptr};
  FUSEC_ASSIGN(machine.context, cuda::Context::open(device.ordinal));
  const cuda::Driver& driver = machine.context->driver();
  FUSEC_ASSIGN(machine.target, cuda::cuda_target(driver, machine.context->device(), options.target));
  char name[256] = {};
  if (driver.cuDeviceGetName(name, sizeof(name) - 1, machine.context->device()) == CUDA_SUCCESS)
    machine.hardware = name;
  // What a library would compute becomes generated code where it is missing.
  if (!options.use_library) return machine;
  if (!FUSEC_WITH_CUBLASLT || !open_nvidia_library(kCublasLt).ok()) std::erase(machine.target.libraries, "cublaslt");
  if (!FUSEC_WITH_CUDNN || !open_nvidia_library(kCudnn).ok()) std::erase(machine.target.libraries, "cudnn");
  return machine;
}
#else
Result<Machine> open_gpu(const Device&, const Options&) { return gpu_status(); }
#endif

}  // namespace

namespace {

Result<Machine> open_any(const Options& options) {
  FUSEC_ASSIGN(const Device device, parse_device(options.device));
  if (device.kind == TargetKind::cuda) {
    Result<Machine> machine = open_gpu(device, options);
    if (!machine.ok()) return machine.status().with_note("while opening device '" + options.device + "'");
    return machine;
  }
  Machine machine;
  FUSEC_ASSIGN(machine.target, host_target(options));
  return machine;
}

}  // namespace

std::string machine_key(const Machine& machine) {
  // The name of a processor takes long to read.
  const bool cpu = machine.target.kind == TargetKind::cpu;
  return machine_key(machine.target, cpu ? cpu_name() : machine.hardware);
}

Result<Machine> open_machine(const Options& options) {
  FUSEC_ASSIGN(Machine machine, open_any(options));
  if (!reads_figures(options)) return machine;
  // A database that cannot be read is reported by whoever reads measured times from it, and by `fusec doctor`.
  (void)read_machine_model(options, machine_key(machine), machine.target.model);
  return machine;
}

}  // namespace fusec::runtime
