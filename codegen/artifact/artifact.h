// SPDX-License-Identifier: Apache-2.0
// Artifact: the machine code of one kernel, ready to load: what emit yields, the kernel cache keeps and link loads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/dim.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// What a host kernel is called with; one per launch, shared by its threads.
struct HostArgs {
  void* const* buffers;        // base addresses: params in order, then scratch buffers in buffer order
  const int64_t* extents;      // Kernel::extents in order
  const void* const* externs;  // addresses of Artifact::externs
  int32_t* status;             // set to 1 when a data-dependent index is out of range
};
// Runs grid iterations begin .. end-1 (row-major over the phase's grid loops). `local` is the thread's own memory of
// Artifact::local_bytes, 64-byte aligned.
using HostFunction = void (*)(const HostArgs* args, int64_t begin, int64_t end, void* local);

// One grid phase: a host function, or a function of a cubin.
struct ArtifactPhase {
  uint64_t offset = 0;  // host: of the function in the image
  Dim iterations;       // product of the grid extents: tasks of a host phase, blocks of a GPU's

  // GPU. The function's parameters: the address of every buffer (params in order, then scratch buffers in buffer
  // order), every extent as int64_t, and the int32_t* of the run's status word.
  std::string entry;
  int threads = 0;                            // of a block
  int64_t dynamic_shared = 0;                 // bytes that the launch asks for
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // spills and arrays of a thread; static shared memory

  bool operator==(const ArtifactPhase&) const = default;
};

struct Artifact {
  std::string key;                    // the full cache key; equal keys mean equal artifacts
  std::vector<uint8_t> image;         // host: text and rodata, position-independent, no relocations left; GPU: a cubin
  std::string ptx;                    // GPU: what the cubin was assembled from, for drivers that cannot load it
  std::vector<ArtifactPhase> phases;  // in order; a barrier between
  std::vector<std::string> externs;   // math functions the image calls, e.g. "_ZGVeN16v_tanf", "tanf"
  Dim local_bytes;                    // per thread
  std::string text;                   // LLVM IR or CUDA C++, kept on request only
};

}  // namespace fusec::codegen
