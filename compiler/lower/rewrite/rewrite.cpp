// SPDX-License-Identifier: Apache-2.0
// Lower: small rewrites of kernels from which schedules are composed: affine forms of indices, copies,
// vectorization, guards and sums in levels.

#include "compiler/lower/rewrite/rewrite.h"

#include <algorithm>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/support/check.h"

namespace fusec::compiler {

using ir::Kernel;

IndexExpr Affine::coefficient(ir::SymbolId var) const {
  auto it = coefficients.find(var);
  return it == coefficients.end() ? IndexExpr(0) : it->second;
}

bool divisible_by(const ir::Kernel& kernel, const IndexExpr& extent, int64_t n) {
  if (extent.is_const()) return extent.value() % n == 0;
  // Each term is a multiple when its coefficient and the facts on its symbols are.
  for (const IndexExpr::Term& term : extent.terms()) {
    int64_t divisor = term.coefficient;
    for (const IndexExpr::Atom& atom : term.atoms) {
      const auto name = atom.fn == IndexExpr::Fn::symbol ? atom.symbol.extent() : std::nullopt;
      if (const auto it = name ? kernel.divisible.find(*name) : kernel.divisible.end(); it != kernel.divisible.end())
        divisor *= it->second;
    }
    if (divisor % n != 0) return false;
  }
  return true;
}

namespace {

bool atom_uses(const IndexExpr::Atom& atom, const std::vector<ir::SymbolId>& vars) {
  for (const IndexExpr& arg : atom.args)
    for (const ir::SymbolId v : vars)
      if (arg.uses(v)) return true;
  return false;
}

}  // namespace

std::optional<Affine> affine_in(const IndexExpr& d, const std::vector<ir::SymbolId>& vars) {
  Affine result;
  std::vector<IndexExpr::Term> rest;
  for (IndexExpr::Term term : d.terms()) {
    std::optional<ir::SymbolId> var;
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const IndexExpr::Atom& atom = term.atoms[i];
      if (atom.fn != IndexExpr::Fn::symbol) {
        if (atom_uses(atom, vars)) return std::nullopt;
        continue;
      }
      if (std::find(vars.begin(), vars.end(), atom.symbol) == vars.end()) continue;
      if (var) return std::nullopt;
      var = atom.symbol;
      term.atoms.erase(term.atoms.begin() + static_cast<std::ptrdiff_t>(i--));
    }
    if (!var) {
      rest.push_back(term);
    } else {
      result.coefficients[*var] = result.coefficient(*var) + IndexExpr::from_terms({term});
    }
  }
  result.rest = IndexExpr::from_terms(rest);
  return result;
}

void substitute(Block& block, VarId var, const IndexExpr& by) {
  const std::map<ir::SymbolId, IndexExpr> map{{var, by}};
  for_each_stmt(block, [&](Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& d) {
      if (d.uses(var)) d = d.substitute(map);
    });
  });
}

namespace {

// Gives a loop of the statement another variable if its own is taken.
void own_var(Kernel& kernel, Stmt& stmt, ir::LoopHead& head, std::set<VarId>& taken) {
  if (taken.insert(head.var).second) return;
  const VarId own = add_var(kernel);
  for (Block* inner : nested_blocks(stmt)) substitute(*inner, head.var, IndexExpr::symbol(own));
  if (auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
    for (IndexExpr& d : reduce->guard) d = d.substitute({{head.var, IndexExpr::symbol(own)}});
    for (ir::LoopHead& other : reduce->loops)
      other.extent = other.extent.substitute({{head.var, IndexExpr::symbol(own)}});
  }
  head.var = own;
  taken.insert(own);
}

void give_own_vars(Kernel& kernel, Block& block, std::set<VarId>& taken) {
  for (Stmt& stmt : block) {
    for_each_head(stmt, [&](ir::LoopHead& head) { own_var(kernel, stmt, head, taken); });
    for (Block* inner : nested_blocks(stmt)) give_own_vars(kernel, *inner, taken);
  }
}

}  // namespace

