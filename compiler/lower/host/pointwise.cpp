// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules element-wise nests as tasks of about kTaskElements elements, with vector loops inside.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Renames a loop variable in the heads and in the body.
void rename(Block& body, std::vector<LoopHead>& heads, VarId var, VarId name) {
  for (LoopHead& head : heads)
    if (head.var == var) head.var = name;
  substitute(body, var, IndexExpr::symbol(name));
}

// Splits loop `at` into tasks of `size` iterations; the loop inside a task follows it.
void split(const Scheduling& s, PerfectNest& nest, size_t at, int64_t size) {
  const LoopHead head = nest.heads[at];
  const VarId g = add_var(s.kernel), r = add_var(s.kernel);
  const IndexExpr done = IndexExpr(size) * IndexExpr::symbol(g);
  const bool whole = divisible_by(s.kernel, head.extent, size);
  nest.heads[at] = {LoopTag::grid, g, whole ? floordiv(head.extent, size) : ceildiv(head.extent, size)};
  nest.heads.insert(nest.heads.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                    {LoopTag::seq, r, whole ? IndexExpr(size) : min(size, head.extent - done)});
  for (size_t i = at + 2; i < nest.heads.size(); ++i) {
    nest.heads[i].extent = nest.heads[i].extent.substitute({{head.var, done + IndexExpr::symbol(r)}});
  }
  substitute(nest.body, head.var, done + IndexExpr::symbol(r));
}

// A nest of several tasks may have larger or smaller ones.
int64_t task_elements(const Scheduling& s, const std::vector<LoopHead>& heads, const LoopHead& inner) {
  constexpr int64_t kMany = 64 * kTaskElements;
  int64_t elements = known_extent(s, inner.extent, kMany);
  for (const LoopHead& head : heads) elements = std::min(elements, kMany) * known_extent(s, head.extent, kMany);
  if (elements <= 2 * kTaskElements) return kTaskElements;
  s.made.task = s.choice.task > 0 ? s.choice.task : kTaskElements;
  return s.made.task;
}

}  // namespace

Block schedule_pointwise(const Scheduling& s, PerfectNest nest) {
  const LoopHead inner = nest.heads.back();
  nest.heads.pop_back();
  const int lanes = lanes_in_flight(s, nest.body, inner.extent);
  const int64_t task = task_elements(s, nest.heads, inner);

  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  Block result;
  if (known_extent(s, inner.extent, task) >= task && (nest.heads.empty() || inner.extent.is_const())) {
    // The inner loop alone fills tasks: full tasks, and one for the remainder.
    const IndexExpr tasks = floordiv(inner.extent, task), done = IndexExpr(task) * tasks;
    const VarId g = add_var(s.kernel);
    std::vector<LoopHead> heads = nest.heads;
    heads.push_back({LoopTag::grid, g, tasks});
    result.push_back(rebuild_loops(heads, vector_loops(s.kernel, nest.body, inner.var,
                                                       IndexExpr(task) * IndexExpr::symbol(g), task, lanes, true)));
    if (divisible_by(s.kernel, inner.extent, task)) return result;
    heads = nest.heads;
    const IndexExpr rest = inner.extent - done;
    heads.push_back({LoopTag::grid, add_var(s.kernel), 1});
    for (const LoopHead& head : nest.heads) rename(nest.body, heads, head.var, add_var(s.kernel));
    result.push_back(rebuild_loops(heads, vector_loops(s.kernel, nest.body, inner.var, done, rest, lanes,
                                                       divisible_by(s.kernel, inner.extent, lanes))));
    return result;
  }
  // Outer loops are added to the task until it is large enough.
  int64_t elements = known_extent(s, inner.extent, task);
  size_t outer = nest.heads.size();
  while (outer > 0 && elements * known_extent(s, nest.heads[outer - 1].extent, task) <= task) {
    elements *= known_extent(s, nest.heads[--outer].extent, task);
    nest.heads[outer].tag = LoopTag::seq;
  }
  if (outer > 0 && 2 * elements <= task) split(s, nest, outer - 1, task / elements);
  if (outer == 0) nest.heads.insert(nest.heads.begin(), {LoopTag::grid, add_var(s.kernel), 1});
  Block body =
      vector_loops(s.kernel, nest.body, inner.var, 0, inner.extent, lanes, divisible_by(s.kernel, inner.extent, lanes));
  result.push_back(rebuild_loops(nest.heads, std::move(body)));
  return result;
}

}  // namespace fusec::compiler
