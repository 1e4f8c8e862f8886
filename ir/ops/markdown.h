// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fusec::ir {

// docs/ops.md: the op tables as Markdown.
std::string ops_markdown();

}  // namespace fusec::ir
