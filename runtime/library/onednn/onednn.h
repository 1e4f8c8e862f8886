// SPDX-License-Identifier: Apache-2.0
// The library that calls oneDNN: conv, matmul and avg_pool with the epilogues named in epilogues.h.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

// batch_invariant: it refuses calls whose result for a row depends on how many rows there are.
std::shared_ptr<Library> make_onednn_library(Numerics numerics, bool batch_invariant);

}  // namespace fusec::runtime
