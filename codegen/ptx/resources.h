// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"

namespace fusec::codegen::cuda {

// Of one function.
struct Resources {
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // stack and spills of a thread; static shared memory of a block
};

// By function, read from a cubin; empty for what is none. Any bytes are safe input.
std::map<std::string, Resources> resources_of(const std::vector<uint8_t>& cubin);

// Registers and memory of the phases, out of their cubin. internal: it lacks one.
Status add_resources(const std::vector<uint8_t>& cubin, std::vector<ArtifactPhase>& phases);

}  // namespace fusec::codegen::cuda
