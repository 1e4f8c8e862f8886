// SPDX-License-Identifier: Apache-2.0
// Writes and reads the header and section table of a package and verifies the digests of its sections, with several
// threads. Every offset and length in a file is checked before use.

#include "runtime/package/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/threads/parallel.h"

namespace fusec::runtime {
namespace {

constexpr char kMagic[8] = {'F', 'U', 'S', 'E', 'C', 'P', 'K', 'G'};
constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr std::size_t kGroup = 4 * kChunk;  // hashed at once; fits the cache of a core
constexpr std::size_t kCovered = 24;        // bytes of the header before the digest
constexpr uint32_t kMaxSections = 1 << 16;

struct Header {
  char magic[8];
  uint32_t version, sections;
  uint64_t file_bytes;
  ir::Sha256Digest digest;
  uint64_t is_signed;
  Signature signature;
  uint8_t zeros[32];
};
struct Row {
  uint32_t kind, target;
  uint64_t offset, bytes, zero;
  ir::Sha256Digest digest;
};
static_assert(sizeof(Header) == kPackageHeader && sizeof(Row) == 64 && sizeof(Signature) == 96);

std::size_t padded(std::size_t bytes) {
  return (bytes + kPackageAlignment - 1) / kPackageAlignment * kPackageAlignment;
}

Status broken(std::string why) { return Status(StatusCode::invalid_model, std::move(why)); }
Status makes_no_sense() { return broken("its table makes no sense"); }

Header read_header(Bytes head) {
  Header header;
  std::memcpy(&header, head.data(), sizeof(Header));
  return header;
}

// The part of the header before its digest, and the table.
ir::Sha256Digest head_digest(Bytes head) {
  std::vector<std::byte> text(head.begin(), head.begin() + kCovered);
  text.insert(text.end(), head.begin() + sizeof(Header), head.end());
  return ir::sha256(text);
}

template <class T>
bool is_zero(const T& value) {
  const T zero{};
  return std::memcmp(&value, &zero, sizeof(T)) == 0;
}

bool signature_makes_sense(const Header& header) {
  return is_zero(header.zeros) && header.is_signed == (is_zero(header.signature) ? 0 : 1);
}

// Sections must follow one another without gaps up to the end of the file.
Result<Section> read_section(Bytes file, const Row& row, std::size_t at) {
  const bool known = row.kind >= 1 && row.kind <= static_cast<uint32_t>(SectionKind::constants);
  const bool fits = row.offset == at && row.bytes <= file.size() - at && padded(row.bytes) <= file.size() - at;
  if (!known || !fits) return makes_no_sense();
  return Section{static_cast<SectionKind>(row.kind),  row.target, static_cast<int64_t>(at), file.subspan(at, row.bytes),
                 file.subspan(at, padded(row.bytes)), row.digest};
}

// Digests of the chunks of up to a group of bytes.
void digest_chunks(Bytes bytes, ir::Sha256Digest* digests) {
  if (bytes.size() == kGroup) {
    const std::byte* const at = bytes.data();
    const auto four = ir::sha256_four({at, at + kChunk, at + 2 * kChunk, at + 3 * kChunk}, kChunk);
    std::copy(four.begin(), four.end(), digests);
    return;
  }
  for (std::size_t i = 0; i * kChunk < bytes.size(); ++i) {
    digests[i] = ir::sha256(bytes.subspan(i * kChunk, std::min(kChunk, bytes.size() - i * kChunk)));
  }
}

using Fetch = std::function<int(std::size_t, std::size_t)>;

// The digest of the bytes at `offset` of a file, after they are fetched. `fault` is set to the first error of fetch.
ir::Sha256Digest chunked_digest(Bytes bytes, int threads, std::size_t offset = 0, const Fetch& fetch = {},
                                int* fault = nullptr) {
  const std::size_t groups = (bytes.size() + kGroup - 1) / kGroup;
  std::vector<ir::Sha256Digest> digests((bytes.size() + kChunk - 1) / kChunk);
  std::atomic<int> failed = 0;
  const auto work = [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end) && failed == 0; ++i) {
      const Bytes group = bytes.subspan(i * kGroup, std::min(kGroup, bytes.size() - i * kGroup));
      if (const int error = fetch ? fetch(offset + i * kGroup, group.size()) : 0; error != 0) {
        failed = error;
      } else {
        digest_chunks(group, &digests[4 * i]);
      }
    }
  };
  parallel_for(threads, static_cast<int64_t>(groups), work);
  if (fault != nullptr) *fault = failed;
  return ir::sha256(std::as_bytes(std::span(digests)));
}

}  // namespace

