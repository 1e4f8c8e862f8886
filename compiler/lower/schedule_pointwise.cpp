// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/rewrite.h"
#include "compiler/lower/schedule.h"

namespace fusec::compiler {

using ir::Block;
using ir::LoopHead;
using ir::LoopTag;

namespace {

// Elements per task: enough to pay for its start, few enough to share among threads.
constexpr int64_t kTaskElements = 4096;
// Bodies of fewer statements run two vectors at a time.
constexpr size_t kShortBody = 24;

int64_t known_extent(const Dim& d) { return d.is_const() ? d.value() : kTaskElements; }

}  // namespace

Block schedule_pointwise(const HostSchedule& s, PerfectNest nest) {
  const LoopHead inner = nest.heads.back();
  nest.heads.pop_back();
  int lanes = lanes_for(s.kernel, nest.body, s.target);
  if (nest.body.size() < kShortBody && known_extent(inner.extent) >= 4 * lanes) lanes *= 2;

  std::vector<LoopHead> grid, inside;
  Dim base = 0, length = inner.extent;
  bool divisible = divisible_by(s.kernel, inner.extent, lanes);
  if (known_extent(inner.extent) >= kTaskElements && !inner.extent.is(kTaskElements)) {
    // The inner loop alone fills tasks.
    const std::string g = fresh_var(s.kernel);
    grid = nest.heads;
    grid.push_back({LoopTag::grid, g, ceildiv(inner.extent, kTaskElements)});
    base = Dim(kTaskElements) * Dim::symbol(g);
    if (!divisible_by(s.kernel, inner.extent, kTaskElements)) length = min(kTaskElements, inner.extent - base);
    else length = kTaskElements;
  } else {
    // Outer loops join the task until it is large enough.
    int64_t elements = known_extent(inner.extent);
    size_t outer = nest.heads.size();
    while (outer > 0 && elements * known_extent(nest.heads[outer - 1].extent) <= kTaskElements)
      elements *= known_extent(nest.heads[--outer].extent);
    grid.assign(nest.heads.begin(), nest.heads.begin() + static_cast<std::ptrdiff_t>(outer));
    inside.assign(nest.heads.begin() + static_cast<std::ptrdiff_t>(outer), nest.heads.end());
    if (grid.empty()) grid.push_back({LoopTag::grid, fresh_var(s.kernel), 1});
  }
  for (LoopHead& head : grid) head.tag = LoopTag::grid;
  Block body = vector_loops(s.kernel, nest.body, inner.var, base, length, lanes, divisible);
  std::vector<LoopHead> heads = grid;
  heads.insert(heads.end(), inside.begin(), inside.end());
  Block result;
  result.push_back(put_nest(heads, std::move(body)));
  return result;
}

}  // namespace fusec::compiler
