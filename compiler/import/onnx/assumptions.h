// SPDX-License-Identifier: Apache-2.0
// What the importer takes to hold of a model's symbols because an op would otherwise have no meaning: x + y of extents
// N and M means that both are one number, and a table of 512 positions cut to the length S of a text that S is at most
// 512. A run whose inputs break an assumption is refused when it is bound.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusec/dim.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

struct Assumptions {
  std::map<std::string, Dim> equals;  // what symbols are equal to, over symbols that are not among them
  ir::Limits limits;                  // over the same symbols
  // dim_params that are expressions, but whose value an op contradicts: they are names alone.
  std::set<std::string> names;
  bool is_complete = false;  // no more are made
};

// The extents that the op needs to be equal although they differ as expressions; nullopt if there are none.
using UnequalExtents = std::pair<Dim, Dim>;
std::optional<UnequalExtents> find_unequal(const Shape& a, const Shape& b);  // of one rank
std::optional<UnequalExtents> find_unequal_broadcast(const Shape& a, const Shape& b);
std::optional<UnequalExtents> find_unequal(ir::Op op, const std::vector<ir::Type>& operands, const ir::Attrs& attrs);

// Adds what makes the extents equal: bounds that decide the minima in them, else the value of one symbol. If there is a
// choice it is the last of `symbols` whose value cannot be negative, else the last. False if there is neither.
bool assume_equal(const UnequalExtents& extents, const std::vector<std::string>& symbols, Assumptions& to);

// Lets the extent have only values of the range, too. False, and nothing changes, if no value is left.
bool add_limit(const Dim& extent, const ExtentRange& range, ir::Limits& limits);

}  // namespace fusec::importer