std::vector<std::byte> package_head(std::vector<NewSection>& sections, int threads) {
  std::vector<std::byte> head(sizeof(Header) + sections.size() * sizeof(Row));
  std::size_t at = head.size();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    NewSection& s = sections[i];
    Row row{static_cast<uint32_t>(s.kind), s.target, at, s.bytes.size(), 0, {}};
    s.bytes.resize(padded(s.bytes.size()));
    row.digest = chunked_digest(s.bytes, threads);
    std::memcpy(head.data() + sizeof(Header) + i * sizeof(Row), &row, sizeof(Row));
    at += s.bytes.size();
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kPackageVersion;
  header.sections = static_cast<uint32_t>(sections.size());
  header.file_bytes = at;
  std::memcpy(head.data(), &header, sizeof(Header));
  header.digest = head_digest(head);
  std::memcpy(head.data(), &header, sizeof(Header));
  return head;
}

Status sign_head(std::vector<std::byte>& head, const SigningKey& key) {
  Header header = read_header(head);
  FUSEC_ASSIGN(header.signature, sign_digest(header.digest, key));
  header.is_signed = 1;
  std::memcpy(head.data(), &header, sizeof(Header));
  return {};
}

Result<std::size_t> package_head_bytes(std::span<const std::byte, kPackageHeader> bytes, int64_t file_bytes) {
  const Header header = read_header(bytes);
  if (!begins_as_package(bytes)) return broken("it is no package: it does not begin with FUSECPKG");
  if (file_bytes < static_cast<int64_t>(sizeof(Header))) return broken("it is too short for a package");
  if (header.version != kPackageVersion) {
    return broken(fmt::format("it has format version {}, this fusec reads version {}: compile the model again",
                              header.version, kPackageVersion));
  }
  if (header.file_bytes != static_cast<uint64_t>(file_bytes)) {
    return broken(fmt::format("it has {} bytes where its header says {}: it was cut short or added to", file_bytes,
                              header.file_bytes));
  }
  const std::size_t head = sizeof(Header) + header.sections * sizeof(Row);
  if (header.sections > kMaxSections || head > static_cast<uint64_t>(file_bytes))
    return broken("its header was changed");
  return head;
}

Result<PackageHead> read_package_head(Bytes file) {
  if (file.size() < sizeof(Header)) return broken("it is too short for a package");
  FUSEC_ASSIGN(std::size_t at, package_head_bytes(file.first<kPackageHeader>(), static_cast<int64_t>(file.size())));
  const Header header = read_header(file);
  if (!signature_makes_sense(header) || head_digest(file.first(at)) != header.digest)
    return broken("its header was changed");
  PackageHead head{{}, header.digest, {}};
  if (header.is_signed == 1) head.signature = header.signature;
  for (uint32_t i = 0; i < header.sections; ++i) {
    Row row;
    std::memcpy(&row, file.data() + sizeof(Header) + i * sizeof(Row), sizeof(Row));
    FUSEC_ASSIGN(const Section section, read_section(file, row, at));
    at += section.padded.size();
    head.sections.push_back(section);
  }
  if (at != file.size()) return makes_no_sense();
  return head;
}

Status check_digests(const PackageHead& head, Bytes file, int threads, const Fetch& fetch) {
  for (const Section& s : head.sections) {
    int fault = 0;
    const auto offset = static_cast<std::size_t>(s.padded.data() - file.data());
    const ir::Sha256Digest digest = chunked_digest(s.padded, threads, offset, fetch, &fault);
    if (fault > 0)
      return Status(StatusCode::invalid_argument, std::string("it cannot be read: ") + std::strerror(fault));
    if (fault < 0) return broken("it was cut short while it was read");
    if (digest != s.digest)
      return broken(fmt::format("its section '{}' at byte {} was changed", to_string(s.kind), s.offset));
  }
  return {};
}

Result<std::vector<Section>> package_sections(Bytes file, int threads) {
  FUSEC_ASSIGN(PackageHead head, read_package_head(file));
  FUSEC_TRY(check_digests(head, file, threads));
  return std::move(head.sections);
}

bool begins_as_package(Bytes file) {
  return file.size() >= sizeof(kMagic) && std::memcmp(file.data(), kMagic, sizeof(kMagic)) == 0;
}

const char* to_string(SectionKind kind) {
  switch (kind) {
    case SectionKind::manifest:
      return "manifest";
    case SectionKind::program:
      return "program";
    case SectionKind::code:
      return "code";
    case SectionKind::constants:
      return "constants";
  }
  return "";
}

}  // namespace fusec::runtime
