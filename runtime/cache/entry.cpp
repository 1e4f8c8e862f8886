// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes an Artifact as the bytes of a cache entry; packages use the same encoding. The decoder must
// accept any input bytes: lengths are checked before memory is allocated, and the digest is checked first.

#include <algorithm>
#include <cstring>
#include <new>

#include "ir/support/hash.h"
#include "runtime/cache/artifact.h"

namespace fusec::runtime {
namespace {

constexpr std::string_view kMagic = "FUSECKRN";
constexpr std::size_t kDigest = sizeof(ir::Sha256Digest);
constexpr std::size_t kHeader = 8 + 4 + 4 + 8;
constexpr uint64_t kMaxParts = 1 << 16;  // phases or externs of one kernel

ir::Sha256Digest compute_digest(std::span<const uint8_t> bytes) { return ir::sha256(std::as_bytes(bytes)); }

class Writer {
 public:
  void raw(const void* data, std::size_t n) {
    const auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
  }
  void number(uint64_t value, int bytes = 8) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  void string(std::string_view text) {
    number(text.size());
    raw(text.data(), text.size());
  }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Reads past the end fail and stay failed.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  bool failed() const { return failed_; }
  bool done() const { return !failed_ && rest_.empty(); }

  std::span<const uint8_t> take(uint64_t n) {
    if (failed_ || n > rest_.size()) {
      failed_ = true;
      return {};
    }
    auto taken = rest_.first(static_cast<std::size_t>(n));
    rest_ = rest_.subspan(static_cast<std::size_t>(n));
    return taken;
  }
  uint64_t number(int bytes = 8) {
    uint64_t value = 0;
    const auto taken = take(static_cast<uint64_t>(bytes));
    for (std::size_t i = 0; i < taken.size(); ++i) value |= static_cast<uint64_t>(taken[i]) << (8 * i);
    return value;
  }
  // A count of parts that take at least 8 bytes each.
  uint64_t count() {
    const uint64_t n = number();
    failed_ |= n > kMaxParts || n > rest_.size() / 8;
    return failed_ ? 0 : n;
  }
  std::string string() {
    const auto taken = take(number());
    return std::string(taken.begin(), taken.end());
  }
  Dim dim() {
    Result<Dim> parsed = Dim::parse(string());
    if (parsed.status().code() == StatusCode::out_of_memory) throw std::bad_alloc();  // the entry may be whole
    failed_ |= !parsed.ok();
    return failed_ ? Dim() : *parsed;
  }

 private:
  std::span<const uint8_t> rest_;
  bool failed_ = false;
};

bool starts_as_entry(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeader + kDigest || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return false;
  Reader header(bytes.subspan(kMagic.size()));
  return header.number(4) == kEntryVersion && header.number(4) == 0 && header.number() == bytes.size();
}

}  // namespace

std::vector<uint8_t> encode_entry(const codegen::Artifact& artifact) {
  Writer out;
  out.raw(kMagic.data(), kMagic.size());
  out.number(kEntryVersion, 4);
  out.number(0, 4);
  out.number(0);  // the length, known below
  out.string(artifact.key);
  out.number(artifact.image.size());
  out.raw(artifact.image.data(), artifact.image.size());
  out.string(artifact.ptx);
  out.number(artifact.phases.size());
  for (const codegen::ArtifactPhase& phase : artifact.phases) {
    out.number(phase.offset);
    out.string(phase.iterations.str());
    out.string(phase.entry);
    out.number(static_cast<uint64_t>(phase.threads), 4);
    out.number(static_cast<uint64_t>(phase.registers), 4);
    out.number(phase.waits ? 1 : 0, 4);
    out.number(static_cast<uint64_t>(phase.dynamic_shared));
    out.number(static_cast<uint64_t>(phase.local_bytes));
    out.number(static_cast<uint64_t>(phase.shared_bytes));
  }
  out.number(artifact.externs.size());
  for (const std::string& name : artifact.externs) out.string(name);
  out.string(artifact.local_bytes.str());
  const uint64_t length = out.bytes().size() + kDigest;
  for (int i = 0; i < 8; ++i) out.bytes()[16 + static_cast<std::size_t>(i)] = static_cast<uint8_t>(length >> (8 * i));
  const ir::Sha256Digest digest = compute_digest(out.bytes());
  out.raw(digest.data(), digest.size());
  return std::move(out.bytes());
}

std::optional<codegen::Artifact> decode_entry(std::span<const uint8_t> bytes) {
  if (!starts_as_entry(bytes)) return std::nullopt;
  const auto content = bytes.first(bytes.size() - kDigest);
  const ir::Sha256Digest digest = compute_digest(content);
  if (std::memcmp(digest.data(), bytes.data() + content.size(), kDigest) != 0) return std::nullopt;
  Reader in(content.subspan(kHeader));
  codegen::Artifact artifact;
  artifact.key = in.string();
  const auto image = in.take(in.number());
  artifact.image.assign(image.begin(), image.end());
  artifact.ptx = in.string();
  for (uint64_t n = in.count(); n > 0; --n) {
    codegen::ArtifactPhase phase;
    phase.offset = in.number();
    phase.iterations = in.dim();
    phase.entry = in.string();
    phase.threads = static_cast<int>(in.number(4));
    phase.registers = static_cast<int>(in.number(4));
    phase.waits = in.number(4) != 0;
    phase.dynamic_shared = static_cast<int64_t>(in.number());
    phase.local_bytes = static_cast<int64_t>(in.number());
    phase.shared_bytes = static_cast<int64_t>(in.number());
    if (phase.offset >= artifact.image.size()) return std::nullopt;
    artifact.phases.push_back(std::move(phase));
  }
  for (uint64_t n = in.count(); n > 0; --n) artifact.externs.push_back(in.string());
  artifact.local_bytes = in.dim();
  if (!in.done()) return std::nullopt;
  return artifact;
}

bool is_of_another_version(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeader || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return false;
  return Reader(bytes.subspan(kMagic.size())).number(4) != kEntryVersion;
}

std::string entry_path(std::string_view key) {
  const std::string hash = ir::to_hex(ir::sha256(key));
  return hash.substr(0, 2) + "/" + hash + ".fsk";
}

}  // namespace fusec::runtime
