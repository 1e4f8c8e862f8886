// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"

namespace fusec::codegen::cuda {

// The resources of one function.
struct Resources {
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // stack and spills of a thread; static shared memory of a block
};

// The resources of each function in a cubin; empty if the bytes are not a cubin. Any bytes are safe input.
std::map<std::string, Resources> read_resources(const std::vector<uint8_t>& cubin);

// Reads the registers and memory of the phases from their cubin. internal: a phase is missing in it.
Status add_resources(const std::vector<uint8_t>& cubin, std::vector<ArtifactPhase>& phases);

}  // namespace fusec::codegen::cuda