void give_own_vars(Kernel& kernel) {
  std::set<VarId> taken;
  give_own_vars(kernel, kernel.body, taken);
}

namespace {

// Renames everything a block defines.
class Cloner {
 public:
  explicit Cloner(Kernel& kernel) : kernel_(kernel) {}

  Block clone(const Block& block) {
    Block copy = block;
    for_each_stmt(copy, [&](Stmt& stmt) { define(stmt); });
    for_each_stmt(copy, [&](Stmt& stmt) { rename(stmt); });
    return copy;
  }

 private:
  RegId fresh(RegId reg) {
    const ir::RegInfo info = kernel_.regs[reg];
    const RegId copy = add_reg(kernel_, info.dtype, info.width);
    regs_[reg] = copy;
    symbols_[reg] = IndexExpr::symbol(copy);
    return copy;
  }

  void fresh_loop(ir::LoopHead& head) {
    const VarId var = add_var(kernel_);
    symbols_[head.var] = IndexExpr::symbol(var);
    head.var = var;
  }

  void define(Stmt& stmt) {
    for (RegId reg : defined(stmt)) fresh(reg);
    for_each_head(stmt, [&](ir::LoopHead& head) { fresh_loop(head); });
    if (auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) {
      ir::Buffer buffer = kernel_.buffers[alloc->buffer];
      buffer.name = "b" + std::to_string(kernel_.buffers.size());
      const BufferId copy = add_buffer(kernel_, buffer);
      buffers_[alloc->buffer] = copy;
    }
  }

  RegId reg(RegId r) const {
    auto it = regs_.find(r);
    return it == regs_.end() ? r : it->second;
  }
  void buffer(BufferId& b) const {
    if (auto it = buffers_.find(b); it != buffers_.end()) b = it->second;
  }

  void rename(Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& d) { d = d.substitute(symbols_); });
    for_each_operand(stmt, [&](Operand& operand) {
      if (auto* r = std::get_if<RegId>(&operand)) *r = reg(*r);
    });
    if (auto* s = std::get_if<ir::Alloc>(&stmt.v)) buffer(s->buffer);
    if (auto* s = std::get_if<ir::Let>(&stmt.v)) s->dst = reg(s->dst);
    if (auto* s = std::get_if<ir::IndexValue>(&stmt.v)) s->dst = reg(s->dst);
    if (auto* s = std::get_if<ir::Load>(&stmt.v)) {
      s->dst = reg(s->dst);
      buffer(s->buffer);
    }
    if (auto* s = std::get_if<ir::Store>(&stmt.v)) buffer(s->buffer);
    if (auto* s = std::get_if<ir::Prefetch>(&stmt.v)) buffer(s->buffer);
    if (auto* s = std::get_if<ir::Reduce>(&stmt.v))
      for (RegId& r : s->dst) r = reg(r);
    if (auto* s = std::get_if<ir::Scan>(&stmt.v)) s->dst = reg(s->dst);
    if (auto* s = std::get_if<ir::TransposeTile>(&stmt.v)) {
      buffer(s->dst);
      buffer(s->src);
    }
    if (auto* s = std::get_if<ir::CopyAsync>(&stmt.v)) {
      buffer(s->dst);
      buffer(s->src);
    }
    if (auto* s = std::get_if<ir::TileProduct>(&stmt.v)) buffer(s->sums);
  }

  Kernel& kernel_;
  std::map<RegId, RegId> regs_;
  std::map<BufferId, BufferId> buffers_;
  std::map<ir::SymbolId, IndexExpr> symbols_;
};

}  // namespace

void append(Block& to, Block from) {
  for (Stmt& stmt : from) to.push_back(std::move(stmt));
}

Block clone(Kernel& kernel, const Block& block) { return Cloner(kernel).clone(block); }

bool mentions(const Stmt& stmt, ir::SymbolId symbol) {
  bool found = false;
  for_each_index(stmt, [&](const IndexExpr& d) { found = found || d.uses(symbol); });
  if (found) return true;
  for (const Block* block : nested_blocks(stmt))
    for (const Stmt& inner : *block)
      if (mentions(inner, symbol)) return true;
  return false;
}

