// SPDX-License-Identifier: Apache-2.0
// An ELF object as one flat, position-independent image.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::codegen {

// Sections of code and constants, 64-byte aligned, with all relocations between them applied.
struct Image {
  std::vector<uint8_t> bytes;
  std::map<std::string, uint64_t> functions;  // offset by name
};

// Of an x86-64 object. A symbol that is not defined in it, or another relocation, is an error naming it.
Result<Image> flatten(const std::string& object);

}  // namespace fusec::codegen
