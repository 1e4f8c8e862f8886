// SPDX-License-Identifier: Apache-2.0
// What the importer takes to hold of a model's symbols because an op would otherwise have no meaning: x + y of extents
// N and M means that both are one number, and a table of 512 positions cut to the length S of a text that S is at most
// 512. A run whose inputs break an assumption is refused when it is bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusec/dim.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

struct Assumptions {
  std::map<std::string, Dim> equals;    // what symbols are equal to, over symbols that are not among them
  std::map<std::string, int64_t> most;  // the largest values of symbols
  bool is_complete = false;             // no more are made
};

// The extents that the op needs to be equal although they differ as expressions; nullopt if there are none.
using UnequalExtents = std::pair<Dim, Dim>;
std::optional<UnequalExtents> find_unequal(const Shape& a, const Shape& b);  // of one rank
std::optional<UnequalExtents> find_unequal_broadcast(const Shape& a, const Shape& b);
std::optional<UnequalExtents> find_unequal(ir::Op op, const std::vector<ir::Type>& operands, const ir::Attrs& attrs);

// Adds what makes the extents equal: a bound that decides a min of them, else the value of one symbol, the last of
// `symbols` if there is a choice. False if there is neither.
bool assume_equal(const UnequalExtents& extents, const std::vector<std::string>& symbols, Assumptions& to);

// The extent with every min that the assumptions decide in short form.
Dim simplify(const Dim& extent, const Assumptions& assumptions);

}  // namespace fusec::importer
