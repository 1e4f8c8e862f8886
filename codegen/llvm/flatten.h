// SPDX-License-Identifier: Apache-2.0
// Turns an ELF object into one flat, position-independent image.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::codegen {

// The code and constant sections, 64-byte aligned, with all relocations between them applied.
struct Image {
  std::vector<uint8_t> bytes;
  std::map<std::string, uint64_t> functions;  // offset in the image by name
};

// `object` must be x86-64. An undefined symbol or an unknown relocation is an error that names it.
Result<Image> flatten(const std::string& object);

}  // namespace fusec::codegen
