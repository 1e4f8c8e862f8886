// SPDX-License-Identifier: Apache-2.0
// link: Program + Artifacts -> LoadedProgram: machine code in executable memory, entries and math functions resolved,
// constants aligned. No shapes yet.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codegen/artifact.h"
#include "fusec/status.h"
#include "ir/program.h"
#include "runtime/device/host/memory.h"
#include "runtime/library/library.h"

namespace fusec::runtime {

struct LoadedKernel {
  struct Phase {
    codegen::HostFunction function = nullptr;
    Dim iterations;
  };
  std::vector<Phase> phases;
  std::vector<const void*> externs;
  Dim local_bytes;
};

// Immutable but for the caches inside the libraries; shared by all Plans bound from it.
struct LoadedProgram {
  ir::Program program;
  ir::IdVector<ir::KernelId, LoadedKernel> kernels;  // without phases: not used by any picked candidate
  std::vector<std::shared_ptr<Library>> libraries;
  std::vector<std::shared_ptr<const codegen::Artifact>> artifacts;  // kept so that equal kernels are found again
  CodeMemory code;
};

// The kernels that picked candidates launch, each once, by rising id.
std::vector<ir::KernelId> picked_kernels(const ir::Program& program);

using Artifacts = std::map<ir::KernelId, std::shared_ptr<const codegen::Artifact>>;

// `artifacts` has all of picked_kernels(program).
Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries);

}  // namespace fusec::runtime
