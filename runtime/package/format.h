// SPDX-License-Identifier: Apache-2.0
// The bytes of a package:
//
//   header       192 bytes: "FUSECPKG"  u32 version  u32 number of sections  u64 bytes of the file  digest of the
//   header so
//                far and the table  u64 signed (0 or 1)  64 bytes signature  32 bytes public key  zeros
//   table        64 bytes per section: u32 kind  u32 target (position in the manifest; 0 where there is none)  u64
//   offset
//                u64 bytes  u64 0  digest of the section with its padding
//   sections     each at a multiple of 64 bytes, padded with zeros to one
//     manifest   JSON: producer, options, inputs, outputs, symbols, targets with their constants
//     program    per target: the text of the Program as select left it
//     code       per target: a u64 length and a kernel cache entry for each of picked_kernels(program)
//     constants  the bytes that the manifest's offsets point into, each at a multiple of 64 bytes
//
// Integers are little-endian. A digest is the SHA-256 of the SHA-256 digests of the bytes' 256 KiB chunks, so that
// threads share the work. Every byte of the file is under one, but for the signature and its key. Those sign the digest
// in the header, which covers the digests of all sections; without a signature they are zeros.
//
// Signatures are Ed25519, by libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fusec/signing.h"
#include "fusec/status.h"
#include "ir/support/hash.h"

namespace fusec::runtime {

// As it lies in the file.
struct Signature {
  std::array<uint8_t, 64> bytes{};
  PublicKey key;  // whose it is
};

// What is signed is "fusec package 4\n" and the digest. unsupported: fusec was built without libsodium.
Result<Signature> sign_digest(const ir::Sha256Digest& digest, const SigningKey& key);
// Whether the signature is that key's of that digest. invalid_model: it is not; unsupported as above.
Status verify_signature(const ir::Sha256Digest& digest, const Signature& signature);
bool can_sign();  // built with libsodium

inline constexpr uint32_t kPackageVersion = 4;
inline constexpr int64_t kPackageAlignment = 64;
inline constexpr std::size_t kPackageHeader = 192;  // bytes

enum class SectionKind : uint32_t { manifest = 1, program, code, constants };

using Bytes = std::span<const std::byte>;

// A section to write; `bytes` as yet without padding.
struct NewSection {
  SectionKind kind = SectionKind::manifest;
  uint32_t target = 0;
  std::vector<std::byte> bytes;
};

// Pads the sections and answers the header and table in front of them, in this order, without a signature.
std::vector<std::byte> package_head(std::vector<NewSection>& sections, int threads);
// Signs the package that begins with `head`.
Status sign_head(std::vector<std::byte>& head, const SigningKey& key);

// A section of a file.
struct Section {
  SectionKind kind = SectionKind::manifest;
  uint32_t target = 0;
  int64_t offset = 0;
  Bytes bytes;   // without padding
  Bytes padded;  // with it: what the digest is of
  ir::Sha256Digest digest{};
};

// What a file begins with.
struct PackageHead {
  std::vector<Section> sections;
  ir::Sha256Digest digest{};  // of all that is not signature
  std::optional<Signature> signature;
};

// Bytes of header and table, of a file of `file_bytes` bytes that begins with `header`. invalid_model: it is no
// package, or one of another version or length.
Result<std::size_t> package_head_bytes(std::span<const std::byte, kPackageHeader> header, int64_t file_bytes);
// Reads the table of `file`, whose head must be there, and checks the head's digest. Sections point into `file`.
Result<PackageHead> read_package_head(Bytes file);
// Checks the digests of all sections. Before a piece of the file is looked at, `fetch(offset, bytes)` makes it be
// there; it is called from several threads, must not throw and answers errno, -1 for bytes that the file lacks.
Status check_digests(const PackageHead& head, Bytes file, int threads,
                     const std::function<int(std::size_t, std::size_t)>& fetch = {});

// The sections of a whole file in memory, every byte checked but the signature. invalid_model: what is wrong.
Result<std::vector<Section>> package_sections(Bytes file, int threads);

bool begins_as_package(Bytes file);
const char* to_string(SectionKind kind);

}  // namespace fusec::runtime
