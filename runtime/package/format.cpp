// SPDX-License-Identifier: Apache-2.0
#include "runtime/package/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/parallel.h"

namespace fusec::runtime {
namespace {

constexpr char kMagic[8] = {'F', 'U', 'S', 'E', 'C', 'P', 'K', 'G'};
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kSigned = 24;  // bytes of the header before the digest
constexpr uint32_t kMaxSections = 1 << 16;

struct Header {
  char magic[8];
  uint32_t version, sections;
  uint64_t file_bytes;
  ir::Sha256Digest digest;
  uint64_t zero;
};
struct Row {
  uint32_t kind, target;
  uint64_t offset, bytes, zero;
  ir::Sha256Digest digest;
};
static_assert(sizeof(Header) == 64 && sizeof(Row) == 64);

int64_t padded(int64_t bytes) { return (bytes + kPackageAlignment - 1) / kPackageAlignment * kPackageAlignment; }

Status broken(std::string why) { return Status(StatusCode::invalid_model, std::move(why)); }

// The part of the header before its digest, and the table.
ir::Sha256Digest head_digest(Bytes head) {
  std::vector<std::byte> text(head.begin(), head.begin() + kSigned);
  text.insert(text.end(), head.begin() + sizeof(Header), head.end());
  return ir::sha256(text);
}

Status check_header(Bytes file, const Header& header) {
  if (header.version != kPackageVersion) {
    return broken(fmt::format("it has format version {}, this fusec reads version {}: compile the model again", header.version,
                              kPackageVersion));
  }
  if (header.file_bytes != file.size()) {
    return broken(fmt::format("it has {} bytes where its header says {}: it was cut short or added to", file.size(), header.file_bytes));
  }
  const bool fits = header.sections <= kMaxSections && sizeof(Header) + header.sections * sizeof(Row) <= file.size();
  if (!fits || header.zero != 0 || head_digest(file.first(sizeof(Header) + header.sections * sizeof(Row))) != header.digest) {
    return broken("its header was changed");
  }
  return {};
}

// Sections lie one after the other up to the end of the file.
Result<Section> section_of(Bytes file, const Row& row, int64_t& at) {
  const auto size = static_cast<int64_t>(file.size());
  const bool known = row.kind >= 1 && row.kind <= static_cast<uint32_t>(SectionKind::constants);
  const auto bytes = static_cast<int64_t>(row.bytes);
  if (!known || row.offset != static_cast<uint64_t>(at) || bytes < 0 || bytes > size - at) return broken("its table makes no sense");
  Section section{static_cast<SectionKind>(row.kind), row.target, at, file.subspan(row.offset, row.bytes), row.digest};
  at += padded(bytes);
  return section;
}

ir::Sha256Digest chunked_digest(Bytes bytes, int threads) {
  const std::size_t chunks = (bytes.size() + kChunk - 1) / kChunk;
  std::vector<ir::Sha256Digest> digests(chunks);
  const auto work = [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      digests[i] = ir::sha256(bytes.subspan(i * kChunk, std::min(kChunk, bytes.size() - i * kChunk)));
    }
  };
  parallel_for(threads, static_cast<int64_t>(chunks), work);
  return ir::sha256(std::as_bytes(std::span(digests)));
}

}  // namespace

std::vector<std::byte> package_head(std::vector<NewSection>& sections, int threads) {
  std::vector<std::byte> head(sizeof(Header) + sections.size() * sizeof(Row));
  auto at = static_cast<int64_t>(head.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    NewSection& s = sections[i];
    Row row{static_cast<uint32_t>(s.kind), s.target, static_cast<uint64_t>(at), s.bytes.size(), 0, {}};
    s.bytes.resize(static_cast<std::size_t>(padded(static_cast<int64_t>(s.bytes.size()))));
    row.digest = chunked_digest(s.bytes, threads);
    std::memcpy(head.data() + sizeof(Header) + i * sizeof(Row), &row, sizeof(Row));
    at += static_cast<int64_t>(s.bytes.size());
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kPackageVersion;
  header.sections = static_cast<uint32_t>(sections.size());
  header.file_bytes = static_cast<uint64_t>(at);
  std::memcpy(head.data(), &header, sizeof(Header));
  header.digest = head_digest(head);
  std::memcpy(head.data(), &header, sizeof(Header));
  return head;
}

Result<std::vector<Section>> package_sections(Bytes file, int threads) {
  Header header;
  if (file.size() < sizeof(Header)) return broken("it is too short for a package");
  std::memcpy(&header, file.data(), sizeof(Header));
  if (!begins_as_package(file)) return broken("it is no package: it does not begin with FUSECPKG");
  FUSEC_TRY(check_header(file, header));
  std::vector<Section> sections;
  auto at = static_cast<int64_t>(sizeof(Header) + header.sections * sizeof(Row));
  for (uint32_t i = 0; i < header.sections; ++i) {
    Row row;
    std::memcpy(&row, file.data() + sizeof(Header) + i * sizeof(Row), sizeof(Row));
    FUSEC_ASSIGN(const Section section, section_of(file, row, at));
    const auto begin = static_cast<std::size_t>(section.offset), end = static_cast<std::size_t>(at);
    if (end > file.size() || chunked_digest(file.subspan(begin, end - begin), threads) != section.digest) {
      return broken(fmt::format("its section '{}' at byte {} was changed", to_string(section.kind), section.offset));
    }
    sections.push_back(section);
  }
  if (at != static_cast<int64_t>(file.size())) return broken("its table makes no sense");
  return sections;
}

bool begins_as_package(Bytes file) { return file.size() >= sizeof(kMagic) && std::memcmp(file.data(), kMagic, sizeof(kMagic)) == 0; }

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
