// SPDX-License-Identifier: Apache-2.0
// Writes the dumps of compile stages to Options::dump_dir. Without a folder, the text is not even produced.

#include "ir/support/dump.h"

#include <fstream>

namespace fusec::ir {

Status dump(const std::string& dir, const std::string& name, const std::function<std::string()>& text) {
  if (dir.empty()) return {};
  const std::string path = dir + "/" + name;
  std::ofstream file(path);
  file << text() << std::flush;
  if (!file)
    return Status(StatusCode::invalid_argument, "the dump '" + path + "' cannot be written; does the folder exist?");
  return {};
}

}  // namespace fusec::ir
