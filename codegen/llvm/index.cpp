// SPDX-License-Identifier: Apache-2.0
// Builds index expressions as LLVM IR and places each one at the outermost scope where its symbols are known. Values
// are memoized per scope, because no later pass removes common subexpressions.

#include <algorithm>
#include <bit>

#include "codegen/llvm/phase_function.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

bool has_function(const IndexExpr& d) {
  for (const IndexExpr::Term& term : d.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn != IndexExpr::Fn::symbol) return true;
    }
  }
  return false;
}

IndexExpr of_atom(const IndexExpr::Atom& atom) { return IndexExpr::from_terms({{1, {atom}}}); }

}  // namespace

void Index::push(llvm::BasicBlock* head) { scopes_.push_back({head, {}, {}, {}}); }

void Index::pop() {
  const std::vector<ir::SymbolId> symbols = scopes_.back().symbols;
  scopes_.pop_back();
  for (const ir::SymbolId symbol : symbols) unbind(symbol);
}

void Index::bind(ir::SymbolId symbol, Value* value, ir::IndexRange range) {
  symbols_[symbol] = {value, static_cast<int>(scopes_.size()) - 1};
  ranges_[symbol] = std::move(range);
  scopes_.back().symbols.push_back(symbol);
}

void Index::bind_at_entry(ir::SymbolId symbol, Value* value, ir::IndexRange range) {
  symbols_[symbol] = {value, 0};
  ranges_[symbol] = std::move(range);
}

void Index::unbind(ir::SymbolId symbol) {
  symbols_.erase(symbol);
  constants_.erase(symbol);
  ranges_.erase(symbol);
}

IndexExpr Index::resolve(const IndexExpr& d) const {
  if (d.is_const()) return d;
  bool substitutes = false;
  for (const IndexExpr::Term& term : d.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      substitutes |= atom.fn != IndexExpr::Fn::symbol || constants_.contains(atom.symbol);
    }
  }
  if (!substitutes) return d;
  const IndexExpr out = d.substitute(constants_);
  return has_function(out) ? simplify(out, ranges_) : out;
}

int Index::level(const IndexExpr::Atom& atom) const {
  if (atom.fn == IndexExpr::Fn::symbol) {
    const auto it = symbols_.find(atom.symbol);
    return it == symbols_.end() ? kFloating : it->second.level;
  }
  return std::max(level(atom.args[0]), level(atom.args[1]));
}

int Index::level(const IndexExpr& d) const {
  int out = 0;
  if (d.is_const()) return out;
  for (const IndexExpr::Term& term : d.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) out = std::max(out, level(atom));
  }
  return out;
}

// Runs `make` with the insertion point at the head of scope `level`.
Value* Index::at_level(int level, const std::function<Value*()>& make) {
  if (level == kFloating) return make();
  llvm::IRBuilder<>::InsertPointGuard guard(ir_.b);
  ir_.b.SetInsertPoint(scopes_[static_cast<std::size_t>(level)].head->getTerminator());
  return make();
}

Sum Index::sum(const IndexExpr& d) {
  if (d.is_const()) return {nullptr, d.value()};
  std::vector<IndexExpr::Term> terms = d.terms();
  int64_t offset = 0;
  if (terms.front().atoms.empty()) {
    offset = terms.front().coefficient;
    terms.erase(terms.begin());
  }
  return {terms_value(IndexExpr::from_terms(std::move(terms))), offset};
}

Value* Index::value(const IndexExpr& d) {
  const Sum s = sum(d);
  if (!s.value) return number(s.offset);
  if (s.offset == 0) return s.value;
  const int at = level(d);
  const auto make = [&] { return ir_.b.CreateAdd(s.value, number(s.offset)); };
  if (at == kFloating) return make();
  auto& memo = scopes_[static_cast<std::size_t>(at)].values;
  const auto found = memo.find(d);
  if (found != memo.end()) return found->second;
  return memo[d] = at_level(at, make);
}

