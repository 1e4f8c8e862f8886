// SPDX-License-Identifier: Apache-2.0
// What every command asks of the file that it is given as a model, before anything reads it.
#pragma once

#include <string>

#include "fusec/status.h"

namespace fusec::tool {

// It is a regular file, and is called .fsc when it begins as a package and only then. invalid_argument, at once: a FIFO
// is not waited for.
Status check_model_file(const std::string& path);

}  // namespace fusec::tool
