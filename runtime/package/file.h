// SPDX-License-Identifier: Apache-2.0
// Files that packages are read from, and the memory that they are read into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fusec/status.h"

namespace fusec::runtime {

// A regular file, open for reading. What is decided about it is decided on the open file, not on its name.
class OpenFile {
 public:
  // invalid_argument: it cannot be opened, or is a folder, FIFO, device or socket; none of them is waited for.
  static Result<OpenFile> open(const std::string& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;

  int64_t size() const { return size_; }  // when it was opened
  // All of these bytes; errno, or -1 where the file ends before. May be called by several threads.
  int read(std::size_t offset, void* to, std::size_t bytes) const noexcept;
  // Whether only the user (the effective one) and root can have written it: one of them owns the file and its folder,
  // and neither group nor others may write them; others may write a folder that is sticky. Where the name is a symbolic
  // link, both folders count. invalid_argument: what speaks against it and what to do.
  Status check_trust() const;

 private:
  OpenFile(int folder, int fd) : folder_(folder), fd_(fd) {}

  int folder_, fd_;
  int64_t size_ = 0;
};

// Memory of our own, at the start of a page.
struct OwnedBytes {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};
// Of zeros; out_of_memory when there is not enough. Large ones ask for huge pages, which take a tenth of the time to
// get.
Result<OwnedBytes> allocate_bytes(std::size_t bytes);
// From here on a write is a fault.
void make_read_only(const OwnedBytes& memory);

}  // namespace fusec::runtime
