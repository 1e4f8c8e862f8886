// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fusec/status.h"
#include "tests/fuzz/case.h"

namespace fusec::fuzz {

// By its name on the command line; nullopt: there is none of that name.
std::optional<Beside> beside_of(const std::string& name);
const char* to_string(Beside beside);

// The case in another form that computes the same: what `beside` says, chosen by the case's seed. Runs that the form does
// not serve are left out.
Result<Case> variant(const Case& c, Beside beside);

// Whether the variant's results must have the case's bits, beside being within the bounds.
bool same_bits(const Case& c, Beside beside);

}  // namespace fusec::fuzz
