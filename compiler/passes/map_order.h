// SPDX-License-Identifier: Apache-2.0
// Makes reshapes and transposes that leave a value a view of what is stored, where a reshape behind a transpose would
// need a copy.
#pragma once

#include <string>
#include <vector>

#include "compiler/partition/graph_names.h"

namespace fusec::compiler {

// transpose(v), as one transpose of what v is a transpose of.
ValueId transposed(Graph& graph, ValueId v, std::vector<int64_t> perm, const std::string& origin);
// reshape(v), as a reshape of what v is a reshape of. A reshape of a transpose that splits axes stands before it.
ValueId reshaped(Graph& graph, ValueId v, const Shape& to, const std::string& origin);

}  // namespace fusec::compiler
