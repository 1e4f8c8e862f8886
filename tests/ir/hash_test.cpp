// SPDX-License-Identifier: Apache-2.0
#include "ir/support/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace fusec::ir {
namespace {

// Vectors of the xxHash specification's reference program.
TEST(Hash, Xxh64) {
  EXPECT_EQ(hash64(std::string_view()), 0xef46db3751d8e999u);
  EXPECT_EQ(hash64("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash64("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash64("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1u);  // 39 bytes: lanes and tail
  EXPECT_NE(hash64("abc", 1), hash64("abc", 2));
}

TEST(Hash, Sha256WithAndWithoutInstructions) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i));
  for (std::size_t n = 0; n <= bytes.size(); n += 37) {
    EXPECT_EQ(sha256(std::span(bytes).first(n)), sha256_plain(std::span(bytes).first(n))) << n;
  }
}

TEST(Hash, FourAtOnceAreAsOneAfterTheOther) {
  std::vector<std::byte> bytes(1200);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i));
  for (std::size_t n = 0; n <= 300; ++n) {
    const auto digests = sha256_four({&bytes[0], &bytes[300], &bytes[600], &bytes[900 - n]}, n);
    const std::size_t at[] = {0, 300, 600, 900 - n};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(digests[i], sha256_plain(std::span(bytes).subspan(at[i], n))) << n << ", " << i;
  }
}

// FIPS 180-4 examples; 55, 56 and 64 bytes are where the padding changes shape.
TEST(Hash, Sha256) {
  const auto hex = [](const std::string& text) { return to_hex(sha256(text)); };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, EveryLengthDiffers) {
  std::set<uint64_t> seen;
  for (std::size_t n = 0; n < 200; ++n) EXPECT_TRUE(seen.insert(hash64(std::string(n, '\0'))).second) << n;
}

}  // namespace
}  // namespace fusec::ir
