// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "compiler/import/onnx/summary.h"

namespace fusec::tool {

// The first of elementwise, reduce, move, compute, control such that every op of the model is in its list or an earlier
// one's; "other" where an op is in none or a type is foreign. The lists are what fusec sets out to do, not what it
// does.
std::string find_tier(const importer::ModelSummary& model);

// The lists, as a table in markdown.
std::string tiers_markdown();

}  // namespace fusec::tool
