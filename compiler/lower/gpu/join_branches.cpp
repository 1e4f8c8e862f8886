// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: the parts of a concat follow each other in the blocks of one grid, each in a branch of its own. Where
// several such branches do the same with one input after another, this makes one branch of them. The code is then as
// long as that of one part, and so is the time that a compiler takes for it.

#include <algorithm>
#include <set>

#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {
namespace {

// Fewer branches are short already, and choosing one of them costs a division.
constexpr size_t kMinBranches = 4;

// The value with a - b*floordiv(a, b) for mod(a, b), so that equal values are equal sums.
IndexExpr without_mod(const IndexExpr& e) {
  if (e.is_const()) return e;
  IndexExpr sum = 0;
  for (const IndexExpr::Term& term : e.terms()) {
    IndexExpr product = term.coefficient;
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn == IndexExpr::Fn::symbol) {
        product *= IndexExpr::symbol(atom.symbol);
        continue;
      }
      const IndexExpr a = without_mod(atom.args[0]), b = without_mod(atom.args[1]);
      if (atom.fn == IndexExpr::Fn::min) product *= min(a, b);
      if (atom.fn == IndexExpr::Fn::max) product *= max(a, b);
      if (atom.fn == IndexExpr::Fn::floordiv) product *= floordiv(a, b);
      if (atom.fn == IndexExpr::Fn::mod) product *= a - b * floordiv(a, b);
    }
    sum += product;
  }
  return sum;
}

bool is_over_extents(const IndexExpr& e) {
  std::set<ir::SymbolId> symbols;
  e.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(), [](ir::SymbolId s) { return s.extent().has_value(); });
}

// The conditions whose least is at least 0 where `e` is.
void split_least(const IndexExpr& e, std::vector<IndexExpr>& out) {
  for (const IndexExpr::Term& term : e.terms()) {
    if (term.coefficient != 1 || term.atoms.size() != 1 || term.atoms[0].fn != IndexExpr::Fn::min) continue;
    const IndexExpr rest = e - IndexExpr::from_terms({term});
    split_least(rest + term.atoms[0].args[0], out);
    return split_least(rest + term.atoms[0].args[1], out);
  }
  out.push_back(e);
}

struct Branch {
  IndexExpr begin, end;            // of its blocks
  std::string form;                // what it does, without its indices and the inputs that it loads
  std::vector<IndexExpr> indices;  // in the order of for_each_index, in canonical names
  std::vector<bool> of_loop;       // for each index: whether it is the extent of a loop
  std::vector<BufferId> inputs;    // of its loads, in order
};

// The blocks in which `condition` holds: begin <= block < end.
bool find_blocks(const ir::Guard& condition, const LoopHead& grid, Branch& branch) {
  branch.begin = 0;
  branch.end = without_mod(grid.extent);
  std::vector<IndexExpr> all;
  for (const IndexExpr& e : condition) {
    if (e.is_const()) return false;
    split_least(e, all);
  }
  const IndexExpr block = IndexExpr::symbol(grid.var);
  int begins = 0, ends = 0;
  for (const IndexExpr& e : all) {
    const IndexExpr above = e - block, below = e + block;
    if (is_over_extents(above))
      branch.begin = without_mod(-above), ++begins;
    else if (is_over_extents(below))
      branch.end = without_mod(below + 1), ++ends;
    else
      return false;
  }
  return begins <= 1 && ends <= 1;
}

bool is_simple(const ir::Kernel& kernel, const Stmt& stmt) {
  if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) return kernel.buffers[alloc->buffer].space == ir::Space::reg;
  return std::holds_alternative<ir::Let>(stmt.v) || std::holds_alternative<ir::IndexValue>(stmt.v) ||
         std::holds_alternative<ir::Load>(stmt.v) || std::holds_alternative<ir::Store>(stmt.v) ||
         std::holds_alternative<ir::If>(stmt.v) || std::holds_alternative<ir::Loop>(stmt.v);
}

