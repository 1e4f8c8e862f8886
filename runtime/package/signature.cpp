// SPDX-License-Identifier: Apache-2.0
// Signs and verifies the digest of a package with Ed25519, and reads keys from PEM files. Builds without libsodium
// return `unsupported`. Private keys are wiped from memory after use.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/package/format.h"
#if FUSEC_WITH_SODIUM
#include <sodium.h>
#endif

#include "ir/support/check.h"
#include "runtime/package/file.h"

namespace fusec::runtime {
namespace {

[[maybe_unused]] constexpr std::string_view kContext =
    "fusec package 4\n";                   // so that the key's other signatures are none of a package
constexpr int64_t kMaxKeyFile = 64 << 10;  // bytes

// RFC 8410: what stands in front of the 32 bytes of an Ed25519 key.
constexpr std::string_view kPublicPrefix("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);
constexpr std::string_view kPrivatePrefix("\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", 16);

Status no_key(std::string why) { return Status(StatusCode::invalid_argument, std::move(why)); }

int decode_digit(char c) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t at = kDigits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// A private key does not stay in memory that is given back.
void wipe(std::string& text) { explicit_bzero(text.data(), text.size()); }

// Base64 up to its padding; empty where a character is none of it.
std::string decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());  // so that growing leaves no copies
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    if (c == '=') break;
    const int digit = decode_digit(c);
    if (digit < 0) return {};
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return out;
}

// The 32 bytes of a key of that label and prefix.
Result<std::array<uint8_t, 32>> parse_key(std::string_view pem, std::string_view label, std::string_view prefix) {
  const std::string begin = fmt::format("-----BEGIN {}-----", label), end = fmt::format("-----END {}-----", label);
  const std::size_t from = pem.find(begin), to = pem.find(end);
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) {
    const bool is_private = pem.find("PRIVATE KEY-----") != std::string_view::npos;
    return no_key(fmt::format(
        "it holds no '{}'{}", begin,
        is_private && label == "PUBLIC KEY" ? "; openssl pkey -in KEY -pubout writes the public half" : ""));
  }
  std::string der = decoded(pem.substr(from + begin.size(), to - from - begin.size()));
  if (!der.starts_with(prefix) || der.size() != prefix.size() + 32) {
    return no_key("its key is not of Ed25519; openssl genpkey -algorithm ed25519 makes one");
  }
  std::array<uint8_t, 32> key;
  std::memcpy(key.data(), der.data() + prefix.size(), key.size());
  wipe(der);
  return key;
}

Result<std::array<uint8_t, 32>> read_key(const std::string& path, std::string_view label, std::string_view prefix) {
  FUSEC_ASSIGN(const OpenFile file, OpenFile::open(path));
  if (file.size() > kMaxKeyFile) return no_key("it is too large for a key");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  if (file.read(0, text.data(), text.size()) != 0) return no_key("it cannot be read");
  auto key = parse_key(text, label, prefix);
  wipe(text);
  return key;
}

#if FUSEC_WITH_SODIUM
using Message = std::array<uint8_t, kContext.size() + sizeof(ir::Sha256Digest)>;

Message make_message(const ir::Sha256Digest& digest) {
  Message message;
  std::memcpy(message.data(), kContext.data(), kContext.size());
  std::memcpy(message.data() + kContext.size(), digest.data(), digest.size());
  return message;
}
#endif

}  // namespace

#if FUSEC_WITH_SODIUM
static_assert(crypto_sign_BYTES == 64 && crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SEEDBYTES == 32);

Result<Signature> sign_digest(const ir::Sha256Digest& digest, const SigningKey& key) {
  if (sodium_init() < 0) return Status(StatusCode::internal, "libsodium does not start");
  Signature signature;
  std::array<uint8_t, crypto_sign_SECRETKEYBYTES> secret;
  (void)crypto_sign_seed_keypair(signature.key.bytes.data(), secret.data(), key.seed.data());
  const Message message = make_message(digest);
  (void)crypto_sign_detached(signature.bytes.data(), nullptr, message.data(), message.size(), secret.data());
  sodium_memzero(secret.data(), secret.size());
  return signature;
}

Status verify_signature(const ir::Sha256Digest& digest, const Signature& signature) {
  if (sodium_init() < 0) return Status(StatusCode::internal, "libsodium does not start");
  const Message message = make_message(digest);
  const int wrong =
      crypto_sign_verify_detached(signature.bytes.data(), message.data(), message.size(), signature.key.bytes.data());
  return wrong == 0 ? Status() : Status(StatusCode::invalid_model, "its signature does not fit its content");
}

bool can_sign() { return true; }
#else
namespace {

Status without_sodium() {
  return Status(StatusCode::unsupported,
                "this fusec was built without libsodium, so it neither signs packages nor checks signatures: install "
                "libsodium-dev and build it again");
}

}  // namespace

Result<Signature> sign_digest(const ir::Sha256Digest&, const SigningKey&) { return without_sodium(); }
Status verify_signature(const ir::Sha256Digest&, const Signature&) { return without_sodium(); }
bool can_sign() { return false; }
#endif

}  // namespace fusec::runtime

namespace fusec {

SigningKey::~SigningKey() { explicit_bzero(seed.data(), seed.size()); }

Result<PublicKey> read_public_key(const std::string& path) noexcept {
  return ir::guarded_with_note(
      [&]() -> Result<PublicKey> {
        FUSEC_ASSIGN(const auto key, runtime::read_key(path, "PUBLIC KEY", runtime::kPublicPrefix));
        return PublicKey{key};
      },
      [&] { return fmt::format("while reading the key '{}'", path); });
}

Result<SigningKey> read_signing_key(const std::string& path) noexcept {
  return ir::guarded_with_note(
      [&]() -> Result<SigningKey> {
        FUSEC_ASSIGN(const auto key, runtime::read_key(path, "PRIVATE KEY", runtime::kPrivatePrefix));
        return SigningKey{key};
      },
      [&] { return fmt::format("while reading the key '{}'", path); });
}

}  // namespace fusec
