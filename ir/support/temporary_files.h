// SPDX-License-Identifier: Apache-2.0
// Tracks the files that this process is writing under a temporary name before it renames them, so that a program that
// is ended by a signal can remove them first.
#pragma once

#include <cstddef>
#include <string>

namespace fusec::ir {

// Registers a file, or a folder that contains only registered files, for the life of the object. `name` is relative to
// the descriptor `folder`, which must stay open as long, or AT_FDCWD. Create the object before the file. Beyond 64 at
// once, and for names of more than 4095 bytes, nothing is registered.
class TemporaryFile {
 public:
  TemporaryFile(int folder, const std::string& name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::size_t slot_;
};

// Removes the registered files. For signal handlers: it takes no lock and allocates no memory.
void remove_temporary_files();

}  // namespace fusec::ir