// Adds the terms of outer scopes first, so that their sum is shared there.
Value* Index::terms_value(const IndexExpr& d) {
  const int at = level(d);
  if (at != kFloating) {
    const auto& memo = scopes_[static_cast<std::size_t>(at)].values;
    const auto found = memo.find(d);
    if (found != memo.end()) return found->second;
  }
  std::vector<IndexExpr::Term> inner, outer;
  for (IndexExpr::Term& term : d.terms()) {
    const int term_level = level(IndexExpr::from_terms({term}));
    (term_level == at ? inner : outer).push_back(std::move(term));
  }
  Value* total = outer.empty() ? nullptr : terms_value(IndexExpr::from_terms(std::move(outer)));
  for (const IndexExpr::Term& term : inner) {
    Value* v = monomial(term);
    total = !total ? v : at_level(at, [&] { return ir_.b.CreateAdd(total, v); });
  }
  if (at != kFloating) scopes_[static_cast<std::size_t>(at)].values[d] = total;
  return total;
}

Value* Index::monomial(const IndexExpr::Term& term) {
  std::vector<IndexExpr::Atom> atoms = term.atoms;
  std::stable_sort(atoms.begin(), atoms.end(), [&](const auto& a, const auto& b) { return level(a) < level(b); });
  Value* out = nullptr;
  for (const IndexExpr::Atom& atom : atoms) {
    Value* v = atom_value(atom);
    out = !out ? v : at_level(level(atom), [&] { return ir_.b.CreateMul(out, v); });
  }
  if (term.coefficient == 1) return out;
  const int at = level(atoms.back());
  return at_level(at, [&] { return ir_.b.CreateMul(out, number(term.coefficient)); });
}

Value* Index::atom_value(const IndexExpr::Atom& atom) {
  if (atom.fn == IndexExpr::Fn::symbol) {
    const auto it = symbols_.find(atom.symbol);
    return it == symbols_.end() ? ir_.b.CreateTrunc(floating(atom.symbol), type_) : it->second.value;
  }
  const int at = level(atom);
  const IndexExpr key = of_atom(atom);
  if (at != kFloating) {
    const auto& memo = scopes_[static_cast<std::size_t>(at)].values;
    const auto found = memo.find(key);
    if (found != memo.end()) return found->second;
  }
  Value* out = nullptr;
  if (atom.fn == IndexExpr::Fn::min || atom.fn == IndexExpr::Fn::max) {
    Value *a = value(atom.args[0]), *b = value(atom.args[1]);
    const auto id = atom.fn == IndexExpr::Fn::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
    out = at_level(at, [&] { return call_intrinsic(ir_, id, {a, b}); });
  } else {
    out = division(atom);
  }
  if (at != kFloating) scopes_[static_cast<std::size_t>(at)].values[key] = out;
  return out;
}

// floordiv and mod. A symbolic divisor is clamped to at least 1, because hoisted code may run where an extent is 0.
Value* Index::division(const IndexExpr::Atom& atom) {
  const IndexExpr &n = atom.args[0], &d = atom.args[1];
  const bool is_mod = atom.fn == IndexExpr::Fn::mod;
  const bool power = d.is_const() && d.value() > 0 && std::has_single_bit(static_cast<uint64_t>(d.value()));
  const bool nonneg = !power && proves_nonneg(n);
  Value *a = value(n), *by = value(d);
  return at_level(level(atom), [&]() -> Value* {
    auto& b = ir_.b;
    if (power && is_mod) return b.CreateAnd(a, number(d.value() - 1));
    if (power) return b.CreateAShr(a, number(std::countr_zero(static_cast<uint64_t>(d.value()))));
    if (!d.is_const()) by = call_intrinsic(ir_, llvm::Intrinsic::smax, {by, number(1)});
    if (nonneg) return is_mod ? b.CreateURem(a, by) : b.CreateUDiv(a, by);
    Value* rem = b.CreateSRem(a, by);
    Value* below = b.CreateICmpSLT(rem, number(0));
    if (is_mod) return b.CreateAdd(rem, b.CreateSelect(below, by, number(0)));
    return b.CreateSub(b.CreateSDiv(a, by), b.CreateZExt(below, type_));
  });
}

