// SPDX-License-Identifier: Apache-2.0
// Reads model files and opens external data files in the import stage. Paths named by a model are untrusted: they must
// stay below the root folder and must name regular files.

#include "compiler/import/onnx/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include "compiler/import/onnx/error.h"

namespace fusec::importer {

namespace {

Status os_error(const std::string& what, const std::string& path) {
  return {StatusCode::invalid_argument, fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno))};
}

Status bad_path(const std::string& location, const char* why) {
  return {StatusCode::invalid_model, fmt::format("external data file '{}' {}", short_name(location), why)};
}

// Splits a relative path into components. The path must stay below its start.
Result<std::vector<std::string>> components(const std::string& location) {
  if (location.empty()) return bad_path(location, "has an empty name");
  if (location.find('\0') != std::string::npos) return bad_path(location, "has a NUL in its name");
  if (location.front() == '/') return bad_path(location, "is an absolute path");
  if (location.size() > 4096) return bad_path(location, "has a name of more than 4096 bytes");
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= location.size();) {
    std::size_t end = std::min(location.find('/', at), location.size());
    std::string part = location.substr(at, end - at);
    if (part == "..") return bad_path(location, "leaves the model's folder");
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    at = end + 1;
  }
  if (parts.empty()) return bad_path(location, "is not a regular file");
  return parts;
}

}  // namespace

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<int64_t> file_size(const File& file) {
  struct stat info = {};
  if (::fstat(file.fd(), &info) != 0) return os_error("stat", "file");
  if (!S_ISREG(info.st_mode)) return Status(StatusCode::invalid_argument, "not a regular file");
  return static_cast<int64_t>(info.st_size);
}

Status read_exactly(const File& file, int64_t offset, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    ssize_t n = ::pread(file.fd(), at, std::min<std::size_t>(bytes, 1 << 30), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read", "file");
    if (n == 0) return {StatusCode::invalid_argument, "the file became shorter while it was read"};
    at += n;
    offset += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::vector<uint8_t>> read_file(const std::string& path, int64_t limit) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return os_error("open", path);
  auto size = file_size(file);
  if (!size.ok()) return size.status().with_note(fmt::format("while reading '{}'", path));
  if (*size > limit) {
    return Status(StatusCode::unsupported,
                  fmt::format("'{}' has {} bytes, more than the limit model_bytes = {}", path, *size, limit));
  }
  std::vector<uint8_t> bytes;
  try {
    bytes.resize(static_cast<std::size_t>(*size));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory, fmt::format("no memory for the {} bytes of '{}'", *size, path));
  }
  FUSEC_TRY(read_exactly(file, 0, bytes.data(), bytes.size()));
  return bytes;
}

std::string get_parent_folder(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

Result<File> open_beneath(const std::string& root, const std::string& location) {
  FUSEC_ASSIGN(std::vector<std::string> parts, components(location));
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // The root is given by the user and may be a symbolic link.
  File at(::open(root.empty() ? "." : root.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (at.fd() < 0) return os_error("open folder", root);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    File next(::openat(at.fd(), parts[i].c_str(), kFlags | (last ? 0 : O_DIRECTORY)));
    bool is_link = errno == ELOOP || (errno == ENOTDIR && !last);
    if (next.fd() < 0 && is_link) return bad_path(location, "is reached through a symbolic link or a non-folder");
    if (next.fd() < 0) return os_error("open", location);
    at = std::move(next);
  }
  struct stat info = {};
  if (::fstat(at.fd(), &info) != 0) return os_error("stat", location);
  if (!S_ISREG(info.st_mode)) return bad_path(location, "is not a regular file");
  if (info.st_nlink != 1) return bad_path(location, "has more than one hard link");
  return at;
}

}  // namespace fusec::importer
