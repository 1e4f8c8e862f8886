// SPDX-License-Identifier: Apache-2.0
// Moves a dense image from the workspace to a slice of channels, as a concat wants it. Threads take the rows that a
// convolution gives them, so that each finds its part in its own cache; oneDNN's reorders split otherwise and take half
// as long again.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

struct Move {
  std::size_t offset = 0;  // of the source in the workspace
  int arg = -1;            // the target
  int64_t images = 1, height = 1, width = 1;
  int64_t run_bytes = 0;                 // of one position: all its channels, contiguous
  int64_t image = 0, row = 0, step = 0;  // bytes between these in the target
};

// From a dense channels-last image at `offset` to `out`; nullopt: of more than two spatial axes, or channels of `out`
// are not contiguous.
std::optional<Move> move_to(const Operand& out, std::size_t offset);

void run(const Move& move, void* const* args, void* workspace, int threads);

}  // namespace fusec::runtime::onednn
