// SPDX-License-Identifier: Apache-2.0
// Links for a GPU: loads each cubin, or its PTX if the driver refuses the cubin, resolves every function, and has the
// constants uploaded. Functions are loaded here, or by the bind that first needs them, and not at their
// first launch, because a launch that loads code may wait for other work and cannot be captured.

#include "runtime/run/cuda/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace fusec::runtime::cuda {
namespace {

constexpr int64_t kPlainShared = 48 << 10;  // bytes of shared memory that a block may have without asking

Status load_image(const Context& context, const void* image, CUlibrary& to) {
  const CUresult result = context.driver().cuLibraryLoadData(&to, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return context.check(result, "cuLibraryLoadData");
}

struct LoadedCode {
  Code code;
  bool is_cubin = true;
};

// The cubin, else the PTX.
Result<LoadedCode> load_code(const ContextPtr& context, const codegen::Artifact& artifact) {
  CUlibrary library = nullptr;
  bool is_cubin = true;
  Status status(StatusCode::device, "there is no cubin");
  if (!artifact.image.empty()) status = load_image(*context, artifact.image.data(), library);
  if (!status.ok() && !artifact.ptx.empty() && context->alive().ok()) {
    if (Status as_ptx = load_image(*context, artifact.ptx.c_str(), library); !as_ptx.ok()) {
      return std::move(as_ptx).with_note("while loading PTX, because the cubin was refused: " + status.message());
    }
    status = {};
    is_cubin = false;
  }
  FUSEC_TRY(status);
  return LoadedCode{Code(library, Release{context}), is_cubin};
}

// Loads the function now. A first launch that loads it may wait for other work and cannot be captured.
Status touch(const Context& context, CUfunction function) {
  const Driver& driver = context.driver();
  if (driver.cuFuncLoad != nullptr) return context.check(driver.cuFuncLoad(function), "cuFuncLoad");
  int registers = 0;
  return context.check(driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                       "cuFuncGetAttribute");
}

Result<LoadedKernel::Phase> load_phase(const Context& context, const LoadedCode& code,
                                       const codegen::ArtifactPhase& phase) {
  const Driver& driver = context.driver();
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  FUSEC_TRY(
      context.check(driver.cuLibraryGetKernel(&kernel, code.code.get(), phase.entry.c_str()), "cuLibraryGetKernel"));
  FUSEC_TRY(context.check(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction"));
  FUSEC_TRY(touch(context, function));
  if (phase.dynamic_shared + phase.shared_bytes > kPlainShared) {
    const CUresult result = driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                      static_cast<int>(phase.dynamic_shared));
    FUSEC_TRY(context.check(result, "cuFuncSetAttribute"));
  }
  return LoadedKernel::Phase{nullptr,
                             phase.iterations,
                             function,
                             std::max(phase.threads, 1),
                             phase.dynamic_shared,
                             phase.waits && code.is_cubin};  // the driver may order the instructions otherwise
}

Result<LoadedKernel> load_kernel(const ContextPtr& context, const codegen::Artifact& artifact) {
  FUSEC_ASSIGN(LoadedCode code, load_code(context, artifact));
  LoadedKernel kernel;
  for (const codegen::ArtifactPhase& phase : artifact.phases) {
    Result<LoadedKernel::Phase> made = load_phase(*context, code, phase);
    if (!made.ok()) return made.status().with_note("while loading function '" + phase.entry + "'");
    kernel.phases.push_back(*std::move(made));
  }
  kernel.code = std::make_shared<const Code>(std::move(code.code));
  return kernel;
}

// As a bind calls it, on any thread.
LoadKernel load_later(const ContextPtr& context) {
  return [context](const codegen::Artifact& artifact) -> Result<LoadedKernel> {
    const Current current(*context);
    FUSEC_TRY(current.status());
    return load_kernel(context, artifact);
  };
}

// By index: whether only convolutions read the constant, as their filter. Many calls pack it, and read that alone.
std::vector<bool> filters_alone(const ir::Program& program) {
  constexpr std::size_t kFilter = 1;
  std::vector<bool> as_filter(program.constants.size()), otherwise(program.constants.size());
  const auto mark = [&](std::vector<bool>& list, ir::AllocId id) {
    const ir::Allocation& alloc = program.allocs[id];
    if (alloc.kind == ir::AllocKind::constant) list[alloc.ordinal] = true;
  };
  const auto visit = [&](const ir::Step& step) {
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) {
      for (const ir::View& view : launch->args) mark(otherwise, view.alloc);
    } else {
      const auto& call = std::get<ir::LibraryStep>(step.v);
      for (std::size_t i = 0; i < call.args.size(); ++i)
        mark(call.op == ir::TensorOp::conv && i == kFilter ? as_filter : otherwise, call.args[i].alloc);
    }
  };
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants)
      for (const auto& candidate : variant.candidates)
        for (const ir::Step& step : candidate.steps) visit(step);
  for (const ir::AllocId id : program.outputs) mark(otherwise, id);
  for (std::size_t i = 0; i < as_filter.size(); ++i) as_filter[i] = as_filter[i] && !otherwise[i];
  return as_filter;
}

double milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

Result<std::shared_ptr<void>> Program::enter() const {
  FUSEC_TRY(context->alive());
  auto current = std::make_shared<Current>(*context);
  FUSEC_TRY(current->status());
  return std::shared_ptr<void>(std::move(current));
}

Result<std::unique_ptr<Runner>> Program::make_runner(const ir::Program& program, const Options& options,
                                                     const MachineModel& machine) const {
  return cuda::make_runner(program, context, options, machine);
}

Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries, ContextPtr context,
                                                  double* upload_ms, ObtainKernels obtain) {
  using Clock = std::chrono::steady_clock;
  const Current current(*context);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(std::shared_ptr<LoadedProgram> loaded,
               begin_link(std::move(program), artifacts, std::move(libraries), std::move(obtain)));
  loaded->load = load_later(context);
  if (loaded->later) loaded->later->set_load(loaded->load);
  auto device = std::make_shared<Program>(std::move(context));
  std::size_t i = 0;
  for (ir::KernelId id : usual_kernels(loaded->program)) {
    Result<LoadedKernel> kernel = load_kernel(device->context, *loaded->artifacts[i++]);
    if (!kernel.ok())
      return kernel.status().with_note("while loading kernel '" + loaded->program.kernels[id].name + "'");
    loaded->kernels[id] = *std::move(kernel);
  }
  const Clock::time_point start = Clock::now();
  Result<DeviceConstants> constants =
      upload_constants(device->context, loaded->program.constants, filters_alone(loaded->program));
  if (!constants.ok()) {
    return std::move(constants).status().with_note("while moving the model's constants to " + device->context->name());
  }
  device->constants = std::move(constants).value();
  if (upload_ms != nullptr) *upload_ms += milliseconds(Clock::now() - start);
  loaded->device = std::move(device);
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

}  // namespace fusec::runtime::cuda
