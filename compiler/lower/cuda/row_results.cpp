// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: results of one phase of a row that a later phase takes from registers, where it would compute them
// again from held elements.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kKeptCost = 8;  // of an op whose result is kept rather than computed again

std::set<BufferId> find_loaded(const Block& block, const std::set<BufferId>& buffers) {
  std::set<BufferId> loaded;
  for (const Stmt& stmt : block) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load != nullptr && buffers.contains(load->buffer)) loaded.insert(load->buffer);
  }
  return loaded;
}

int64_t count_loads(const Block& block, BufferId buffer) {
  return std::count_if(block.begin(), block.end(), [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    return load != nullptr && load->buffer == buffer;
  });
}

const Stmt* find_definition(const Block& block, RegId reg) {
  for (const Stmt& stmt : block) {
    const std::vector<RegId> made = defined(stmt);
    if (std::find(made.begin(), made.end(), reg) != made.end()) return &stmt;
  }
  return nullptr;
}

// Compares values of two phases.
struct PhasePair {
  const HeldElements& held;
  const Block &x, &y;

  // Whether operand a of x and operand b of y come of the same ops on the same held elements.
  bool are_equal(const Operand& a, const Operand& b) const {
    const RegId *of_x = std::get_if<RegId>(&a), *of_y = std::get_if<RegId>(&b);
    if (of_x == nullptr || of_y == nullptr) return a == b;
    const Stmt *here = find_definition(x, *of_x), *there = find_definition(y, *of_y);
    if (here == nullptr || there == nullptr) return here == there && *of_x == *of_y;
    if (const auto* load = std::get_if<ir::Load>(&here->v)) {
      const auto* other = std::get_if<ir::Load>(&there->v);
      return other != nullptr && held.buffers.contains(load->buffer) && load->buffer == other->buffer;
    }
    const auto *let = std::get_if<ir::Let>(&here->v), *other = std::get_if<ir::Let>(&there->v);
    return let != nullptr && other != nullptr && are_equal(*let, *other);
  }

  bool are_equal(const ir::Let& a, const ir::Let& b) const {
    const std::vector<ir::RegInfo> types = {held.kernel.regs[a.dst], held.kernel.regs[b.dst]};
    if (a.op != b.op || a.args.size() != b.args.size() || !(types[0] == types[1])) return false;
    for (size_t i = 0; i < a.args.size(); ++i)
      if (!are_equal(a.args[i], b.args[i])) return false;
    return true;
  }
};

bool fits(const HeldElements& held, BufferId id, RegId reg) {
  const ir::Buffer& buffer = held.kernel.buffers[id];
  const ir::RegInfo& info = held.kernel.regs[reg];
  return info.dtype == buffer.dtype && buffer.shape.back().is(info.width);
}

}  // namespace

bool loads_any(const Block& block, const std::set<BufferId>& buffers) { return !find_loaded(block, buffers).empty(); }

bool take_result(const HeldElements& held, Block& from, Block& to) {
  const std::set<BufferId> loaded = find_loaded(to, held.buffers);
  if (loaded.size() != 1 || find_loaded(from, held.buffers) != loaded) return false;
  const BufferId buffer = *loaded.begin();
  for (size_t b = to.size(); b-- > 0;) {
    const auto* late = std::get_if<ir::Let>(&to[b].v);
    if (late == nullptr || !fits(held, buffer, late->dst) || info(late->op).cost < kKeptCost) continue;
    const auto early = std::find_if(from.begin(), from.end(), [&](const Stmt& stmt) {
      const auto* let = std::get_if<ir::Let>(&stmt.v);
      return let != nullptr && PhasePair{held, from, to}.are_equal(*let, *late);
    });
    if (early == from.end()) continue;
    Block taken = to;
    taken[b] = {ir::Load{late->dst, buffer, held.at, {}, ir::Constant{held.kernel.regs[late->dst].dtype}, 0}};
    drop_unread(taken, {});
    if (count_loads(taken, buffer) != 1) continue;
    const Operand result = std::get<ir::Let>(early->v).dst;
    from.insert(early + 1, {ir::Store{buffer, held.at, result, {}, ir::StoreHint::none}});
    to = std::move(taken);
    return true;
  }
  return false;
}

}  // namespace fusec::compiler
