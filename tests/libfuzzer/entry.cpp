// SPDX-License-Identifier: Apache-2.0
// The bytes of a kernel cache entry. What is read is written again and read as the same. Mutants get a right length and
// digest mostly, so that they come past those.
#include <algorithm>
#include <cstring>

#include "ir/support/hash.h"
#include "runtime/cache/artifact.h"
#include "tests/libfuzzer/fail.h"

namespace {

using fusec::ir::Sha256Digest;

constexpr size_t kLengthAt = 16, kHeader = 24;

void seal(uint8_t* data, size_t size) {
  const uint64_t length = size;
  std::memcpy(data + kLengthAt, &length, sizeof(length));
  const std::span content(data, size - sizeof(Sha256Digest));
  const Sha256Digest digest = fusec::ir::sha256(std::as_bytes(content));
  std::memcpy(data + content.size(), digest.data(), digest.size());
}

// A number of the entry, most of them lengths and counts, becomes another one.
void change_number(uint8_t* data, size_t size, unsigned seed) {
  constexpr uint64_t kNumbers[] = {
      0, 1, 7, 8, 1 << 16, (1 << 16) + 1, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7};
  const uint64_t number = kNumbers[seed % std::size(kNumbers)];
  const size_t room = size - kHeader - sizeof(Sha256Digest) - sizeof(number);
  std::memcpy(data + kHeader + seed / std::size(kNumbers) % room, &number, sizeof(number));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::optional<fusec::codegen::Artifact> artifact = fusec::runtime::decode_entry({data, size});
  if (!artifact) return 0;
  const std::vector<uint8_t> again = fusec::runtime::encode_entry(*artifact);
  const std::optional<fusec::codegen::Artifact> read = fusec::runtime::decode_entry(again);
  const bool same = read && read->key == artifact->key && read->image == artifact->image &&
                    read->ptx == artifact->ptx && read->phases == artifact->phases &&
                    read->externs == artifact->externs && read->local_bytes == artifact->local_bytes;
  if (!same) fusec::libfuzzer::fail("an entry that is written again is another one");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  constexpr size_t kMin = kHeader + sizeof(Sha256Digest) + 2 * sizeof(uint64_t);
  if (seed % 4 == 0 && size > kMin) {
    change_number(data, size, seed / 4);
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
  }
  if (seed % 16 != 0 && size > kMin) seal(data, size);
  return size;
}
