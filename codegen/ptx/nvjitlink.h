// SPDX-License-Identifier: Apache-2.0
// PTX -> cubin by nvJitLink, opened at run time. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// Without contraction, with IEEE division and square root and with denormals. `unsupported`: this build or this machine
// has no nvJitLink.
Result<std::vector<uint8_t>> assemble(const std::string& ptx, const Target& target);
bool has_nvjitlink();
// "13.0", or "none".
std::string nvjitlink_version();

}  // namespace fusec::codegen