namespace {

class Vectorizer {
 public:
  Vectorizer(Kernel& kernel, VarId var, int width, const IndexExpr& base)
      : kernel_(kernel), width_(width), lanes_{{var, base + IndexExpr::symbol(ir::kLane)}} {}

  void run(Block& block) {
    for (size_t i = 0; i < block.size(); ++i) {
      visit(block[i]);
      if (auto* store = std::get_if<ir::Store>(&block[i].v); store != nullptr && wants_splat(*store)) {
        Stmt let = splat(*store);
        block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), std::move(let));
      }
    }
  }

 private:
  bool varies(const Operand& operand) const {
    const auto* r = std::get_if<RegId>(&operand);
    return r != nullptr && kernel_.regs[*r].width > 1;
  }

  // Replaces the variable; returns true if the expression varies by lane.
  bool widen(IndexExpr& d) {
    IndexExpr before = d;
    d = d.substitute(lanes_);
    bool had = !(d == before);
    std::set<ir::SymbolId> symbols;
    d.collect_symbols(symbols);
    for (const ir::SymbolId s : symbols) had = had || vectors_.contains(s);
    return had;
  }

  // Whether each lane stores to an element of its own a value that is the same in all lanes.
  bool wants_splat(const ir::Store& store) const {
    return !varies(store.value) &&
           std::any_of(store.index.begin(), store.index.end(), [](const IndexExpr& d) { return d.uses(ir::kLane); });
  }

  Stmt splat(ir::Store& store) {
    const RegId wide = add_reg(kernel_, dtype_of(kernel_, store.value), width_);
    Stmt let{ir::Let{wide, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), store.value, store.value}}};
    store.value = wide;
    return let;
  }

  void make_vector(RegId reg) {
    kernel_.regs[reg].width = width_;
    vectors_.insert(reg);
  }

  bool widen_all(std::vector<IndexExpr>& index, ir::Guard& guard) {
    bool varying = false;
    for (IndexExpr& d : index) varying = widen(d) || varying;
    for (IndexExpr& d : guard) varying = widen(d) || varying;
    return varying;
  }

  void visit(Stmt& stmt) {
    if (auto* s = std::get_if<ir::Let>(&stmt.v)) {
      if (std::any_of(s->args.begin(), s->args.end(), [&](const Operand& o) { return varies(o); })) make_vector(s->dst);
    } else if (auto* s = std::get_if<ir::IndexValue>(&stmt.v)) {
      if (widen(s->value)) make_vector(s->dst);
    } else if (auto* s = std::get_if<ir::Load>(&stmt.v)) {
      bool varying = widen_all(s->index, s->guard);
      if (lane_buffers_.contains(s->buffer)) {
        s->index.push_back(IndexExpr::symbol(ir::kLane));
        varying = true;
      }
      if (varying) make_vector(s->dst);
    } else if (auto* s = std::get_if<ir::Store>(&stmt.v)) {
      widen_all(s->index, s->guard);
      if (lane_buffers_.contains(s->buffer)) s->index.push_back(IndexExpr::symbol(ir::kLane));
    } else if (auto* s = std::get_if<ir::Alloc>(&stmt.v)) {
      ir::Buffer& buffer = kernel_.buffers[s->buffer];
      buffer.shape.push_back(width_);
      lane_buffers_.insert(s->buffer);
    } else if (auto* s = std::get_if<ir::Reduce>(&stmt.v)) {
      run(s->body);
      for (IndexExpr& d : s->guard) widen(d);
      if (std::any_of(s->yield.begin(), s->yield.end(), [&](const Operand& o) { return varies(o); }))
        for (RegId r : s->dst) make_vector(r);
    } else if (auto* s = std::get_if<ir::Scan>(&stmt.v)) {
      run(s->body);
      if (varies(s->yield)) make_vector(s->dst);
      run(s->then);
    } else {
      for (Block* block : nested_blocks(stmt)) run(*block);
    }
  }

  Kernel& kernel_;
  int width_;
  std::map<ir::SymbolId, IndexExpr> lanes_;
  std::set<BufferId> lane_buffers_;
  std::set<ir::SymbolId> vectors_;
};

}  // namespace

