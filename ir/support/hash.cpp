// SPDX-License-Identifier: Apache-2.0
// Implements XXH64 and SHA-256, with x86 SHA instructions where the CPU has them. All implementations of a hash give
// the same digest, because digests are stored in caches and packages.

#include "ir/support/hash.h"

#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace fusec::ir {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
T load_little(const std::byte* p) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// The five primes of the XXH64 specification.
constexpr uint64_t kP1 = 11400714785074694791ULL, kP2 = 14029467366897019727ULL, kP3 = 1609587929392839161ULL,
                   kP4 = 9650029242287828579ULL, kP5 = 2870177450012600261ULL;

uint64_t lane_round(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kP2, 31) * kP1; }
uint64_t merge_lane(uint64_t h, uint64_t lane) { return (h ^ lane_round(0, lane)) * kP1 + kP4; }

uint64_t avalanche(uint64_t h) {
  h = (h ^ (h >> 33)) * kP2;
  h = (h ^ (h >> 29)) * kP3;
  return h ^ (h >> 32);
}

// The fewer than 32 bytes that the lanes leave over.
uint64_t absorb_tail(uint64_t h, const std::byte* p, const std::byte* end) {
  for (; end - p >= 8; p += 8) h = std::rotl(h ^ lane_round(0, load_little<uint64_t>(p)), 27) * kP1 + kP4;
  if (end - p >= 4) {
    h = std::rotl(h ^ (load_little<uint32_t>(p) * kP1), 23) * kP2 + kP3;
    p += 4;
  }
  for (; p < end; ++p) h = std::rotl(h ^ (static_cast<uint64_t>(*p) * kP5), 11) * kP1;
  return h;
}

// Section 4.1.1 of FIPS 180-4; the constants are fractional parts of cube and square roots of the first primes.
constexpr std::array<uint32_t, 64> kShaRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr std::array<uint32_t, 8> kShaStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

using ShaState = std::array<uint32_t, 8>;

void sha_block(ShaState& state, const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    uint32_t word = 0;
    for (int b = 0; b < 4; ++b) word = word << 8 | static_cast<uint32_t>(block[4 * i + b]);
    w[i] = word;
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kShaRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const ShaState delta = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += delta[i];
}

void sha_blocks_plain(ShaState& state, const std::byte* data, std::size_t blocks) {
  for (std::size_t i = 0; i < blocks; ++i) sha_block(state, data + 64 * i);
}

#if defined(__x86_64__)
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 && __builtin_cpu_supports("sse4.1");
}

// The words (a, b, e, f) and (c, d, g, h), the first one highest, in the order of the CPU's instructions.
[[gnu::target("sha,sse4.1")]] void to_registers(const ShaState& state, __m128i& abef, __m128i& cdgh) {
  std::array<int, 8> words;
  std::memcpy(words.data(), state.data(), sizeof(words));
  abef = _mm_set_epi32(words[0], words[1], words[4], words[5]);
  cdgh = _mm_set_epi32(words[2], words[3], words[6], words[7]);
}

[[gnu::target("sha,sse4.1")]] ShaState from_registers(__m128i abef, __m128i cdgh) {
  alignas(16) std::array<uint32_t, 4> high, low;
  _mm_store_si128(reinterpret_cast<__m128i*>(high.data()), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(low.data()), cdgh);
  return {high[3], high[2], low[3], low[2], high[1], high[0], low[1], low[0]};
}

// Ten times as fast with the CPU's instructions, which do two rounds each.
[[gnu::target("sha,sse4.1")]] void sha_blocks_x86(ShaState& state, const std::byte* data, std::size_t blocks) {
  __m128i abef, cdgh;
  to_registers(state, abef, cdgh);
  const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), big_endian);
      } else {
        const __m128i &next = w[(i + 1) % 4], &third = w[(i + 2) % 4], &last = w[(i + 3) % 4];
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i k = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShaRound.data()) + i);
      const __m128i sum = _mm_add_epi32(now, k);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  state = from_registers(abef, cdgh);
}

