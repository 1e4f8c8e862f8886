// SPDX-License-Identifier: Apache-2.0
// Content hashes: XXH64 to compare bytes quickly, SHA-256 where collisions must not happen (cache keys).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fusec::ir {

using Sha256Digest = std::array<uint8_t, 32>;

// The XXH64 function of the published xxHash specification.
uint64_t hash64(std::span<const std::byte> data, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

// FIPS 180-4. Uses the CPU's SHA instructions where it has them; `plain` never does.
Sha256Digest sha256(std::span<const std::byte> data);
Sha256Digest sha256(std::string_view text);
Sha256Digest sha256_plain(std::span<const std::byte> data);
// The digests of four strings of `bytes` bytes each; twice as fast as hashing them one after another.
std::array<Sha256Digest, 4> sha256_four(const std::array<const std::byte*, 4>& data, std::size_t bytes);

// Lower-case hexadecimal, two digits per byte.
std::string to_hex(std::span<const uint8_t> bytes);

// One step of the splitmix64 generator: a bijection of 64-bit words whose output bits look independent.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace fusec::ir
