// SPDX-License-Identifier: Apache-2.0
// Makes a failing case small while it fails in the same way.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/fuzz/check.h"

namespace fusec::fuzz {

// The case with other extents: its graph is built again, types follow from the ops. nullopt where they do not fit.
std::optional<Case> with_dims(const Case& c, const std::function<Dim(const Dim&)>& map);

// Takes two minutes at most.
Case shrink(const Case& c, const Outcome& outcome);

// The first run's inputs as comment lines, and the graph.
std::string as_text(const Case& c);
// A file for tests/text: `test run`, to be blessed once the fault is gone.
std::string as_test(const Case& c);

}  // namespace fusec::fuzz
