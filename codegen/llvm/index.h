// SPDX-License-Identifier: Apache-2.0
// Index expressions as instructions on i64, or on i32 where that suffices for every memory offset. A loop-invariant
// expression is computed once, at the head of the outermost loop where all its symbols are known, and shared by
// everything inside. No IR pass has to find it again.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/llvm/values.h"
#include "ir/base/index_expr.h"

namespace fusec::codegen {

using ir::IndexExpr;

// An address or number as `value + offset`; if value is null, it is just the offset.
struct Sum {
  llvm::Value* value = nullptr;
  int64_t offset = 0;
};

class Index {
 public:
  // `floating` returns the value (i64) of a symbol that exists only at the current point (a register, a runtime lane),
  // or null.
  Index(Ir& ir, llvm::IntegerType* type, std::function<llvm::Value*(ir::SymbolId)> floating)
      : ir_(ir), type_(type), floating_(std::move(floating)) {}
  llvm::IntegerType* type() const { return type_; }

  // Opens a scope (function or loop). Its shared instructions are inserted before the terminator of `head`.
  void push(llvm::BasicBlock* head);
  void pop();
  llvm::BasicBlock* outermost() const { return scopes_.front().head; }
  // Binds a symbol of the innermost scope; its inclusive range may be unknown.
  void bind(ir::SymbolId symbol, llvm::Value* value, ir::IndexRange range);
  // The same for the outermost scope, where its value is made.
  void bind_at_entry(ir::SymbolId symbol, llvm::Value* value, ir::IndexRange range);
  void bind(ir::SymbolId symbol, int64_t value) { alias(symbol, IndexExpr(value)); }
  // The symbol stands for a resolved expression.
  void alias(ir::SymbolId symbol, const IndexExpr& value) { constants_[symbol] = value; }
  void unbind(ir::SymbolId symbol);
  // Declares a floating symbol without known bounds.
  void unknown(ir::SymbolId symbol) { ranges_[symbol] = {}; }
  void bound(ir::SymbolId symbol, int64_t lo, int64_t hi) { ranges_[symbol] = {IndexExpr(lo), IndexExpr(hi)}; }

  // Substitutes constants and simplifies what the ranges decide.
  IndexExpr resolve(const IndexExpr& d) const;
  const ir::IndexRanges& ranges() const { return ranges_; }
  bool proves_nonneg(const IndexExpr& d) const { return ir::proves_nonneg(d, ranges_); }

  // `d` must be resolved.
  llvm::Value* value(const IndexExpr& d);
  Sum sum(const IndexExpr& d);
  // In i64, correct for either index type; `d` need not be a memory offset.
  llvm::Value* wide(const IndexExpr& d);
  // Whether the bounds of `d` prove that value() is right for it.
  bool is_small(const IndexExpr& d) const;
  // Whether a register or a runtime lane occurs in it.
  bool is_floating(const IndexExpr& d) const { return level(d) == kFloating; }
  // The address of element `offset` from `base`; `base` must be available at function entry.
  llvm::Value* pointer(llvm::Value* base, llvm::Type* element, const IndexExpr& offset);

 private:
  static constexpr int kFloating = 1 << 20;
  struct Symbol {
    llvm::Value* value;
    int level;
  };
  struct Scope {
    llvm::BasicBlock* head;
    std::map<IndexExpr, llvm::Value*> values;
    std::map<std::pair<llvm::Value*, IndexExpr>, llvm::Value*> pointers;
    std::vector<ir::SymbolId> symbols;
  };
  int level(const IndexExpr& d) const;
  int level(const IndexExpr::Atom& atom) const;
  llvm::Value* at_level(int level, const std::function<llvm::Value*()>& make);
  llvm::Value* terms_value(const IndexExpr& d);
  llvm::Value* monomial(const IndexExpr::Term& term);
  llvm::Value* atom_value(const IndexExpr::Atom& atom);
  llvm::Value* division(const IndexExpr::Atom& atom);
  llvm::Value* wide_atom(const IndexExpr::Atom& atom);
  llvm::Value* floating(ir::SymbolId symbol);
  llvm::ConstantInt* number(int64_t v) const { return llvm::ConstantInt::get(type_, static_cast<uint64_t>(v), true); }

  Ir& ir_;
  llvm::IntegerType* type_;
  std::function<llvm::Value*(ir::SymbolId)> floating_;
  std::vector<Scope> scopes_;
  std::map<ir::SymbolId, Symbol> symbols_;
  std::map<ir::SymbolId, IndexExpr> constants_;
  ir::IndexRanges ranges_;
};

}  // namespace fusec::codegen
