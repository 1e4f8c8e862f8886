// SPDX-License-Identifier: Apache-2.0
// Ed25519 signatures of packages, by libsodium.
#pragma once

#include <array>
#include <cstdint>

#include "fusec/signing.h"
#include "ir/support/hash.h"

namespace fusec::runtime {

// As it lies in the file.
struct Signature {
  std::array<uint8_t, 64> bytes{};
  PublicKey key;  // whose it is
};

// What is signed is "fusec package 3\n" and the digest. unsupported: fusec was built without libsodium.
Result<Signature> sign_digest(const ir::Sha256Digest& digest, const SigningKey& key);
// Whether the signature is that key's of that digest. invalid_model: it is not; unsupported as above.
Status verify_signature(const ir::Sha256Digest& digest, const Signature& signature);
bool can_sign();  // built with libsodium

}  // namespace fusec::runtime
