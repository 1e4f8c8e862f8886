// SPDX-License-Identifier: Apache-2.0
// Renames kernels canonically. Lower renames every kernel so that equal ones share an entry. The cache key contains
// these names, so a change in naming invalidates cached kernels.

#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

// Collects new ids in one walk, then rewrites a copy.
class Renumberer {
 public:
  explicit Renumberer(const Kernel& kernel) : in_(kernel), out_(kernel) {}

  Kernel run() {
    vars_.resize(in_.vars.size());
    regs_.resize(in_.regs.size());
    buffers_.resize(in_.buffers.size());
    out_.name = "k";
    out_.vars = {};
    out_.regs = {};
    out_.buffers = {};
    for (uint32_t i = 0; i < out_.extents.size(); ++i) out_.extents[ExtentId{i}] = systematic_name(ExtentId{i});
    for (const BufferId b : in_.params) keep(b);
    for_each_stmt(in_.body, [&](const Stmt& s) { collect(s); });
    for (BufferId& b : out_.params) rename(b);
    for (auto& [in, out] : out_.may_alias) rename(in), rename(out);
    for_each_stmt(out_.body, [&](Stmt& s) { rewrite(s); });
    return std::move(out_);
  }

 private:
  void keep(BufferId b) {
    if (!in_.buffers.contains(b) || buffers_[b].valid()) return;
    buffers_[b] = out_.buffers.push_back(in_.buffers[b]);
    out_.buffers[buffers_[b]].name = "b" + std::to_string(buffers_[b].index);
  }

  void keep(VarId var) {
    if (in_.vars.contains(var) && !vars_[var].valid()) vars_[var] = add_var(out_);
  }

  void collect(const Stmt& stmt) {
    for_each_head(stmt, [&](const LoopHead& head) { keep(head.var); });
    if (const auto* alloc = std::get_if<Alloc>(&stmt.v)) keep(alloc->buffer);
    if (const auto* choose = std::get_if<Choose>(&stmt.v)) keep(choose->buffer);
    for (const RegId r : defined(stmt)) {
      if (in_.regs.contains(r) && !regs_[r].valid()) regs_[r] = out_.regs.push_back(in_.regs[r]);
    }
  }

  template <class IdType>
  static void rename(IdType& id, const IdVector<IdType, IdType>& to) {
    if (to.contains(id) && to[id].valid()) id = to[id];
  }
  void rename(VarId& var) const { rename(var, vars_); }
  void rename(RegId& r) const { rename(r, regs_); }
  void rename(BufferId& b) const { rename(b, buffers_); }

  void rename(IndexExpr& e) const {
    e = e.substitute([&](SymbolId symbol) -> std::optional<IndexExpr> {
      SymbolId to = symbol;
      if (auto var = symbol.var()) rename(*var), to = *var;
      if (auto reg = symbol.reg()) rename(*reg), to = *reg;
      return to == symbol ? std::nullopt : std::optional(IndexExpr::symbol(to));
    });
  }

  void rewrite(Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& e) { rename(e); });
    for_each_operand(stmt, [&](Operand& o) {
      if (RegId* r = std::get_if<RegId>(&o)) rename(*r);
    });
    std::visit([&](auto& s) { rewrite_own(s); }, stmt.v);
  }
  void rewrite_own(Loop& s) {
    rename(s.head.var);
    if (s.tasks) rename(s.tasks->counters);
  }
  void rewrite_own(Choose& s) {
    rename(s.head.var), rename(s.buffer);
    for (BufferId& b : s.among) rename(b);
  }
  void rewrite_own(Alloc& s) { rename(s.buffer); }
  void rewrite_own(Let& s) { rename(s.dst); }
  void rewrite_own(IndexValue& s) { rename(s.dst); }
  void rewrite_own(Load& s) { rename(s.dst), rename(s.buffer); }
  void rewrite_own(Store& s) { rename(s.buffer); }
  void rewrite_own(Prefetch& s) { rename(s.buffer); }
  void rewrite_own(Reduce& s) {
    for (RegId& r : s.dst) rename(r);
    for (LoopHead& head : s.loops) rename(head.var);
  }
  void rewrite_own(Scan& s) { rename(s.dst), rename(s.loop.var); }
  void rewrite_own(TransposeTile& s) { rename(s.dst), rename(s.src); }
  void rewrite_own(CopyAsync& s) { rename(s.dst), rename(s.src); }
  void rewrite_own(Mma& s) { rename(s.dst), rename(s.a), rename(s.b); }
  void rewrite_own(TileProduct& s) { rename(s.sums), rename(s.a), rename(s.b); }
  void rewrite_own(If&) {}
  void rewrite_own(Shuffle& s) { rename(s.dst); }
  void rewrite_own(Ballot& s) { rename(s.dst); }
  void rewrite_own(Sync&) {}

  const Kernel& in_;
  Kernel out_;
  IdVector<VarId, VarId> vars_;
  IdVector<RegId, RegId> regs_;
  IdVector<BufferId, BufferId> buffers_;
};

}  // namespace

Kernel canonical(const Kernel& kernel) { return Renumberer(kernel).run(); }

}  // namespace fusec::ir
