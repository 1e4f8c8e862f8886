// SPDX-License-Identifier: Apache-2.0
// Computes a lower bound on the arena size during bind, for the statistics of a Plan and for tests of the memory
// planner. It must not share code with lifetimes.cpp or memory_plan.cpp, because a shared mistake would go unnoticed.

#include <algorithm>
#include <map>
#include <set>

#include "runtime/plan/memory_plan.h"

namespace fusec::runtime {
namespace {

struct Span {
  std::size_t born = 0, dies = 0;  // steps
};
using Spans = std::map<ir::AllocId, Span>;

bool is_temporary(const ir::Program& program, const ResolvedProgram& resolved, ir::AllocId id) {
  return program.allocs[id].kind == ir::AllocKind::temporary && !resolved.kept[id.index];
}

Spans collect_spans(const ir::Program& program, const ResolvedProgram& resolved) {
  Spans spans;
  for (std::size_t i = 0; i < resolved.steps.size(); ++i) {
    for (const ResolvedView& view : resolved.steps[i].args) {
      if (!is_temporary(program, resolved, view.alloc)) continue;
      spans.try_emplace(view.alloc, Span{i, i}).first->second.dies = i;
    }
  }
  return spans;
}

// (input, output) argument pairs of the step that may be the same memory.
std::vector<std::pair<std::size_t, std::size_t>> alias_pairs(const ir::Program& program, const ResolvedStep& step,
                                                             const LibraryFacts& facts) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (const auto* launch = std::get_if<ir::KernelStep>(&step.step->v)) {
    const ir::Kernel& kernel = program.kernels[launch->kernel];
    const auto position = [&](ir::BufferId buffer) {
      return static_cast<std::size_t>(std::find(kernel.params.begin(), kernel.params.end(), buffer) -
                                      kernel.params.begin());
    };
    for (const auto& [in, out] : kernel.may_alias) pairs.emplace_back(position(in), position(out));
  } else {
    for (int in : facts.may_alias) pairs.emplace_back(static_cast<std::size_t>(in), step.args.size() - 1);
  }
  return pairs;
}

int64_t mentions(const ResolvedStep& step, ir::AllocId id) {
  return std::count_if(step.args.begin(), step.args.end(), [&](const ResolvedView& v) { return v.alloc == id; });
}

// The bytes that the sum of step i counts twice: an output that starts here may take the memory of an input that ends
// here.
int64_t shared_bytes(const ir::Program& program, const ResolvedProgram& resolved, std::size_t i, const Spans& spans,
                     const LibraryFacts& facts) {
  const ResolvedStep& step = resolved.steps[i];
  std::set<ir::AllocId> taken;
  int64_t bytes = 0;
  for (const auto& [in, out] : alias_pairs(program, step, facts)) {
    const ResolvedView &a = step.args[in], &b = step.args[out];
    if (!spans.count(a.alloc) || !spans.count(b.alloc)) continue;
    const bool lives_fit = spans.at(a.alloc).dies == i && spans.at(b.alloc).born == i;
    const bool same_view = a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
    const int64_t size = resolved.alloc_bytes[a.alloc.index];
    if (!lives_fit || !same_view || size != resolved.alloc_bytes[b.alloc.index]) continue;
    if (mentions(step, a.alloc) != 1 || mentions(step, b.alloc) != 1) continue;
    if (taken.count(a.alloc) || taken.count(b.alloc)) continue;
    taken.insert({a.alloc, b.alloc});
    bytes += size;
  }
  return bytes;
}

}  // namespace

int64_t live_lower_bound_bytes(const ir::Program& program, const ResolvedProgram& resolved,
                               const std::function<LibraryFacts(std::size_t)>& facts) {
  const Spans spans = collect_spans(program, resolved);
  std::vector<int64_t> arriving(resolved.steps.size()), leaving(resolved.steps.size());
  for (const auto& [id, span] : spans) {
    arriving[span.born] += resolved.alloc_bytes[id.index];
    leaving[span.dies] += resolved.alloc_bytes[id.index];
  }
  int64_t bound = 0, alive = 0;
  for (std::size_t i = 0; i < resolved.steps.size(); ++i) {
    const bool library = std::holds_alternative<ir::LibraryStep>(resolved.steps[i].step->v);
    const LibraryFacts known = library ? facts(i) : LibraryFacts{};
    alive += arriving[i];
    bound = std::max(bound, alive + known.workspace_bytes - shared_bytes(program, resolved, i, spans, known));
    alive -= leaving[i];
  }
  return bound;
}

}  // namespace fusec::runtime
