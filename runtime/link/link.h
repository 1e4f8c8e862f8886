// SPDX-License-Identifier: Apache-2.0
// link: Program + Artifacts -> LoadedProgram: machine code in executable memory, entries and math functions resolved,
// constants aligned; on a GPU both lie in its memory. No shapes yet.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "ir/program/program.h"
#include "runtime/device/device.h"
#include "runtime/device/host/memory.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

struct LoadedKernel {
  struct Phase {
    codegen::HostFunction function = nullptr;
    Dim iterations;
    void* device_function = nullptr;  // of a GPU: its CUfunction
    int threads = 1;                  // of a block
    int64_t dynamic_shared = 0;       // bytes of a block
    bool waits = false;               // ArtifactPhase::waits
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
  CodeMemory code;                                                  // of the CPU
  std::shared_ptr<const DeviceProgram> device;                      // of a GPU: its code and constants; null on the CPU
};

// The kernels that picked candidates launch, each once, by rising id.
std::vector<ir::KernelId> picked_kernels(const ir::Program& program);

using Artifacts = std::map<ir::KernelId, std::shared_ptr<const codegen::Artifact>>;

// `artifacts` has all of picked_kernels(program). For a GPU: cuda::link (runtime/run/cuda/link.h).
Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries);

// The parts of it that are the same on every device: the artifacts that are used, aligned constants, libraries.
Result<std::shared_ptr<LoadedProgram>> begin_link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries);

}  // namespace fusec::runtime
