// SPDX-License-Identifier: Apache-2.0
// Opens the file of a package and reads it, after checking that it is a regular file and, on request, that only the
// user and root can change it. Checks apply to the open descriptor, so that replacing the name has no effect.

#include "runtime/package/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "runtime/cache/folder.h"

namespace fusec::runtime {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

Status refused(std::string why) { return Status(StatusCode::invalid_argument, std::move(why)); }
Status cannot_open() { return refused(std::string("it cannot be opened: ") + std::strerror(errno)); }

const char* describe_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is not a file but a folder";
  if (S_ISFIFO(mode)) return "it is not a file but a FIFO";
  if (S_ISSOCK(mode)) return "it is not a file but a socket";
  return "it is not a file but a device";
}

// "a/b" -> "a" and "b".
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

int open_folder(const std::string& path) { return ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }

// Where an open file lies, past symbolic links; empty without /proc.
std::string find_path(int fd) {
  std::array<char, PATH_MAX + 1> place{};
  const ssize_t length = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), place.data(), PATH_MAX);
  return length > 0 ? std::string(place.data(), static_cast<std::size_t>(length)) : std::string();
}

Status check_owner(int fd, const char* what) {
  constexpr const char* kRemedy =
      "a package is a program; if you trust it, open it with --trust (PackageOptions::trust) or check "
      "its signature with --verify-key";
  struct stat info;
  if (fstat(fd, &info) != 0) return cannot_open();
  switch (owner_fault(info)) {
    case OwnerFault::foreign:
      return refused(fmt::format("{} belongs to user {}, neither to you nor to root: {}", what, info.st_uid, kRemedy));
    case OwnerFault::writable:
      return refused(fmt::format("{} may be written by other users (mode {:o}; chmod go-w it): {}", what,
                                 info.st_mode & 07777, kRemedy));
    case OwnerFault::none:
      break;
  }
  return {};
}

}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path) {
  const auto [folder, name] = split(path);
  OpenFile file(open_folder(folder), -1);
  if (file.folder_ < 0) return cannot_open();
  struct stat info;
  // The type is checked before the file is opened, because opening some devices has side effects.
  if (fstatat(file.folder_, name.c_str(), &info, name.empty() ? AT_EMPTY_PATH : 0) != 0) return cannot_open();
  if (!S_ISREG(info.st_mode)) return refused(describe_kind(info.st_mode));
  file.fd_ = openat(file.folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd_ < 0 || fstat(file.fd_, &info) != 0) return cannot_open();
  if (!S_ISREG(info.st_mode)) return refused(describe_kind(info.st_mode));
  file.size_ = info.st_size;
  return file;
}

OpenFile::~OpenFile() {
  if (folder_ >= 0) (void)close(folder_);
  if (fd_ >= 0) (void)close(fd_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

int OpenFile::read(std::size_t offset, void* to, std::size_t bytes) const noexcept {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = pread(fd_, at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    at += n;
    offset += static_cast<std::size_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

Status OpenFile::check_trust() const {
  FUSEC_TRY(check_owner(fd_, "it"));
  FUSEC_TRY(check_owner(folder_, "its folder"));
  const std::string place = find_path(fd_);
  const int folder = place.starts_with('/') ? open_folder(split(place).first) : -1;
  if (folder < 0) return {};  // there is no /proc, or it lies outside of what this process can name
  Status status = check_owner(folder, "the folder that its link leads to");
  (void)close(folder);
  return status;
}

Result<OwnedBytes> allocate_bytes(std::size_t bytes) {
  const bool is_large = bytes >= kHugePage;
  const std::size_t size = is_large ? (bytes + 2 * kHugePage - 1) / kHugePage * kHugePage : bytes;  // room to align in
  void* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return Status(StatusCode::out_of_memory, fmt::format("there is no memory for its {} bytes", bytes));
  std::shared_ptr<const void> owner(base, [size](const void* p) { (void)munmap(const_cast<void*>(p), size); });
  auto* at = static_cast<std::byte*>(base);
  if (is_large) {
    at += (kHugePage - reinterpret_cast<uintptr_t>(at) % kHugePage) % kHugePage;
    (void)madvise(at, static_cast<std::size_t>(static_cast<std::byte*>(base) + size - at), MADV_HUGEPAGE);
  }
  return OwnedBytes{std::span(at, bytes), std::move(owner)};
}

void make_read_only(const OwnedBytes& memory) { (void)mprotect(memory.bytes.data(), memory.bytes.size(), PROT_READ); }

}  // namespace fusec::runtime
