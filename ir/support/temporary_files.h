// SPDX-License-Identifier: Apache-2.0
// The files that this process is writing under a name of their own before they are renamed: so that a program that a
// signal ends can remove them first.
#pragma once

#include <cstddef>
#include <string>

namespace fusec::ir {

// Notes a file, or a folder of nothing but noted files, for the life of the object. `folder` is a descriptor that
// `name` is relative to, or AT_FDCWD; it stays open as long. Made before the file is. Of more than 64 at once the rest
// is not noted, nor are names of more than 4095 bytes.
class TemporaryFile {
 public:
  TemporaryFile(int folder, const std::string& name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::size_t slot_;
};

// Removes the files that are noted. For signal handlers: it takes no lock and no memory.
void remove_temporary_files();

}  // namespace fusec::ir
