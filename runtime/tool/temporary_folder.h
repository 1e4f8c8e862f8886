// SPDX-License-Identifier: Apache-2.0
// A folder that goes with the object, also where a signal ends the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/support/temporary_files.h"

namespace fusec::tool {

class TemporaryFolder {
 public:
  // Where the system keeps temporary files: "fusec-<purpose>-" and six random characters. files: names in it that a
  // signal removes too, before the folder; it stays if it has others. device: it cannot be made.
  static Result<std::unique_ptr<TemporaryFolder>> make(const std::string& purpose,
                                                       const std::vector<std::string>& files);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::vector<std::unique_ptr<ir::TemporaryFile>> noted_;
};

}  // namespace fusec::tool
