// SPDX-License-Identifier: Apache-2.0
// Artifact: the machine code of one kernel, ready to load: what emit yields, the kernel cache keeps and link loads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/dim.h"
#include "ir/kernel.h"

namespace fusec::codegen {

// What a host kernel is called with; one per launch, shared by its threads.
struct HostArgs {
  void* const* buffers;         // base addresses: params in order, then scratch buffers in buffer order
  const int64_t* extents;       // Kernel::extents in order
  const void* const* externs;   // addresses of Artifact::externs
  int32_t* status;              // set to 1 when a data-dependent index is out of range
};
// Runs grid iterations begin .. end-1 (row-major over the phase's grid loops). `local` is the thread's own memory of
// Artifact::local_bytes, 64-byte aligned.
using HostFunction = void (*)(const HostArgs* args, int64_t begin, int64_t end, void* local);

struct HostPhase {
  uint64_t offset = 0;  // of the function in the image
  Dim iterations;       // product of the grid extents
};

struct Artifact {
  std::string key;                   // the full cache key; equal keys mean equal artifacts
  std::vector<uint8_t> image;        // text and rodata, position-independent, no relocations left
  std::vector<HostPhase> phases;     // in order; a barrier between
  std::vector<std::string> externs;  // math functions the image calls, e.g. "_ZGVeN16v_tanf", "tanf"
  Dim local_bytes;                   // per thread
  std::string text;                  // LLVM IR, kept on request only
};

}  // namespace fusec::codegen
