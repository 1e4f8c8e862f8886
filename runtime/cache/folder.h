// SPDX-License-Identifier: Apache-2.0
// A folder that only this user can change, and whole-file reads and writes below it. Everything goes through the
// folder's descriptor, so a path swapped behind our back changes nothing. What the user and root alone can change is
// trusted, no matter what it holds; anything else is refused before it is opened.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::runtime {

// none: the effective user or root owns the file or folder, and nobody else may write it, or only into a sticky folder,
// such as /tmp, where others cannot replace what is not theirs.
enum class OwnerFault { none, foreign, writable };
OwnerFault owner_fault(const struct stat& info);

// `cache` unless the effective user or root owns the file or folder `label` and neither group nor others may write it.
Status check_owner(const struct stat& info, const std::string& label);

// check_owner of every folder on the way to `path` and of `path` itself where it is a folder, in the way that the
// system looks it up: links are followed, and must be the user's or root's. What is missing ends the way, and is no
// fault.
Status check_folders(const std::string& path);

// For a file that another library opens by its name: check_owner, a regular file, no link, and check_folders of its
// folder. A file that is missing is no fault.
Status check_file(const std::string& path);

class Folder {
 public:
  Folder() = default;
  ~Folder();
  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&& other) noexcept;

  // Opens `path`, making it and its parents as needed. `cache` unless it is a directory, no symbolic link, owned by the
  // effective user, and closed to group and others, and only the user and root can replace it or a folder above it.
  static Result<Folder> open(const std::string& path);
  // Opens what exists, to read alone. `cache` unless it is a directory and no symbolic link, and only the user and root
  // can change it or replace it or a folder above it; others may read it.
  static Result<Folder> open_to_read(const std::string& path);
  // The same for a folder directly below; `make`: it may be new.
  Result<Folder> open_below(const std::string& name, bool make) const;

  // Whether it has a file or folder of this name.
  bool has(const std::string& name) const;
  // The whole file; nullopt if there is none. `cache` for what is not a regular file of this user alone (in a folder
  // that was opened to read: of this user or root), or too large.
  Result<std::optional<std::vector<uint8_t>>> read(const std::string& name) const;
  // Through a temporary name, synced, then renamed: readers see the old file, the new one or none. That it is the new
  // one after a loss of power takes sync().
  Status write(const std::string& name, const std::vector<uint8_t>& bytes) const;

  // Makes what was made, renamed and removed in the folder `name` directly below outlive a loss of power, where the
  // file system can. Takes no memory.
  void sync(const std::string& name) const;

  struct File {
    std::string name;
    int64_t bytes = 0;
    std::time_t modified = 0;
    bool temporary = false;  // left over by a writer that died
  };
  std::vector<File> files() const;           // regular files, by name
  std::vector<std::string> folders() const;  // by name
  bool remove(const std::string& name) const;
  // Sets the time of modification to now if it is more than `age` seconds ago.
  void touch(const std::string& name, std::time_t age) const;

 private:
  Folder(int fd, bool to_read) : fd_(fd), to_read_(to_read) {}
  static Result<Folder> check(int fd, const std::string& label, bool to_read);
  int fd_ = -1;
  bool to_read_ = false;
};

}  // namespace fusec::runtime