Value* Index::floating(ir::SymbolId symbol) {
  Value* v = floating_(symbol);
  if (!v) throw CompileError("index uses '" + systematic_name(symbol) + "', which is not known here");
  return v;
}

bool Index::is_small(const IndexExpr& d) const {
  constexpr int64_t kSmall = int64_t{1} << 30;
  const std::optional<int64_t> low = lower_bound(d, ranges_), high = upper_bound(d, ranges_);
  return low && high && *low > -kSmall && *high < kSmall;
}

// Computed at the current point and not hoisted, because it is rare.
Value* Index::wide(const IndexExpr& d) {
  auto& b = ir_.b;
  if (type_ == b.getInt64Ty()) return value(d);
  if (!is_floating(d) && is_small(d)) return b.CreateSExt(value(d), b.getInt64Ty());
  if (d.is_const()) return b.getInt64(static_cast<uint64_t>(d.value()));
  Value* total = nullptr;
  for (const IndexExpr::Term& term : d.terms()) {
    Value* product = nullptr;
    for (const IndexExpr::Atom& atom : term.atoms) {
      Value* v = wide_atom(atom);
      product = product ? b.CreateMul(product, v) : v;
    }
    Value* by = b.getInt64(static_cast<uint64_t>(term.coefficient));
    product = !product ? by : term.coefficient == 1 ? product : b.CreateMul(product, by);
    total = total ? b.CreateAdd(total, product) : product;
  }
  return total;
}

Value* Index::wide_atom(const IndexExpr::Atom& atom) {
  auto& b = ir_.b;
  if (atom.fn == IndexExpr::Fn::symbol) {
    const auto it = symbols_.find(atom.symbol);
    return it == symbols_.end() ? floating(atom.symbol) : b.CreateSExt(it->second.value, b.getInt64Ty());
  }
  Value *x = wide(atom.args[0]), *y = wide(atom.args[1]);
  if (atom.fn == IndexExpr::Fn::min) return call_intrinsic(ir_, llvm::Intrinsic::smin, {x, y});
  if (atom.fn == IndexExpr::Fn::max) return call_intrinsic(ir_, llvm::Intrinsic::smax, {x, y});
  if (!atom.args[1].is_const()) y = call_intrinsic(ir_, llvm::Intrinsic::smax, {y, b.getInt64(1)});
  Value* rem = b.CreateSRem(x, y);
  Value* below = b.CreateICmpSLT(rem, b.getInt64(0));
  if (atom.fn == IndexExpr::Fn::mod) return b.CreateAdd(rem, b.CreateSelect(below, y, b.getInt64(0)));
  return b.CreateSub(b.CreateSDiv(x, y), b.CreateZExt(below, b.getInt64Ty()));
}

Value* Index::pointer(Value* base, llvm::Type* element, const IndexExpr& offset) {
  Sum s = sum(offset);
  Value* at = base;
  if (s.value) {
    const IndexExpr rest = offset - s.offset;
    const auto known = base_levels_.find(base);
    const int where = std::max(level(rest), known == base_levels_.end() ? 0 : known->second);
    const auto make = [&] { return ir_.b.CreateGEP(element, base, s.value); };
    if (where == kFloating) {
      at = make();
    } else {
      Value*& slot = scopes_[static_cast<std::size_t>(where)].pointers[{base, rest}];
      if (!slot) slot = at_level(where, make);
      at = slot;
    }
  }
  return s.offset == 0 ? at : ir_.b.CreateGEP(element, at, number(s.offset));
}

}  // namespace fusec::codegen
