// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {

// Returns why the library's pooling cannot compute a max_pool or avg_pool, or nullopt if it can. For symbolic extents,
// nullopt means that it can for all values.
std::optional<std::string> library_lacks(const ir::LibraryCapabilities& library, const ir::Graph& graph,
                                         const ir::Node& pool);

}  // namespace fusec::compiler
