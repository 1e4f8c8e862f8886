// SPDX-License-Identifier: Apache-2.0
// What the other folders need of a GPU's runs: link, which puts cubins and constants in its memory; the Runner, which
// has a stream, an arena, Frames on it with their graphs, and staging memory for tensors of the host and for those that
// kernels cannot take where they lie; and device memory for the packed weights of libraries.
#pragma once

#include <memory>
#include <vector>

#include "fusec/options.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/handles.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/link/link.h"
#include "runtime/run/cuda/constants.h"
#include "runtime/run/runner.h"

namespace fusec::runtime::cuda {

class Program final : public DeviceProgram {
 public:
  explicit Program(ContextPtr gpu) : context(std::move(gpu)) {}
  Device device() const override { return {TargetKind::cuda, context->ordinal()}; }
  Result<std::shared_ptr<void>> enter() const override;
  Result<std::unique_ptr<Runner>> make_runner(const ir::Program& program, const Options& options,
                                              const MachineModel& machine) const override;
  Result<std::unique_ptr<CallStopwatch>> make_stopwatch(int64_t flush_bytes) const override;
  Result<std::unique_ptr<LibraryOp>> make_plan_op(PlanPtr plan) const override;
  std::string name() const override;

  ContextPtr context;
  DeviceConstants constants;  // of ir::Program::constants
};

// As runtime::link. Functions are loaded here or by a bind, none at its first launch. PTX is taken where the driver
// refuses the cubin. Constants stay on the host too, because libraries pack weights from there. upload_ms, if not null:
// grows by the time that moving constants took.
Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries, ContextPtr context,
                                                  double* upload_ms = nullptr, ObtainKernels obtain = {});

// Keeps the context. Makes it current for each call.
std::shared_ptr<DeviceMemory> make_library_memory(ContextPtr context);

Result<std::unique_ptr<Runner>> make_runner(const ir::Program& program, ContextPtr context, const Options& options,
                                            const MachineModel& machine);

}  // namespace fusec::runtime::cuda
