// SPDX-License-Identifier: Apache-2.0
// Copies a dense image from the workspace to a slice of channels, for concat. Each thread copies the rows that the
// convolution gave it, so that it finds them in its own cache. oneDNN's reorders split the work differently and take
// about 1.5 times as long.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

struct Move {
  std::size_t offset = 0;  // of the source in the workspace
  int arg = -1;            // the target
  int64_t images = 1, height = 1, width = 1;
  int64_t run_bytes = 0;                 // bytes of one position: all its channels, contiguous
  int64_t image = 0, row = 0, step = 0;  // distances in bytes in the target
};

// A move from a dense channels-last image at `offset` to `out`. nullopt: there are more than two spatial axes, or the
// channels of `out` are not contiguous.
std::optional<Move> move_to(const CallOperand& out, std::size_t offset);

void run(const Move& move, void* const* args, void* workspace, int threads);

}  // namespace fusec::runtime::onednn
