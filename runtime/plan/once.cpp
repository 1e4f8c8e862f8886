// SPDX-License-Identifier: Apache-2.0
// Finds the steps of a resolved program that compute the same in every run, such as causal masks and tables of
// positions, and the values that must stay in memory for these to run once per plan. A value is given up, largest
// first, until those that remain fit the limit.

#include <algorithm>

#include "runtime/plan/resolve.h"

namespace fusec::runtime {
namespace {

class OnceFinder {
 public:
  OnceFinder(const ir::Program& program, const ResolvedProgram& resolved)
      : program_(program), resolved_(resolved), varies_(program.allocs.size()) {
    for (uint32_t id = 0; id < varies_.size(); ++id) {
      const ir::AllocKind kind = program.allocs[ir::AllocId{id}].kind;
      varies_[id] = kind == ir::AllocKind::input || kind == ir::AllocKind::output;
    }
    settle();
  }

  bool runs_once(const ResolvedStep& step) const {
    return std::none_of(step.args.begin(), step.args.end(),
                        [&](const ResolvedView& view) { return varies_[view.alloc.index]; });
  }

  std::vector<bool> kept() const {
    std::vector<bool> made(varies_.size()), kept(varies_.size());
    for_each_arg([&](bool once, const ResolvedStep& step, std::size_t arg) {
      if (once && writes(program_, *step.step, arg)) made[step.args[arg].alloc.index] = true;
    });
    for_each_arg([&](bool once, const ResolvedStep& step, std::size_t arg) {
      if (!once && made[step.args[arg].alloc.index]) kept[step.args[arg].alloc.index] = true;
    });
    return kept;
  }

  // The steps that make this value run every time.
  void give_up(std::size_t alloc) {
    varies_[alloc] = true;
    settle();
  }

 private:
  template <typename F>
  void for_each_arg(const F& visit) const {
    for (const ResolvedStep& step : resolved_.steps) {
      const bool once = runs_once(step);
      for (std::size_t arg = 0; arg < step.args.size(); ++arg) visit(once, step, arg);
    }
  }

  // What a step writes varies if the step does. A step that shares an allocation with such a step varies, too.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for_each_arg([&](bool once, const ResolvedStep& step, std::size_t arg) {
        const uint32_t alloc = step.args[arg].alloc.index;
        if (once || varies_[alloc] || !writes(program_, *step.step, arg)) return;
        varies_[alloc] = changed = true;
      });
    }
  }

  const ir::Program& program_;
  const ResolvedProgram& resolved_;
  std::vector<bool> varies_;  // by AllocId: differs between runs, or lies in memory of the caller
};

bool fit(const std::vector<bool>& kept, const std::vector<int64_t>& bytes, int64_t left) {
  for (std::size_t id = 0; id < kept.size(); ++id) {
    if (!kept[id]) continue;
    if (bytes[id] > left) return false;
    left -= bytes[id];
  }
  return true;
}

std::size_t largest(const std::vector<bool>& kept, const std::vector<int64_t>& bytes) {
  std::size_t best = kept.size();
  for (std::size_t id = 0; id < kept.size(); ++id)
    if (kept[id] && (best == kept.size() || bytes[id] > bytes[best])) best = id;
  return best;
}

}  // namespace

void put_once_steps_first(const ir::Program& program, ResolvedProgram& resolved, int64_t most_kept) {
  OnceFinder finder(program, resolved);
  resolved.kept = finder.kept();
  while (!fit(resolved.kept, resolved.alloc_bytes, most_kept)) {
    finder.give_up(largest(resolved.kept, resolved.alloc_bytes));
    resolved.kept = finder.kept();
  }
  const auto end = std::stable_partition(resolved.steps.begin(), resolved.steps.end(),
                                         [&](const ResolvedStep& step) { return finder.runs_once(step); });
  resolved.once = static_cast<std::size_t>(end - resolved.steps.begin());
}

}  // namespace fusec::runtime
