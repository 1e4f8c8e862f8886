// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "tests/fuzz/case.h"

namespace fusec::fuzz {

// By its name on the command line; nullopt: there is none of that name.
std::optional<Beside> find_beside(const std::string& name);
const char* to_string(Beside beside);

// The case in another form that computes the same: what `beside` says, chosen by the case's seed. One case with all
// runs, or where a form serves one run only, one for each.
Result<std::vector<Case>> variants(const Case& c, Beside beside);

// Whether a variant's results must have the case's bits, beside being within the bounds.
bool same_bits(const Case& c, Beside beside);

}  // namespace fusec::fuzz
