// SPDX-License-Identifier: Apache-2.0
// The library that calls oneDNN: conv, matmul and avg_pool with the epilogues that epilogues.h names.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

std::shared_ptr<Library> make_onednn_library(Numerics numerics);

}  // namespace fusec::runtime
