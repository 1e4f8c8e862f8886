// SPDX-License-Identifier: Apache-2.0
// Reads .npz files: zip archives whose members are stored without compression, as np.savez writes them. Members are
// found by the central directory at the end of the file; all offsets and sizes are checked.

#include <fmt/format.h>

#include <array>
#include <fstream>

#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kMemberSignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr std::size_t kEndBytes = 22, kMemberBytes = 46, kLocalBytes = 30, kMaxComment = 65'535;
constexpr uint32_t kElsewhere = 0xffffffff;  // the number is a 64-bit one in an extra field
constexpr uint16_t kZip64 = 1;

Status refuse_archive(const std::string& path, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("'{}' is no .npz file that can be read: {}", path, why));
}

// A little-endian number of `bytes` bytes.
uint64_t number(const std::string& text, std::size_t at, std::size_t bytes) {
  uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  return value;
}

struct Member {
  std::string name;
  uint64_t offset = 0, size = 0;  // of the local header; of the data
  bool stored = true;
};

class Archive {
 public:
  Archive(std::string path, std::istream& in) : path_(std::move(path)), in_(in) {
    in_.seekg(0, std::ios::end);
    size_ = in_ ? static_cast<uint64_t>(in_.tellg()) : 0;
  }

  Result<std::vector<Member>> list() {
    FUSEC_ASSIGN(const std::string tail, read(size_ - std::min<uint64_t>(size_, kEndBytes + kMaxComment),
                                              std::min<uint64_t>(size_, kEndBytes + kMaxComment)));
    std::size_t end = tail.size() < kEndBytes ? std::string::npos : tail.size() - kEndBytes;
    while (end != std::string::npos && number(tail, end, 4) != kEndSignature)
      end = end == 0 ? std::string::npos : end - 1;
    if (end == std::string::npos) return refuse_archive(path_, "it does not end as a zip archive does");
    const uint64_t count = number(tail, end + 10, 2);
    FUSEC_ASSIGN(const std::string directory, read(number(tail, end + 16, 4), number(tail, end + 12, 4)));
    std::vector<Member> members;
    for (std::size_t at = 0; members.size() < count;) {
      FUSEC_ASSIGN(Member member, parse(directory, at));
      members.push_back(std::move(member));
    }
    return members;
  }

  Result<Tensor> read_array(const Member& member) {
    if (!member.stored)
      return refuse_archive(
          path_, fmt::format("'{}' is compressed; write it by np.savez, not np.savez_compressed", member.name));
    FUSEC_ASSIGN(const std::string local, read(member.offset, kLocalBytes));
    if (number(local, 0, 4) != kLocalSignature)
      return refuse_archive(path_, "a member is not where the directory says");
    const uint64_t data = member.offset + kLocalBytes + number(local, 26, 2) + number(local, 28, 2);
    if (data > size_ || member.size > size_ - data) return refuse_archive(path_, "a member is cut off");
    in_.seekg(static_cast<std::streamoff>(data));
    return read_npy(path_ + ":" + member.name, in_, static_cast<int64_t>(member.size));
  }

 private:
  Result<std::string> read(uint64_t offset, uint64_t bytes) {
    if (offset > size_ || bytes > size_ - offset) return refuse_archive(path_, "it is cut off");
    std::string text(bytes, '\0');
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(offset));
    if (!in_.read(text.data(), static_cast<std::streamsize>(bytes))) return refuse_archive(path_, "it cannot be read");
    return text;
  }

  // The entry of the directory at `at`, which moves behind it.
  Result<Member> parse(const std::string& directory, std::size_t& at) {
    if (at + kMemberBytes > directory.size() || number(directory, at, 4) != kMemberSignature)
      return refuse_archive(path_, "its directory is damaged");
    const uint64_t name = number(directory, at + 28, 2), extra = number(directory, at + 30, 2);
    const uint64_t comment = number(directory, at + 32, 2);
    const std::size_t names = at + kMemberBytes;
    if (names + name + extra + comment > directory.size()) return refuse_archive(path_, "its directory is cut off");
    Member member{directory.substr(names, name), number(directory, at + 42, 4), number(directory, at + 24, 4),
                  number(directory, at + 10, 2) == 0};
    if (member.size == kElsewhere || member.offset == kElsewhere)
      FUSEC_TRY(read_zip64(directory.substr(names + name, extra), member));
    at = names + name + extra + comment;
    return member;
  }

  // The field holds the uncompressed size, the compressed one and the offset, each where the entry does not.
  Status read_zip64(const std::string& extra, Member& member) {
    for (std::size_t at = 0; at + 4 <= extra.size(); at += 4 + number(extra, at + 2, 2)) {
      if (number(extra, at, 2) != kZip64) continue;
      const std::size_t end = at + 4 + number(extra, at + 2, 2);
      std::size_t next = at + 4;
      if (end > extra.size()) break;
      if (member.size == kElsewhere && next + 8 <= end) member.size = number(extra, next, 8), next += 16;
      if (member.offset == kElsewhere && next + 8 <= end) member.offset = number(extra, next, 8);
      return {};
    }
    return refuse_archive(path_, "its directory lacks a size");
  }

  std::string path_;
  std::istream& in_;
  uint64_t size_ = 0;
};

}  // namespace

Result<std::map<std::string, Tensor>> read_npz(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be opened", path));
  Archive archive(path, in);
  FUSEC_ASSIGN(const std::vector<Member> members, archive.list());
  std::map<std::string, Tensor> arrays;
  for (const Member& member : members) {
    const std::string& name = member.name;
    FUSEC_ASSIGN(arrays[name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name], archive.read_array(member));
  }
  return arrays;
}

}  // namespace fusec::tool
