// SPDX-License-Identifier: Apache-2.0
// Links the Program for one set of shapes: only its own kernels are loaded. Those that the Program for all shapes has,
// too, the constants and the libraries are shared with that one, on a CPU and on a GPU alike.

#include <algorithm>
#include <utility>

#include "ir/support/check.h"
#include "runtime/link/link.h"

namespace fusec::runtime {
namespace {

bool is_same_place(const ir::Allocation& a, const ir::Allocation& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.ordinal == b.ordinal;
}

// Its constants are then those of the other, and its steps may take the other's library calls.
bool has_same_places(const ir::Program& a, const ir::Program& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs && a.constants.size() == b.constants.size() &&
         std::equal(a.allocs.begin(), a.allocs.end(), b.allocs.begin(), b.allocs.end(), is_same_place);
}

}  // namespace

Result<std::shared_ptr<const LoadedProgram>> link_specialized(std::shared_ptr<const LoadedProgram> generic,
                                                              SpecializedProgram special) {
  FUSEC_CHECK(generic->load) << "a Program that was linked without a way to load kernels later";
  if (!has_same_places(generic->program, special.program))
    return Status(StatusCode::internal, "the kernels for these shapes keep their values elsewhere");
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->kernels.resize(special.program.kernels.size());
  for (const auto& [id, same] : special.same) loaded->kernels[id] = generic->kernel(same);
  for (const auto& [id, artifact] : special.artifacts) {
    Result<LoadedKernel> kernel = generic->load(*artifact);
    if (!kernel.ok())
      return kernel.status().with_note("while loading kernel '" + special.program.kernels[id].name + "'");
    loaded->kernels[id] = *std::move(kernel);
    loaded->artifacts.push_back(artifact);
    loaded->specialized.insert(id);
  }
  special.program.constants = generic->program.constants;
  loaded->program = std::move(special.program);
  loaded->libraries = generic->libraries;
  loaded->device = generic->device;
  loaded->generic = std::move(generic);
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

}  // namespace fusec::runtime
