// SPDX-License-Identifier: Apache-2.0
// The bytes of a package:
//
//   header       64 bytes: "FUSECPKG"  u32 version  u32 number of sections  u64 bytes of the file  digest of the header so
//                far and the table  u64 0
//   table        64 bytes per section: u32 kind  u32 target (position in the manifest; 0 where there is none)  u64 offset
//                u64 bytes  u64 0  digest of the section with its padding
//   sections     each at a multiple of 64 bytes, padded with zeros to one
//     manifest   JSON: producer, options, inputs, outputs, symbols, targets with their constants
//     program    per target: the text of the Program as select left it
//     code       per target: a u64 length and a kernel cache entry for each of picked_kernels(program)
//     constants  the bytes that the manifest's offsets point into, each at a multiple of 64 bytes
//
// Integers are little-endian. A digest is the SHA-256 of the SHA-256 digests of the bytes' 1 MiB chunks, so that threads
// share the work. Every byte of the file is under one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fusec/status.h"
#include "ir/support/hash.h"

namespace fusec::runtime {

inline constexpr uint32_t kPackageVersion = 2;
inline constexpr int64_t kPackageAlignment = 64;

enum class SectionKind : uint32_t { manifest = 1, program, code, constants };

using Bytes = std::span<const std::byte>;

// A section to write; `bytes` as yet without padding.
struct NewSection {
  SectionKind kind = SectionKind::manifest;
  uint32_t target = 0;
  std::vector<std::byte> bytes;
};

// Pads the sections and answers the header and table in front of them, in this order.
std::vector<std::byte> package_head(std::vector<NewSection>& sections, int threads);

// A section of a file.
struct Section {
  SectionKind kind = SectionKind::manifest;
  uint32_t target = 0;
  int64_t offset = 0;
  Bytes bytes;  // without padding
  ir::Sha256Digest digest{};
};

// The sections of a whole file, every byte checked. invalid_model: what is wrong.
Result<std::vector<Section>> package_sections(Bytes file, int threads);

bool begins_as_package(Bytes file);
const char* to_string(SectionKind kind);

}  // namespace fusec::runtime