void vectorize(Kernel& kernel, Block& block, VarId var, int width, const IndexExpr& base) {
  if (width == 1) return substitute(block, var, base);
  Vectorizer(kernel, var, width, base).run(block);
}

void add_guard(const Kernel& kernel, Block& block, const ir::Guard& extra) {
  for_each_stmt(block, [&](Stmt& stmt) {
    if (width_of(kernel, stmt) == 1) return;
    auto append = [&](ir::Guard& guard) { guard.insert(guard.end(), extra.begin(), extra.end()); };
    if (auto* s = std::get_if<ir::Load>(&stmt.v)) append(s->guard);
    if (auto* s = std::get_if<ir::Store>(&stmt.v)) append(s->guard);
  });
}

namespace {

// Sums of more elements are taken in levels, which keeps the rounding error near that of a tree.
constexpr int64_t kLongSum = 32;

// The number of elements that one lane adds before the sum goes to the next level: near the square root of all, from 16
// to 128, and a divisor of their number if possible.
int64_t sum_chunk(const IndexExpr& rows) {
  if (!rows.is_const()) return 32;
  int64_t chunk = 16;
  while (chunk < 128 && chunk * chunk < rows.value()) chunk *= 2;
  for (int64_t away = 0; away <= chunk / 2; ++away) {
    for (const int64_t near : {chunk + away, chunk - away})
      if (rows.value() % near == 0) return near;
  }
  return chunk;
}

bool is_long_sum(const std::vector<LoopHead>& loops) {
  int64_t elements = 1;
  for (const LoopHead& head : loops) {
    if (!head.extent.is_const() || head.extent.value() > kLongSum) return true;
    elements *= std::max<int64_t>(head.extent.value(), 1);
    if (elements > kLongSum) return true;
  }
  return false;
}

// reduce r, s in (m, n) -> reduce r in m of (reduce s in n), then
// reduce r in m -> reduce c in ceil(m / chunk) of (reduce r in chunk).
void sum_in_levels(ir::Kernel& kernel, ir::Reduce& sum) {
  if (!is_long_sum(sum.loops)) return;
  const RegId part = add_reg(kernel, kernel.regs[sum.dst[0]].dtype);
  ir::Reduce inner = std::move(sum);
  const LoopHead rows = inner.loops.front();
  sum = {inner.dst, inner.combiner, {}, {rows}, {}, {part}, {}};
  inner.dst = {part};
  if (inner.loops.size() > 1) {
    inner.loops.erase(inner.loops.begin());
    sum_in_levels(kernel, inner);
    sum.body.push_back({std::move(inner)});
    return sum_in_levels(kernel, sum);
  }
  const int64_t chunk = sum_chunk(rows.extent);
  const VarId c = add_var(kernel), r = add_var(kernel);
  const IndexExpr done = IndexExpr(chunk) * IndexExpr::symbol(c);
  const bool whole = divisible_by(kernel, rows.extent, chunk);
  sum.loops = {{LoopTag::seq, c, ceildiv(rows.extent, chunk)}};
  inner.loops = {{LoopTag::seq, r, whole ? IndexExpr(chunk) : min(chunk, rows.extent - done)}};
  substitute(inner.body, rows.var, done + IndexExpr::symbol(r));
  sum.body.push_back({std::move(inner)});
}

}  // namespace

void sum_in_levels(ir::Kernel& kernel, Block& block) {
  for (Stmt& stmt : block) {
    auto* sum = std::get_if<ir::Reduce>(&stmt.v);
    const bool sums = sum != nullptr && (sum->combiner == ir::Combiner::add || sum->combiner == ir::Combiner::mul);
    if (sums && is_float(kernel.regs[sum->dst[0]].dtype)) sum_in_levels(kernel, *sum);
  }
}

}  // namespace fusec::compiler
