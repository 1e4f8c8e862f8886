// SPDX-License-Identifier: Apache-2.0
// Opens the device that the Options name and determines its Target, before the first stage of compiling or loading. For
// a GPU this retains the context, which the Engine keeps.

#include "runtime/device/open.h"

#include "fusec/device.h"
#include "runtime/device/host/detect.h"
#if FUSEC_WITH_CUDA
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/detect.h"
#endif

namespace fusec::runtime {
namespace {

#if FUSEC_WITH_CUDA
Result<Machine> open_gpu(const Device& device, const Options& options) {
  Machine machine{device, {}, nullptr};
  FUSEC_ASSIGN(machine.context, cuda::Context::open(device.ordinal));
  const cuda::Driver& driver = machine.context->driver();
  FUSEC_ASSIGN(machine.target, cuda::cuda_target(driver, machine.context->device(), options.target));
  return machine;
}
#else
Result<Machine> open_gpu(const Device&, const Options&) { return gpu_status(); }
#endif

}  // namespace

Result<Machine> open_machine(const Options& options) {
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

}  // namespace fusec::runtime
