// SPDX-License-Identifier: Apache-2.0
// Checks what passes between the phases of a kernel and through which memory: reg buffers per thread, survival of reg
// and shared memory across grid phases, and writes before reads.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/text/kernel_text.h"
#include "ir/verify/kernel_access.h"

namespace fusec::ir {
namespace {

bool is_local(Space space) { return space != Space::in && space != Space::out; }

// A reg buffer belongs to a thread, so the parallel loops between its allocation and the access must be its leading
// axes.
void check_thread(const Kernel& kernel, const Access& a, std::size_t alloc_depth, std::vector<std::string>& out) {
  const Buffer& b = kernel.buffers[a.buffer];
  std::size_t axis = 0;
  for (std::size_t i = alloc_depth; i < a.loops.size(); ++i) {
    const EnclosingLoop& l = a.loops[i];
    if (!l.is_parallel()) continue;
    const bool indexed = axis < a.index.size() && a.index[axis] == IndexExpr::symbol(l.var);
    if (!indexed || with_facts(b.shape[axis], kernel) != l.extent) {
      out.push_back(fmt::format("axis {} of reg buffer {} is not that of {} {} in '{}'", axis, b.name, to_string(l.tag),
                                name_of(kernel, l.var), print_stmt(kernel, *a.stmt)));
      return;
    }
    ++axis;
  }
}

bool is_coop(const Stmt& s) {
  const Loop* loop = std::get_if<Loop>(&s.v);
  return loop == nullptr || loop->head.tag != LoopTag::grid || loop->boundary == PhaseBoundary::coop;
}

// reg and shared memory survives only a coop boundary.
void check_survival(const Kernel& kernel, BufferId id, const std::vector<const Access*>& list,
                    std::vector<std::string>& out) {
  const Buffer& b = kernel.buffers[id];
  if (b.space != Space::reg && b.space != Space::shared) return;
  std::set<std::size_t> phases;
  for (const Access* a : list) phases.insert(a->phase);
  for (std::size_t p = *phases.begin(); p < *phases.rbegin(); ++p) {
    if (is_coop(kernel.body[p])) continue;
    out.push_back(fmt::format("{} buffer {} passes between grid phases without a coop boundary after '{}'",
                              to_string(b.space), b.name, print_stmt(kernel, kernel.body[p])));
    return;
  }
}

void check_initialized(const Kernel& kernel, BufferId id, const std::vector<const Access*>& list,
                       std::vector<std::string>& out) {
  if (list.front()->write) return;
  out.push_back(fmt::format("{} is read before anything is stored: '{}'", kernel.buffers[id].name,
                            print_stmt(kernel, *list.front()->stmt)));
}

}  // namespace

void check_phases(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out) {
  std::map<uint32_t, std::vector<const Access*>> by_buffer;
  for (const Access& a : table.accesses) by_buffer[a.buffer.index].push_back(&a);
  for (const auto& [index, list] : by_buffer) {
    const BufferId id{index};
    if (!is_local(kernel.buffers[id].space)) continue;
    check_survival(kernel, id, list, out);
    check_initialized(kernel, id, list, out);
    const auto depth = table.alloc_depth.find(index);
    if (kernel.buffers[id].space != Space::reg || depth == table.alloc_depth.end()) continue;
    for (const Access* a : list) check_thread(kernel, *a, depth->second, out);
  }
}

}  // namespace fusec::ir
