// SPDX-License-Identifier: Apache-2.0
// Reads, writes and lists files in a folder through its descriptor, with ownership and mode checks against other users.
// Files are written under a temporary name, synced and renamed, so that readers never see a partial file.

#include "runtime/cache/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "ir/support/temporary_files.h"

namespace fusec::runtime {
namespace {

constexpr int64_t kMaxFile = 64 << 20;  // bytes; kernels are some kilobytes
constexpr char kTemporary[] = ".tmp-";

Status fault(const std::string& what) { return Status(StatusCode::cache, what + ": " + std::strerror(errno)); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) (void)close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // The result of close(), which may be the first to report a failed write.
  int close_now() { return close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Parents are made for the user alone; those that exist are left as they are.
void make_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    (void)mkdir(path.substr(0, at).c_str(), 0700);
  }
}

std::string get_parent_folder(const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  const std::size_t slash = last == std::string::npos ? last : path.rfind('/', last);
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

Status write_all(int fd, const std::vector<uint8_t>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fault("cannot write a cache entry");
    done += static_cast<std::size_t>(n);
  }
  return {};
}

Status read_all(int fd, std::vector<uint8_t>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fault("cannot read a cache entry");
    if (n == 0) return Status(StatusCode::cache, "a cache entry shrank while it was read");
    done += static_cast<std::size_t>(n);
  }
  return {};
}

std::string temporary_name() {
  static std::atomic<uint32_t> counter{0};  // only makes names differ
  std::random_device entropy;
  char name[64];
  (void)std::snprintf(name, sizeof name, "%s%ld-%u-%08x", kTemporary, static_cast<long>(getpid()), counter++,
                      entropy());
  return name;
}

// Calls f(name, stat) for each entry but "." and "..".
template <class F>
void for_each_entry(int fd, const F& f) {
  const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* dir = fdopendir(copy);
  if (dir == nullptr) {
    (void)close(copy);
    return;
  }
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    struct stat info;
    if (name == "." || name == ".." || fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    f(name, info);
  }
  (void)closedir(dir);
}

}  // namespace

Folder::~Folder() {
  if (fd_ >= 0) (void)close(fd_);
}
Folder::Folder(Folder&& other) noexcept : fd_(std::exchange(other.fd_, -1)), to_read_(other.to_read_) {}
Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(to_read_, other.to_read_);
  return *this;
}

Result<Folder> Folder::check(int fd, const std::string& label, bool to_read) {
  Folder folder(fd, to_read);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return fault("cannot use the folder '" + label + "'");
  if (to_read) {
    FUSEC_TRY(check_owner(info, label));
    return folder;
  }
  if (info.st_uid != geteuid()) return Status(StatusCode::cache, "the folder '" + label + "' belongs to another user");
  if ((info.st_mode & 077) != 0) {
    return Status(StatusCode::cache, "the folder '" + label + "' is open to other users (chmod 700 it)");
  }
  return folder;
}

Result<Folder> Folder::open(const std::string& path) {
  make_parents(path);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fault("cannot make the folder '" + path + "'");
  FUSEC_TRY(check_folders(get_parent_folder(path)));
  return check(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path, false);
}

Result<Folder> Folder::open_to_read(const std::string& path) {
  FUSEC_TRY(check_folders(get_parent_folder(path)));
  return check(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path, true);
}

bool Folder::has(const std::string& name) const { return faccessat(fd_, name.c_str(), F_OK, 0) == 0; }

Result<Folder> Folder::open_below(const std::string& name, bool make) const {
  if (make && mkdirat(fd_, name.c_str(), 0700) != 0 && errno != EEXIST)
    return fault("cannot make the folder '" + name + "'");
  return check(openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), name, to_read_);
}

Result<std::optional<std::vector<uint8_t>>> Folder::read(const std::string& name) const {
  using Bytes = std::optional<std::vector<uint8_t>>;
  const Descriptor file(openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return Bytes();
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return fault("cannot open a cache entry");
  const bool is_ours = info.st_uid == geteuid() || (to_read_ && info.st_uid == 0);
  if (!S_ISREG(info.st_mode) || !is_ours || (info.st_mode & 022) != 0 || info.st_size > kMaxFile) {
    return Status(StatusCode::cache, "'" + name + "' is not a file that only this user can change");
  }
  std::vector<uint8_t> bytes(static_cast<std::size_t>(info.st_size));
  FUSEC_TRY(read_all(file.get(), bytes));
  return Bytes(std::move(bytes));
}

Status Folder::write(const std::string& name, const std::vector<uint8_t>& bytes) const {
  const std::string temporary = temporary_name();
  const ir::TemporaryFile noted(fd_, temporary);
  Descriptor file(openat(fd_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return fault("cannot make a cache entry");
  Status status = write_all(file.get(), bytes);
  if (status.ok() && fsync(file.get()) != 0) status = fault("cannot sync a cache entry");
  if (file.close_now() != 0 && status.ok()) status = fault("cannot write a cache entry");
  if (status.ok() && renameat(fd_, temporary.c_str(), fd_, name.c_str()) != 0)
    status = fault("cannot publish a cache entry");
  if (!status.ok()) (void)unlinkat(fd_, temporary.c_str(), 0);
  return status;
}

void Folder::sync(const std::string& name) const {
  const Descriptor folder(openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() >= 0) (void)fsync(folder.get());
}

std::vector<Folder::File> Folder::files() const {
  std::vector<File> out;
  for_each_entry(fd_, [&](const std::string& name, const struct stat& info) {
    if (!S_ISREG(info.st_mode)) return;
    out.push_back({name, info.st_size, info.st_mtime, name.starts_with(kTemporary)});
  });
  std::sort(out.begin(), out.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return out;
}

std::vector<std::string> Folder::folders() const {
  std::vector<std::string> out;
  for_each_entry(fd_, [&](const std::string& name, const struct stat& info) {
    if (S_ISDIR(info.st_mode)) out.push_back(name);
  });
  std::sort(out.begin(), out.end());
  return out;
}

bool Folder::remove(const std::string& name) const { return unlinkat(fd_, name.c_str(), 0) == 0; }

void Folder::touch(const std::string& name, std::time_t age) const {
  struct stat info;
  if (fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || std::time(nullptr) - info.st_mtime <= age) return;
  (void)utimensat(fd_, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace fusec::runtime
