// SPDX-License-Identifier: Apache-2.0
// Lower for the host: joins element-wise nests that follow one another, have equal loops and load the same elements, as
// the parts of a concatenation of two combinations of one tensor's halves do. Apart they would read it once each.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Whether the nest has loads, stores and scalar ops alone, and neither reads nor writes memory that another parameter
// may share.
bool is_plain(const ir::Kernel& kernel, const PerfectNest& nest) {
  return std::all_of(nest.body.begin(), nest.body.end(), [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    const auto* store = std::get_if<ir::Store>(&stmt.v);
    if (load != nullptr) return kernel.buffers[load->buffer].space == ir::Space::in && !may_alias(kernel, load->buffer);
    if (store != nullptr)
      return kernel.buffers[store->buffer].space == ir::Space::out && !may_alias(kernel, store->buffer);
    return std::holds_alternative<ir::Let>(stmt.v) || std::holds_alternative<ir::IndexValue>(stmt.v);
  });
}

bool have_equal_loops(const PerfectNest& a, const PerfectNest& b) {
  return std::equal(a.heads.begin(), a.heads.end(), b.heads.begin(), b.heads.end(),
                    [](const LoopHead& x, const LoopHead& y) { return x.tag == y.tag && x.extent == y.extent; });
}

bool loads_same_element(const Block& a, const Block& b) {
  for (const Stmt& one : a) {
    const auto* x = std::get_if<ir::Load>(&one.v);
    for (const Stmt& other : b) {
      const auto* y = std::get_if<ir::Load>(&other.v);
      if (x != nullptr && y != nullptr && x->buffer == y->buffer && x->index == y->index) return true;
    }
  }
  return false;
}

}  // namespace

bool join_nests(const ir::Kernel& kernel, PerfectNest& first, const PerfectNest& second) {
  const auto suits = [&](const PerfectNest& nest) { return is_plain(kernel, nest) && !strided_across(nest); };
  if (!have_equal_loops(first, second) || !suits(first) || !suits(second)) return false;
  Block body = second.body;
  for (std::size_t i = 0; i < first.heads.size(); ++i)
    substitute(body, second.heads[i].var, IndexExpr::symbol(first.heads[i].var));
  if (!loads_same_element(first.body, body)) return false;
  append(first.body, std::move(body));
  return true;
}

}  // namespace fusec::compiler
