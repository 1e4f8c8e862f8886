// SPDX-License-Identifier: Apache-2.0
// link: Program + Artifacts -> LoadedProgram: machine code in executable memory, entries and math functions resolved,
// constants aligned; on a GPU both lie in its memory. No shapes yet. Kernels that only a later variant of a slot has
// are left to the first bind that takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
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
  std::shared_ptr<const void> code;  // what keeps it loaded, where LoadedProgram::code does not
};

using ArtifactPtr = std::shared_ptr<const codegen::Artifact>;
using Artifacts = std::map<ir::KernelId, ArtifactPtr>;

struct ObtainedKernels {
  Artifacts artifacts;
  int64_t compiled = 0;  // of these: not found in a cache
};
// Finds or makes the code of kernels of the Program.
using ObtainKernels = std::function<Result<ObtainedKernels>(const ir::Program&, const std::vector<ir::KernelId>&)>;

// Loads one kernel on the device, on any thread.
using LoadKernel = std::function<Result<LoadedKernel>(const codegen::Artifact&)>;

// The kernels of a Program that link leaves out. Thread-safe; what a bind needs is compiled and loaded by one thread,
// while the others that need such kernels wait.
class LaterKernels {
 public:
  // `artifacts`, of a package, may have the code of each; `obtain` gives the code of the others.
  LaterKernels(std::set<ir::KernelId> ids, const Artifacts& artifacts, ObtainKernels obtain);
  void set_load(LoadKernel load) { load_ = std::move(load); }  // of the device; by link

  // Loads those of `ids` that are among them and not loaded. Answers how many were compiled for it.
  Result<int64_t> load(const ir::Program& program, const std::set<ir::KernelId>& ids);
  // Null: not among them, or not loaded.
  const LoadedKernel* find(ir::KernelId id) const;

 private:
  Status load_one(const ir::Program& program, ir::KernelId id);

  const std::set<ir::KernelId> ids_;
  const ObtainKernels obtain_;
  LoadKernel load_;
  mutable std::mutex mutex_;
  Artifacts artifacts_;
  std::map<ir::KernelId, LoadedKernel> loaded_;
};

// Immutable but for `later` and the caches inside the libraries; shared by all Plans bound from it.
struct LoadedProgram {
  ir::Program program;
  ir::IdVector<ir::KernelId, LoadedKernel> kernels;  // without phases: not among usual_kernels(program)
  std::unique_ptr<LaterKernels> later;               // null: there are none
  std::vector<std::shared_ptr<Library>> libraries;
  std::vector<std::shared_ptr<const codegen::Artifact>> artifacts;  // kept so that equal kernels are found again
  CodeMemory code;                                                  // of the CPU
  std::shared_ptr<const DeviceProgram> device;                      // of a GPU: its constants; null on the CPU
  LoadKernel load;                                                  // of the device, for what is linked to it later
  std::shared_ptr<const LoadedProgram>
      generic;                         // of a Program for one set of shapes: the one for all, whose code it shares
  std::set<ir::KernelId> specialized;  // those of its kernels that the generic Program lacks

  // One of `kernels`, or of `later` that a bind has loaded.
  const LoadedKernel& kernel(ir::KernelId id) const {
    const LoadedKernel* const late = later ? later->find(id) : nullptr;
    return late ? *late : kernels[id];
  }
};

// The kernels that picked candidates launch, each once, by rising id.
std::vector<ir::KernelId> picked_kernels(const ir::Program& program);
// Those of them that the first variant of some slot launches: what usual shapes need.
std::vector<ir::KernelId> usual_kernels(const ir::Program& program);

// `artifacts` has all of usual_kernels(program), and where there is no `obtain`, all of picked_kernels(program). For a
// GPU: cuda::link (runtime/run/cuda/link.h).
Result<std::shared_ptr<const LoadedProgram>> link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries,
                                                  ObtainKernels obtain = {});

// A Program for one set of shapes: lower's answer for the values of all symbols.
struct SpecializedProgram {
  ir::Program program;
  std::map<ir::KernelId, ir::KernelId> same;  // its picked kernels that the generic Program has, loaded, under that id
  Artifacts artifacts;                        // of the others
};
// Shares all but these others with the generic Program. internal: their allocations are not the same.
Result<std::shared_ptr<const LoadedProgram>> link_specialized(std::shared_ptr<const LoadedProgram> generic,
                                                              SpecializedProgram special);

// The parts of it that are the same on every device: the artifacts that are used, aligned constants, libraries. The
// caller sets how `later` loads a kernel.
Result<std::shared_ptr<LoadedProgram>> begin_link(ir::Program program, const Artifacts& artifacts,
                                                  std::vector<std::shared_ptr<Library>> libraries,
                                                  ObtainKernels obtain);

}  // namespace fusec::runtime