// The instructions for one string wait for each other; interleaving four strings fills the gaps.
[[gnu::target("sha,sse4.1")]] void sha_blocks_x86_four(std::array<ShaState, 4>& states,
                                                       const std::array<const std::byte*, 4>& data,
                                                       std::size_t blocks) {
  __m128i abef[4], cdgh[4], w[4][4];
  for (int s = 0; s < 4; ++s) to_registers(states[s], abef[s], cdgh[s]);
  const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  for (std::size_t block = 0; block < blocks; ++block) {
    __m128i abef_before[4], cdgh_before[4];
    for (int s = 0; s < 4; ++s) abef_before[s] = abef[s], cdgh_before[s] = cdgh[s];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i k = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShaRound.data()) + i);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        __m128i& now = w[s][i % 4];
        if (i < 4) {
          now =
              _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data[s] + 64 * block) + i), big_endian);
        } else {
          const __m128i next = w[s][(i + 1) % 4], third = w[s][(i + 2) % 4], last = w[s][(i + 3) % 4];
          now = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
          now = _mm_sha256msg2_epu32(now, last);
        }
        const __m128i sum = _mm_add_epi32(now, k);
        cdgh[s] = _mm_sha256rnds2_epu32(cdgh[s], abef[s], sum);
        abef[s] = _mm_sha256rnds2_epu32(abef[s], cdgh[s], _mm_shuffle_epi32(sum, 0x0e));
      }
    }
    for (int s = 0; s < 4; ++s) {
      abef[s] = _mm_add_epi32(abef[s], abef_before[s]);
      cdgh[s] = _mm_add_epi32(cdgh[s], cdgh_before[s]);
    }
  }
  for (int s = 0; s < 4; ++s) states[s] = from_registers(abef[s], cdgh[s]);
}
#endif

bool sha_instructions() {
#if defined(__x86_64__)
  static const bool has_instructions = has_sha_instructions();
  return has_instructions;
#else
  return false;
#endif
}

void sha_blocks(ShaState& state, const std::byte* data, std::size_t blocks) {
#if defined(__x86_64__)
  if (sha_instructions()) return sha_blocks_x86(state, data, blocks);
#endif
  sha_blocks_plain(state, data, blocks);
}

using ShaBlocks = void (*)(ShaState&, const std::byte*, std::size_t);

// The digest of `data` from the state after its whole blocks.
Sha256Digest finish(ShaState state, std::span<const std::byte> data, ShaBlocks sha_blocks) {
  // The rest of the data, a one bit, zeros and the length in bits fill one or two more blocks.
  std::array<std::byte, 128> last{};
  const std::size_t whole = data.size() / 64 * 64, rest = data.size() - whole;
  if (rest > 0) std::memcpy(last.data(), data.data() + whole, rest);
  last[rest] = std::byte{0x80};
  const std::size_t padded = rest < 56 ? 64 : 128;
  const uint64_t bits = static_cast<uint64_t>(data.size()) * 8;
  for (std::size_t i = 0; i < 8; ++i) last[padded - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  sha_blocks(state, last.data(), padded / 64);

  Sha256Digest digest;
  for (std::size_t i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest compute_digest(std::span<const std::byte> data, ShaBlocks sha_blocks) {
  ShaState state = kShaStart;
  sha_blocks(state, data.data(), data.size() / 64);
  return finish(state, data, sha_blocks);
}

}  // namespace

uint64_t hash64(std::span<const std::byte> data, uint64_t seed) {
  const std::byte* p = data.data();
  const std::byte* end = p + data.size();
  uint64_t h = seed + kP5;
  if (data.size() >= 32) {
    std::array<uint64_t, 4> lane = {seed + kP1 + kP2, seed + kP2, seed, seed - kP1};
    for (; end - p >= 32; p += 32) {
      for (int i = 0; i < 4; ++i) lane[i] = lane_round(lane[i], load_little<uint64_t>(p + 8 * i));
    }
    h = std::rotl(lane[0], 1) + std::rotl(lane[1], 7) + std::rotl(lane[2], 12) + std::rotl(lane[3], 18);
    for (const uint64_t l : lane) h = merge_lane(h, l);
  }
  return avalanche(absorb_tail(h + data.size(), p, end));
}

uint64_t hash64(std::string_view text, uint64_t seed) { return hash64(bytes_of(text), seed); }

Sha256Digest sha256(std::span<const std::byte> data) { return compute_digest(data, sha_blocks); }
Sha256Digest sha256_plain(std::span<const std::byte> data) { return compute_digest(data, sha_blocks_plain); }
Sha256Digest sha256(std::string_view text) { return sha256(bytes_of(text)); }

std::array<Sha256Digest, 4> sha256_four(const std::array<const std::byte*, 4>& data, std::size_t bytes) {
  std::array<ShaState, 4> states = {kShaStart, kShaStart, kShaStart, kShaStart};
#if defined(__x86_64__)
  if (sha_instructions()) {
    sha_blocks_x86_four(states, data, bytes / 64);
  } else
#endif
    for (int i = 0; i < 4; ++i) sha_blocks_plain(states[i], data[i], bytes / 64);
  std::array<Sha256Digest, 4> digests;
  for (int i = 0; i < 4; ++i) digests[i] = finish(states[i], std::span(data[i], bytes), sha_blocks);
  return digests;
}

std::string to_hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

}  // namespace fusec::ir
