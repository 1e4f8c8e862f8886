// SPDX-License-Identifier: Apache-2.0
// A small max_pool as an index map: each result is the largest of a few elements of its input.
#pragma once

#include "compiler/partition/coords.h"

namespace fusec::compiler {

// Whether `node` is a max_pool that a generated kernel does as well as any: channels last, few places in a window, none
// skipped, and each window has one inside the image. Others are a library's.
bool is_small_window(const ir::Graph& graph, const ir::Node& node);
// The number of places in its window.
int64_t window_size(const ir::Node& max_pool);
// Whether an element of the input is in several windows.
bool windows_overlap(const ir::Node& max_pool);

// The coordinates of all places of the window of the result at `coords`. A place in the padding is read at the nearest
// element of the window inside: it counts twice, which a maximum does not notice, and nothing needs a guard.
std::vector<Coords> window_coords(const ir::Graph& graph, const ir::Node& max_pool, const Coords& coords,
                                  const DimRanges& ranges);

}  // namespace fusec::compiler
