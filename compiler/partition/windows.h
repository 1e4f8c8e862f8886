// SPDX-License-Identifier: Apache-2.0
// Small max_pool nodes as index maps: each result is the largest of a few elements of its input.
#pragma once

#include "compiler/partition/coords.h"

namespace fusec::compiler {

// Whether `node` is a max_pool that a generated kernel computes as fast as a library: channels last, few positions in a
// window, no dilation, and at least one position of each window inside the image. A library computes the others.
bool is_small_window(const ir::Graph& graph, const ir::Node& node);
// The number of positions in its window.
int64_t window_size(const ir::Node& max_pool);
// Whether an element of the input is in several windows.
bool windows_overlap(const ir::Node& max_pool);

// The coordinates of all positions of the window of the result at `coords`. A position in the padding is replaced by
// the nearest element of the window inside the image. That element counts twice, which does not change a maximum, and
// no load needs a guard.
std::vector<Coords> window_coords(const ir::Graph& graph, const ir::Node& max_pool, const Coords& coords,
                                  const DimRanges& ranges);

}  // namespace fusec::compiler