// Whether the block reads no register that is defined outside of it, and shares no memory but parameters.
bool stands_alone(const ir::Kernel& kernel, const Block& block) {
  std::set<RegId> own;
  std::set<BufferId> memory(kernel.params.begin(), kernel.params.end());
  bool alone = true;
  for_each_stmt(block, [&](const Stmt& stmt) {
    for (const RegId reg : defined(stmt)) own.insert(reg);
    if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) memory.insert(alloc->buffer);
  });
  for_each_stmt(block, [&](const Stmt& stmt) {
    alone = alone && is_simple(kernel, stmt);
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) alone = alone && memory.contains(load->buffer);
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) alone = alone && memory.contains(store->buffer);
    for_each_operand(stmt, [&](const Operand& o) {
      if (const auto* reg = std::get_if<RegId>(&o)) alone = alone && own.contains(*reg);
    });
    for_each_index(stmt, [&](const IndexExpr& e) {
      std::set<ir::SymbolId> symbols;
      e.collect_symbols(symbols);
      for (const ir::SymbolId s : symbols) alone = alone && (!s.reg() || own.contains(*s.reg()));
    });
  });
  return alone;
}

// Describes a branch of the grid loop's body.
std::optional<Branch> describe(const ir::Kernel& kernel, const LoopHead& grid, const Stmt& stmt) {
  const auto* branch = std::get_if<ir::If>(&stmt.v);
  Branch out;
  if (branch == nullptr || !find_blocks(branch->condition, grid, out) || !stands_alone(kernel, branch->body))
    return std::nullopt;
  ir::Kernel alone = kernel;
  alone.body = {{ir::Loop{grid, branch->body, ir::PhaseBoundary::launches, 1}}};
  alone = ir::canonical(alone);
  for_each_stmt(std::get<ir::Loop>(alone.body[0].v).body, [&](Stmt& inner) {
    for_each_index(inner, [&](IndexExpr& e) {
      out.indices.push_back(e);
      out.of_loop.push_back(std::holds_alternative<ir::Loop>(inner.v));
      e = 0;
    });
    auto* load = std::get_if<ir::Load>(&inner.v);
    if (load == nullptr || alone.buffers[load->buffer].space != ir::Space::in) return;
    out.inputs.push_back(kernel.params[load->buffer.index]);  // parameters have the first canonical names
    load->buffer = alone.params[0];
  });
  out.form = ir::print(alone);
  return out;
}

// Branches that do the same, and what differs between them.
class Family {
 public:
  Family(const ir::Kernel& kernel, const std::vector<std::optional<Branch>>& all, size_t first)
      : kernel_(kernel), all_(all), first_(first) {
    const Branch& a = at(0);
    length_ = a.end - a.begin;
    while (first + count_ < all.size() && all[first + count_] && extends(*all[first + count_])) ++count_;
    if (count_ >= kMinBranches && !find_inputs()) count_ = 1;
  }

  size_t count() const { return count_; }

  Stmt join(ir::Kernel& kernel, const LoopHead& grid, const Stmt& stmt) const {
    const Branch& first = at(0);
    const IndexExpr block = IndexExpr::symbol(grid.var), own = first.begin.is(0) ? block : max(0, block - first.begin);
    ir::Choose choose;
    choose.head = {LoopTag::seq, add_var(kernel), IndexExpr(static_cast<int64_t>(count_))};
    choose.number = floordiv(own, length_);
    ir::Buffer buffer = kernel.buffers[chosen(0)];
    buffer.name = "b" + std::to_string(kernel.buffers.size());
    choose.buffer = kernel.buffers.push_back(std::move(buffer));
    for (size_t k = 0; k < count_; ++k) choose.among.push_back(chosen(k));
    choose.body = std::get<ir::If>(stmt.v).body;
    size_t index = 0, input = 0;
    for_each_stmt(choose.body, [&](Stmt& inner) {
      for_each_index(inner, [&](IndexExpr& e) { e += IndexExpr::symbol(choose.head.var) * steps_[index++]; });
      auto* load = std::get_if<ir::Load>(&inner.v);
      if (load != nullptr && kernel.buffers[load->buffer].space == ir::Space::in && varies_[input++])
        load->buffer = choose.buffer;
    });
    ir::If out;
    const IndexExpr end = first.begin + static_cast<int64_t>(count_) * length_;
    const ir::IndexRanges ranges = {{grid.var, {IndexExpr(0), grid.extent - 1}}};
    for (const IndexExpr& e : {block - first.begin, end - 1 - block})
      if (!proves_nonneg(e, ranges)) out.condition.push_back(e);
    if (out.condition.empty()) return {std::move(choose)};
    out.body.push_back({std::move(choose)});
    return {std::move(out)};
  }

