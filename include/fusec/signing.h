// SPDX-License-Identifier: Apache-2.0
// Keys that sign packages (Ed25519), as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fusec/export.h"
#include "fusec/status.h"

namespace fusec {

struct FUSEC_API PublicKey {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const PublicKey&) const = default;
};

// Whoever holds it can sign as its owner. Its bytes are overwritten when it ends.
struct FUSEC_API SigningKey {
  std::array<uint8_t, 32> seed{};
  ~SigningKey();
};

// From PEM files: a public key (SPKI), a private key (PKCS#8, not encrypted). invalid_argument: the file cannot be read
// or holds something else.
FUSEC_API Result<PublicKey> read_public_key(const std::string& path) noexcept;
FUSEC_API Result<SigningKey> read_signing_key(const std::string& path) noexcept;

}  // namespace fusec
