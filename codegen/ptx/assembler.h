// SPDX-License-Identifier: Apache-2.0
// The libraries that assemble PTX, each in its own file. codegen/ptx/assemble.cpp chooses among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

struct Assembler {
  const char* name;  // as in keys of caches
  int major = 0, minor = 0;
  // Without contraction, with IEEE division and square root, and with denormals. Thread-safe. compile_failed carries
  // the library's log.
  Result<std::vector<uint8_t>> (*assemble)(const std::string& ptx, const Target& target);
};

// Opened on first use. unsupported: this build or this machine does not have it.
const Result<Assembler>& ptx_compiler();
const Result<Assembler>& nvjitlink();

// In the order in which `assemble` tries them.
const std::vector<Assembler>& assemblers();

// The PTX with ".minnctapersm 1" after each ".maxntid"; unchanged if it asks for a number of blocks itself.
std::string ask_for_one_block(const std::string& ptx);

inline Status no_cuda() {
  return Status(StatusCode::unsupported,
                "this build has no CUDA: configure with -DFUSEC_WITH_CUDA=ON where the toolkit's headers are found");
}

}  // namespace fusec::codegen
