// SPDX-License-Identifier: Apache-2.0
// Groups consecutive host launches whose memory ranges do not conflict, at the end of bind, so that a run needs one
// parallel region for each group. Inputs and outputs of the caller may share memory, so two different ones conflict as
// soon as one of them is written.

#include <algorithm>
#include <vector>

#include "runtime/plan/bind.h"
#include "runtime/plan/plan.h"

namespace fusec::runtime {
namespace {

// Bytes that one argument of a launch touches.
struct Touched {
  Base base = Base::arena;
  uint32_t ordinal = 0;
  int64_t begin = 0, end = 0;
  bool written = false;
};

Touched touched(const Address& at, const ResolvedView& view, bool written) {
  const auto element = static_cast<int64_t>(size_of(view.dtype));
  Touched out{at.base, at.ordinal, at.bytes, at.bytes + element, written};
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    const int64_t reach = (view.shape[axis] - 1) * view.strides[axis] * element;
    (reach < 0 ? out.begin : out.end) += reach;
  }
  return out;
}

std::vector<Touched> touched(const Plan& plan, const ResolvedStep& step, const Launch& launch) {
  std::vector<Touched> out;
  for (std::size_t a = 0; a < step.args.size(); ++a) {
    if (step.args[a].empty()) continue;
    out.push_back(touched(plan.args[launch.first_arg + a], step.args[a], writes(plan.loaded->program, *step.step, a)));
  }
  return out;
}

bool is_callers(Base base) { return base == Base::input || base == Base::output; }

bool conflict(const Touched& a, const Touched& b) {
  if (!a.written && !b.written) return false;
  if (is_callers(a.base) && is_callers(b.base) && (a.base != b.base || a.ordinal != b.ordinal))
    return true;  // may be the same memory
  return a.base == b.base && a.ordinal == b.ordinal && a.begin < b.end && b.begin < a.end;
}

bool conflict(const std::vector<Touched>& a, const std::vector<Touched>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Touched& x) {
    return std::any_of(b.begin(), b.end(), [&](const Touched& y) { return conflict(x, y); });
  });
}

bool may_join(const Launch& launch) { return launch.op == nullptr && launch.phases == 1 && !launch.checks_status; }

}  // namespace

void group_independent(Plan& plan, const ResolvedProgram& resolved) {
  constexpr std::size_t kMax = 16;  // launches of a group: each is compared with all of them
  for (std::size_t first = 0; first < plan.launches.size();) {
    std::vector<Touched> group;
    std::size_t end = first;
    int threads = 0;
    int64_t bytes = 0;
    const std::size_t limit = std::min(first < plan.once ? plan.once : plan.launches.size(), first + kMax);
    for (; end < limit && may_join(plan.launches[end]); ++end) {
      const std::vector<Touched> next = touched(plan, resolved.steps[end], plan.launches[end]);
      if (conflict(group, next)) break;
      group.insert(group.end(), next.begin(), next.end());
      bytes += plan.launches[end].bytes;
      threads += plan.phases[plan.launches[end].first_phase].threads;
    }
    Launch& launch = plan.launches[first];
    launch.group_size = static_cast<uint32_t>(std::max<std::size_t>(end - first, 1));
    launch.group_threads = std::max(threads_for(bytes, threads, plan.team), 1);
    first += launch.group_size;
  }
}

}  // namespace fusec::runtime
