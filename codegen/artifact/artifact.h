// SPDX-License-Identifier: Apache-2.0
// Artifact: the machine code of one kernel, ready to load. emit produces it, the kernel cache stores it and link loads
// it. EmitOptions is what every emitter is told beside the kernel and the target.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fusec/dim.h"
#include "fusec/options.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The arguments of a host kernel. There is one HostArgs per launch; all threads of the launch share it.
struct HostArgs {
  void* const* buffers;        // base addresses: params in order, then scratch buffers in buffer order
  const int64_t* extents;      // Kernel::extents in order
  const void* const* externs;  // addresses of Artifact::externs
  int32_t* status;             // set to 1 when a data-dependent index is out of range
};
// Runs grid iterations begin .. end-1 (row-major over the phase's grid loops). `local` is memory private to the calling
// thread: Artifact::local_bytes bytes, 64-byte aligned.
using HostFunction = void (*)(const HostArgs* args, int64_t begin, int64_t end, void* local);

// One grid phase: a host function, or a function in a cubin.
struct ArtifactPhase {
  uint64_t offset = 0;  // host only: offset of the function in the image
  Dim iterations;       // product of the grid extents: the tasks of a host phase, the thread blocks of a GPU phase

  // GPU only: the function's name. Its parameters are the address of every buffer (params in order, then scratch
  // buffers in buffer order), every extent as int64_t, and the int32_t* of the run's status word.
  std::string entry;
  int threads = 0;             // threads per thread block
  int64_t dynamic_shared = 0;  // bytes of dynamic shared memory that the launch requests
  int registers = 0;           // per thread
  // Whether it waits for all earlier launches before its first access to memory, so that it may start before they end.
  bool waits = false;
  int64_t local_bytes = 0, shared_bytes = 0;  // per-thread spills and arrays; static shared memory of a block

  bool operator==(const ArtifactPhase&) const = default;
};

struct Artifact {
  std::string key;             // the full cache key; equal keys mean equal artifacts
  std::vector<uint8_t> image;  // host: text and rodata, position-independent, fully relocated; GPU: a cubin
  std::string ptx;             // GPU: the PTX that the cubin was assembled from, for drivers that cannot load the cubin
  std::vector<ArtifactPhase> phases;  // in order; all iterations of a phase end before the next phase begins
  std::vector<std::string> externs;   // math functions that the image calls, e.g. "_ZGVeN16v_tanf", "tanf"
  Dim local_bytes;                    // local memory per thread
  std::string text;                   // LLVM IR or CUDA C++; kept only on request
};

struct EmitOptions {
  bool keep_text = false;
  bool lines = false;  // the code says of which line of ir::print it is; for reading it, and of a GPU alone
  Codegen codegen = Codegen::automatic;                     // of a GPU target
  std::function<void(const std::string&)> on_warning = {};  // of faults that do not fail the call; unset: silent
};

}  // namespace fusec::codegen
