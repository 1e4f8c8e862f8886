// SPDX-License-Identifier: Apache-2.0
// Measures the machine model of a device, for `fusec doctor --measure`: copies, chains of dependent loads, and
// generated kernels that do nothing but one class of ops. It takes seconds. Figures that no measurement here tells stay
// as they are.
#pragma once

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "runtime/tool/measure/gpu_baseline.h"

namespace fusec::tool {

// The target's model with every figure that was measured in place of what it had. On a CPU each figure is the fastest
// of several tries, since other programs only make it slower; on a GPU the median.
Result<MachineModel> measure_cpu(const Options& options, const Target& target, GpuBaseline::Compile compile);
Result<MachineModel> measure_gpu(const Options& options, const Target& target, GpuBaseline::Compile compile);

}  // namespace fusec::tool
