// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace fusec::tool {

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::make(const std::string& purpose,
                                                               const std::vector<std::string>& files) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / ("fusec-" + purpose + "-XXXXXX")).string();
  if (error || mkdtemp(name.data()) == nullptr)
    return Status(StatusCode::device, fmt::format("the folder '{}' cannot be made", name));
  std::unique_ptr<TemporaryFolder> folder(new TemporaryFolder(name));
  folder->noted_.push_back(std::make_unique<ir::TemporaryFile>(AT_FDCWD, name));
  for (const std::string& file : files)
    folder->noted_.push_back(std::make_unique<ir::TemporaryFile>(AT_FDCWD, folder->file(file)));
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace fusec::tool