 private:
  const Branch& at(size_t k) const { return *all_[first_ + k]; }

  // Whether the branch does the same as the others in the blocks that follow theirs, and its indices go on in equal
  // steps.
  bool extends(const Branch& next) {
    const Branch& a = at(0);
    const auto k = static_cast<int64_t>(count_);
    if (next.form != a.form || next.inputs.size() != a.inputs.size() || next.indices.size() != a.indices.size() ||
        next.of_loop != a.of_loop || !(next.begin - at(count_ - 1).end).is(0) ||
        !(next.end - next.begin - length_).is(0))
      return false;
    if (count_ == 1) {
      steps_.clear();
      for (size_t i = 0; i < a.indices.size(); ++i) {
        steps_.push_back(without_mod(next.indices[i]) - without_mod(a.indices[i]));
        if (!is_over_extents(steps_[i]) || (a.of_loop[i] && !steps_[i].is(0))) return false;
      }
      return true;
    }
    for (size_t i = 0; i < a.indices.size(); ++i)
      if (!(without_mod(next.indices[i]) - without_mod(a.indices[i]) - k * steps_[i]).is(0)) return false;
    return true;
  }

  // Sets which loads read another input in each branch. False if a branch reads two such inputs, if there is none, or
  // if they are not alike.
  bool find_inputs() {
    for (size_t i = 0; i < at(0).inputs.size(); ++i) {
      bool varies = false;
      for (size_t k = 1; k < count_; ++k) varies |= at(k).inputs[i] != at(0).inputs[i];
      varies_.push_back(varies);
    }
    if (std::find(varies_.begin(), varies_.end(), true) == varies_.end()) return false;
    for (size_t k = 0; k < count_; ++k) {
      for (size_t i = 0; i < varies_.size(); ++i)
        if (varies_[i] && at(k).inputs[i] != chosen(k)) return false;
      ir::Buffer like = kernel_.buffers[chosen(k)];
      like.name = kernel_.buffers[chosen(0)].name;
      if (!(like == kernel_.buffers[chosen(0)]) || may_alias(kernel_, chosen(k))) return false;
    }
    return true;
  }

  BufferId chosen(size_t k) const {
    const auto first = std::find(varies_.begin(), varies_.end(), true);
    return at(k).inputs[static_cast<size_t>(first - varies_.begin())];
  }

  const ir::Kernel& kernel_;
  const std::vector<std::optional<Branch>>& all_;
  size_t first_, count_ = 1;
  IndexExpr length_;              // in blocks
  std::vector<IndexExpr> steps_;  // of each index from one branch to the next
  std::vector<bool> varies_;      // for each load of an input
};

}  // namespace

void join_branches(ir::Kernel& kernel) {
  if (kernel.body.size() != 1 || !std::holds_alternative<ir::Loop>(kernel.body[0].v)) return;
  auto& grid = std::get<ir::Loop>(kernel.body[0].v);
  if (grid.head.tag != LoopTag::grid || grid.body.size() < kMinBranches) return;
  std::vector<std::optional<Branch>> branches;
  for (const Stmt& stmt : grid.body) branches.push_back(describe(kernel, grid.head, stmt));
  Block out;
  for (size_t i = 0; i < branches.size();) {
    std::optional<Family> family;
    if (branches[i]) family.emplace(kernel, branches, i);
    const size_t count = family && family->count() >= kMinBranches ? family->count() : 1;
    out.push_back(count > 1 ? family->join(kernel, grid.head, grid.body[i]) : std::move(grid.body[i]));
    i += count;
  }
  grid.body = std::move(out);
}

}  // namespace fusec::compiler
