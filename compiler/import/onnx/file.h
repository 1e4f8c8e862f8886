// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::importer {

// An open file descriptor.
class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Reads a whole file named by the user. Errors: invalid_argument when it cannot be read, unsupported when it has more
// than `limit` bytes, out_of_memory.
Result<std::vector<uint8_t>> read_file(const std::string& path, int64_t limit);

// The folder that contains `path`; never empty.
std::string get_parent_folder(const std::string& path);

// Opens `location`, a path that a model names, below `root`. Absolute paths, "..", symbolic links anywhere, hard links
// and everything but regular files are invalid_model; a file that does not exist is invalid_argument.
Result<File> open_beneath(const std::string& root, const std::string& location);

// Returns the size of a regular file, read from the descriptor that will be used.
Result<int64_t> file_size(const File& file);

// Reads `bytes` bytes at `offset`. It never maps the file, so that a concurrent truncation is an error and not a
// signal.
Status read_exactly(const File& file, int64_t offset, void* to, std::size_t bytes);

}  // namespace fusec::importer
