// SPDX-License-Identifier: Apache-2.0
// Renames kernels canonically and hashes their text. Lower renames every kernel so that equal ones share an entry. The
// cache key contains these names, so a change in naming invalidates cached kernels.

#include "ir/text/signature.h"

#include <fmt/format.h>

#include "ir/support/hash.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

// Collects new names in one walk, then rewrites a copy.
class Renamer {
 public:
  Renamer(const Kernel& kernel, Renaming what) : in_(kernel), out_(kernel), everything_(what == Renaming::everything) {}

  Kernel run() {
    regs_.resize(in_.regs.size());
    buffers_.resize(in_.buffers.size());
    out_.regs = {};
    out_.buffers = {};
    for (const BufferId b : in_.params) keep(b);
    for_each_stmt(in_.body, [&](const Stmt& s) { collect(s); });
    if (everything_) rename_extents();
    for (Buffer& b : out_.buffers) rename(b.shape), rename(b.strides);
    for (BufferId& b : out_.params) b = buffers_[b];
    for (auto& [in, out] : out_.may_alias) in = buffers_[in], out = buffers_[out];
    for_each_stmt(out_.body, [&](Stmt& s) { rewrite(s); });
    return std::move(out_);
  }

 private:
  void keep(BufferId b) {
    if (!in_.buffers.contains(b) || buffers_[b].valid()) return;
    buffers_[b] = out_.buffers.push_back(in_.buffers[b]);
    if (everything_) out_.buffers[buffers_[b]].name = fmt::format("b{}", buffers_[b].index);
  }

  void name_loop(const std::string& var) { names_.emplace(var, Dim::symbol(fmt::format("i{}", loops_++))); }

  void collect(const Stmt& stmt) {
    for_each_head(stmt, [&](const LoopHead& head) { name_loop(head.var); });
    if (const auto* alloc = std::get_if<Alloc>(&stmt.v)) keep(alloc->buffer);
    for (const RegId r : defined(stmt)) {
      if (!in_.regs.contains(r) || regs_[r].valid()) continue;
      regs_[r] = out_.regs.push_back(in_.regs[r]);
      names_.emplace(reg_name(r), Dim::symbol(reg_name(regs_[r])));
    }
  }

  void rename_extents() {
    std::map<std::string, int64_t> divisible;
    for (std::size_t i = 0; i < in_.extents.size(); ++i) {
      out_.extents[i] = fmt::format("n{}", i);
      names_.insert_or_assign(in_.extents[i], Dim::symbol(out_.extents[i]));
      if (const auto it = in_.divisible.find(in_.extents[i]); it != in_.divisible.end()) {
        divisible.emplace(out_.extents[i], it->second);
      }
    }
    out_.divisible = std::move(divisible);
    out_.name = "k";
  }

  void rename(Dim& d) const { d = d.substitute(names_); }
  void rename(Shape& shape) const {
    for (Dim& d : shape) rename(d);
  }
  void rename(std::string& var) const {
    const auto it = names_.find(var);
    if (it != names_.end()) var = it->second.as_symbol().value_or(var);
  }
  void rename(RegId& r) const {
    if (regs_.contains(r) && regs_[r].valid()) r = regs_[r];
  }
  void rename(BufferId& b) const {
    if (buffers_.contains(b) && buffers_[b].valid()) b = buffers_[b];
  }

  void rewrite(Stmt& stmt) {
    for_each_dim(stmt, [&](Dim& d) { rename(d); });
    for_each_operand(stmt, [&](Operand& o) {
      if (RegId* r = std::get_if<RegId>(&o)) rename(*r);
    });
    std::visit([&](auto& s) { rewrite_own(s); }, stmt.v);
  }
  void rewrite_own(Loop& s) { rename(s.head.var); }
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
  void rewrite_own(Mma& s) { rename(s.acc), rename(s.a), rename(s.b); }
  void rewrite_own(Sync&) {}

  const Kernel& in_;
  Kernel out_;
  bool everything_;
  IdVector<RegId, RegId> regs_;
  IdVector<BufferId, BufferId> buffers_;
  std::map<std::string, Dim> names_;
  std::size_t loops_ = 0;
};

}  // namespace

Kernel renamed(const Kernel& kernel, Renaming what) { return Renamer(kernel, what).run(); }

std::string canonical_text(const Kernel& kernel) { return print(renamed(kernel, Renaming::everything)); }

bool same_kernel(const Kernel& a, const Kernel& b) {
  return print(renamed(a, Renaming::values)) == print(renamed(b, Renaming::values));
}

std::string signature(const Kernel& kernel) { return to_hex(sha256(canonical_text(kernel))); }

}  // namespace fusec::ir
