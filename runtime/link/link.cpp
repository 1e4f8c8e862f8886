// SPDX-License-Identifier: Apache-2.0
// Links for the CPU: copies the images of all picked kernels into executable memory and resolves their entries and math
// functions. It also holds the parts of link that a GPU shares: listing the kernels and aligning the constants.

#include "runtime/link/link.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "codegen/artifact/evaluated.h"
#include "ir/support/check.h"

namespace fusec::runtime {
namespace {

Result<LoadedKernel> resolve(const codegen::Artifact& artifact, const std::byte* image) {
  LoadedKernel kernel;
  kernel.local_bytes = artifact.local_bytes;
  if (codegen::is_evaluated(artifact)) {
    FUSEC_ASSIGN(codegen::EvaluatedKernel evaluated, codegen::load_evaluated(artifact));
    kernel.phases.push_back({.function = evaluated.function, .iterations = 1});
    kernel.externs.push_back(evaluated.kernel.get());
    kernel.code = std::move(evaluated.kernel);
    return kernel;
  }
  for (const codegen::ArtifactPhase& phase : artifact.phases) {
    FUSEC_CHECK(phase.offset < artifact.image.size()) << "an entry lies outside its image";
    auto function = reinterpret_cast<codegen::HostFunction>(reinterpret_cast<uintptr_t>(image) + phase.offset);
    kernel.phases.push_back({.function = function, .iterations = phase.iterations});
  }
  for (const std::string& name : artifact.externs) {
    FUSEC_ASSIGN(const void* address, math_function(name.c_str()));
    kernel.externs.push_back(address);
  }
  return kernel;
}

// An image of its own.
Result<LoadedKernel> load_alone(const codegen::Artifact& artifact) {
  const std::span<const uint8_t> image(artifact.image);
  FUSEC_ASSIGN(CodeMemory memory, CodeMemory::load(std::span(&image, 1)));
  auto code = std::make_shared<const CodeMemory>(std::move(memory));
  FUSEC_ASSIGN(LoadedKernel kernel, resolve(artifact, code->image(0)));
  if (kernel.code == nullptr) kernel.code = std::move(code);
  return kernel;
}

void add_kernels(const ir::Variant& variant, std::set<ir::KernelId>& to) {
  FUSEC_CHECK(variant.picked >= 0 && static_cast<std::size_t>(variant.picked) < variant.candidates.size())
      << "a variant without a picked candidate: select has not run";
  for (const ir::Step& step : variant.candidates[static_cast<std::size_t>(variant.picked)].steps) {
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) to.insert(launch->kernel);
  }
}

// Null if link loads all kernels.
std::unique_ptr<LaterKernels> later_kernels(const ir::Program& program, const Artifacts& artifacts,
                                            ObtainKernels obtain) {
  const std::vector<ir::KernelId> picked = picked_kernels(program), usual = usual_kernels(program);
  std::set<ir::KernelId> later;
  std::set_difference(picked.begin(), picked.end(), usual.begin(), usual.end(), std::inserter(later, later.end()));
  if (later.empty()) return nullptr;
  return std::make_unique<LaterKernels>(std::move(later), artifacts, std::move(obtain));
}

// Kernels assume that constants are row-major and aligned as the arena is.
Status align_constants(ir::Program& program) {
  for (Tensor& constant : program.constants) {
    FUSEC_CHECK(constant.is_contiguous()) << "a constant of a Program is not row-major";
    if (reinterpret_cast<uintptr_t>(constant.data()) % kAlignment == 0) continue;
    FUSEC_ASSIGN(Tensor copy, Tensor::make(constant.dtype(), constant.shape()));
    if (constant.bytes() > 0) std::memcpy(copy.data(), std::as_const(constant).data(), constant.bytes());
    constant = std::move(copy);
  }
  return {};
}

}  // namespace

std::vector<ir::KernelId> picked_kernels(const ir::Program& program) {
  std::set<ir::KernelId> used;
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants) add_kernels(variant, used);
  return {used.begin(), used.end()};
}

std::vector<ir::KernelId> usual_kernels(const ir::Program& program) {
  std::set<ir::KernelId> used;
  for (const ir::Slot& slot : program.slots)
    if (!slot.variants.empty()) add_kernels(slot.variants.front(), used);
  return {used.begin(), used.end()};
}

Result<std::shared_ptr<LoadedProgram>> begin_link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries,
                                                  ObtainKernels obtain) {
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->later = later_kernels(program, artifacts, std::move(obtain));
  for (ir::KernelId id : usual_kernels(program)) {
    auto it = artifacts.find(id);
    FUSEC_CHECK(it != artifacts.end() && it->second) << "no artifact for kernel " << program.kernels[id].name;
    loaded->artifacts.push_back(it->second);
  }
  FUSEC_TRY(align_constants(program));
  loaded->kernels.resize(program.kernels.size());
  loaded->program = std::move(program);
  loaded->libraries = std::move(libraries);
  return loaded;
}

Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries,
                                                  ObtainKernels obtain) {
  FUSEC_ASSIGN(std::shared_ptr<LoadedProgram> loaded,
               begin_link(std::move(program), artifacts, std::move(libraries), std::move(obtain)));
  loaded->load = load_alone;
  if (loaded->later) loaded->later->set_load(load_alone);
  std::vector<std::span<const uint8_t>> images;
  for (const auto& artifact : loaded->artifacts) images.emplace_back(artifact->image);
  FUSEC_ASSIGN(loaded->code, CodeMemory::load(images));
  std::size_t i = 0;
  for (ir::KernelId id : usual_kernels(loaded->program)) {
    FUSEC_ASSIGN(loaded->kernels[id], resolve(*loaded->artifacts[i], loaded->code.image(i)));
    ++i;
  }
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

}  // namespace fusec::runtime
