// SPDX-License-Identifier: Apache-2.0
// Checks that only the user and root can change a file or any folder on its path, and follows symbolic links as the
// kernel does. The kernel cache, the tuning database and packages use it before they trust a file.

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/cache/folder.h"

namespace fusec::runtime {
namespace {

constexpr int kMaxLinks = 40;  // as Linux follows

Status cannot_look(const std::string& path) {
  return Status(StatusCode::cache, "cannot look at '" + path + "': " + std::strerror(errno));
}

bool is_ours(uid_t owner) { return owner == geteuid() || owner == 0; }

// Puts the components of `path` before those of `left`, whose last one comes first.
void push_parts(std::vector<std::string>& left, const std::string& path) {
  for (std::size_t end = path.size(); end != std::string::npos && end > 0;) {
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    if (end > begin) left.push_back(path.substr(begin, end - begin));
    end = slash;
  }
}

Result<std::string> absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  char here[PATH_MAX];
  if (getcwd(here, sizeof here) == nullptr) return cannot_look(".");
  return std::string(here) + "/" + path;
}

Result<std::string> link_target(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  if (length < 0) return cannot_look(link);
  return std::string(target, static_cast<std::size_t>(length));
}

}  // namespace

OwnerFault owner_fault(const struct stat& info) {
  if (!is_ours(info.st_uid)) return OwnerFault::foreign;
  const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  return (info.st_mode & 022) == 0 || sticky ? OwnerFault::none : OwnerFault::writable;
}

Status check_owner(const struct stat& info, const std::string& label) {
  const std::string what = (S_ISDIR(info.st_mode) ? "the folder '" : "'") + label + "'";
  switch (owner_fault(info)) {
    case OwnerFault::foreign:
      return Status(StatusCode::cache, what + " belongs to another user, who could change it");
    case OwnerFault::writable:
      return Status(StatusCode::cache, what + " can be written by other users (chmod go-w it)");
    case OwnerFault::none:
      break;
  }
  return {};
}

Status check_folders(const std::string& path) {
  FUSEC_ASSIGN(const std::string whole, absolute_path(path));
  std::vector<std::string> left;
  push_parts(left, whole);
  std::string at;  // without links, so that ".." is its parent; empty: the root folder
  int links = 0;
  for (;;) {
    struct stat info;
    const std::string name = at.empty() ? "/" : at;
    if (lstat(name.c_str(), &info) != 0) return errno == ENOENT ? Status() : cannot_look(name);
    if (S_ISLNK(info.st_mode)) {
      if (!is_ours(info.st_uid)) return Status(StatusCode::cache, "the link '" + name + "' belongs to another user");
      if (++links > kMaxLinks) return Status(StatusCode::cache, "'" + path + "' leads through too many links");
      FUSEC_ASSIGN(const std::string target, link_target(name));
      at = target.starts_with('/') ? "" : at.substr(0, at.rfind('/'));
      push_parts(left, target);
    } else if (S_ISDIR(info.st_mode)) {
      FUSEC_TRY(check_owner(info, name));
    } else {
      return {};
    }
    if (left.empty()) return {};
    const std::string part = left.back();
    left.pop_back();
    if (part == "..") {
      at.resize(at.empty() ? 0 : at.rfind('/'));
    } else if (part != ".") {
      at += "/" + part;
    }
  }
}

Status check_file(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  FUSEC_TRY(check_folders(slash == std::string::npos ? "." : path.substr(0, slash + 1)));
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT || errno == ENOTDIR ? Status() : cannot_look(path);
  if (S_ISLNK(info.st_mode)) {
    return Status(StatusCode::cache, "'" + path + "' is a link; name the file that it leads to");
  }
  if (!S_ISREG(info.st_mode)) return Status(StatusCode::cache, "'" + path + "' is no regular file");
  return check_owner(info, path);
}

}  // namespace fusec::runtime
