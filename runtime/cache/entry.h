// SPDX-License-Identifier: Apache-2.0
// The bytes of one kernel cache entry:
//
//   "FUSECKRN"  u32 format version  u32 0  u64 length of the whole entry
//   key  image  ptx  number of phases  phase*  number of externs  extern*  local bytes
//   phase: offset  iterations  entry  u32 threads  u32 registers  dynamic shared  local bytes  shared bytes
//   SHA-256 of everything before
//
// Integers are little-endian, 64 bits where not said; strings and bytes follow their length; Dims are text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/artifact/artifact.h"

namespace fusec::runtime {

inline constexpr uint32_t kEntryVersion = 2;

std::vector<uint8_t> encode_entry(const codegen::Artifact& artifact);  // but for Artifact::text
// nullopt for anything that encode_entry of this version did not write. Any bytes are safe input.
std::optional<codegen::Artifact> decode_entry(std::span<const uint8_t> bytes);

// Whether another version of fusec wrote them; damaged bytes of this version are not.
bool is_of_another_version(std::span<const uint8_t> bytes);

// The file of a key below the cache's version folder: "ab/abcd….fsk".
std::string entry_path(std::string_view key);

}  // namespace fusec::runtime
