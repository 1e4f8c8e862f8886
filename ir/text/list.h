// SPDX-License-Identifier: Apache-2.0
// Lists in printed text.
#pragma once

#include <string>
#include <vector>

#include "fusec/dim.h"

namespace fusec::ir {

// "a, b, c" of text(item).
template <class Items, class Text>
std::string listed(const Items& items, const Text& text) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    out += text(item);
  }
  return out;
}

inline std::string listed(const std::vector<Dim>& dims) {
  return listed(dims, [](const Dim& d) { return d.str(); });
}

}  // namespace fusec::ir
