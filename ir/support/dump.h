// SPDX-License-Identifier: Apache-2.0
// Options::dump_dir: text that stages write for inspection.
#pragma once

#include <functional>
#include <string>

#include "fusec/status.h"

namespace fusec::ir {

// Writes text() to the file `name` in the folder `dir`. Does nothing if `dir` is empty. invalid_argument: the file
// cannot be written.
Status dump(const std::string& dir, const std::string& name, const std::function<std::string()>& text);

}  // namespace fusec::ir
