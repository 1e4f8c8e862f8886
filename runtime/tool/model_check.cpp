// SPDX-License-Identifier: Apache-2.0
// Checks a model file before any command reads it: a regular file whose name ends in .fsc exactly when its contents are
// a package. Packages are programs, so one under another name is refused.

#include "runtime/tool/model_check.h"

#include <fmt/format.h>

#include "fusec/package.h"
#include "runtime/package/file.h"

namespace fusec::tool {

Status check_model_file(const std::string& path) {
  const Result<runtime::OpenFile> file = runtime::OpenFile::open(path);
  if (!file.ok())
    return Status(file.status().code(), fmt::format("cannot read '{}': {}", path, file.status().message()));
  const bool called = path.ends_with(".fsc"), begins = is_package(path);
  if (begins && !called) {
    return Status(StatusCode::invalid_argument, fmt::format("'{}' begins as a package, which is a program, but its "
                                                            "name does not end in .fsc: rename it if you trust it",
                                                            path));
  }
  if (called && !begins) {
    return Status(
        StatusCode::invalid_argument,
        fmt::format(
            "'{}' is called .fsc, as packages are, but does not begin with FUSECPKG: rename it if it is a model",
            path));
  }
  return {};
}

}  // namespace fusec::tool
