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
#include "fusec/dim.h"

namespace fusec::codegen {

// An address or number as `value + offset`; if value is null, it is just the offset.
struct Sum {
  llvm::Value* value = nullptr;
  int64_t offset = 0;
};

class Index {
 public:
  // `floating` returns the value (i64) of a symbol that exists only at the current point (a register, a runtime lane),
  // or null.
  Index(Ir& ir, llvm::IntegerType* type, std::function<llvm::Value*(const std::string&)> floating)
      : ir_(ir), type_(type), floating_(std::move(floating)) {}
  llvm::IntegerType* type() const { return type_; }

  // Opens a scope (function or loop). Its shared instructions are inserted before the terminator of `head`.
  void push(llvm::BasicBlock* head);
  void pop();
  llvm::BasicBlock* outermost() const { return scopes_.front().head; }
  // Binds a symbol of the innermost scope; its inclusive range may be unknown.
  void bind(const std::string& name, llvm::Value* value, DimRange range);
  // The same for the outermost scope, where its value is made.
  void bind_at_entry(const std::string& name, llvm::Value* value, DimRange range);
  void bind(const std::string& name, int64_t value) { alias(name, Dim(value)); }
  // The symbol `name` stands for a resolved expression.
  void alias(const std::string& name, const Dim& value) { constants_[name] = value; }
  void unbind(const std::string& name);
  // Declares a floating symbol without known bounds.
  void unknown(const std::string& name) { ranges_[name] = {}; }
  void bound(const std::string& name, int64_t lo, int64_t hi) { ranges_[name] = {Dim(lo), Dim(hi)}; }

  // Substitutes constants and simplifies what the ranges decide.
  Dim resolve(const Dim& d) const;
  const DimRanges& ranges() const { return ranges_; }
  bool proves_nonneg(const Dim& d) const { return fusec::proves_nonneg(d, ranges_); }

  // `d` must be resolved.
  llvm::Value* value(const Dim& d);
  Sum sum(const Dim& d);
  // In i64, correct for either index type; `d` need not be a memory offset.
  llvm::Value* wide(const Dim& d);
  // Whether the bounds of `d` prove that value() is right for it.
  bool is_small(const Dim& d) const;
  // Whether a register or a runtime lane occurs in it.
  bool is_floating(const Dim& d) const { return level(d) == kFloating; }
  // The address of element `offset` from `base`; `base` must be available at function entry.
  llvm::Value* pointer(llvm::Value* base, llvm::Type* element, const Dim& offset);

 private:
  static constexpr int kFloating = 1 << 20;
  struct Symbol {
    llvm::Value* value;
    int level;
  };
  struct Scope {
    llvm::BasicBlock* head;
    std::map<Dim, llvm::Value*> values;
    std::map<std::pair<llvm::Value*, Dim>, llvm::Value*> pointers;
    std::vector<std::string> symbols;
  };
  int level(const Dim& d) const;
  int level(const Dim::Atom& atom) const;
  llvm::Value* at_level(int level, const std::function<llvm::Value*()>& make);
  llvm::Value* terms_value(const Dim& d);
  llvm::Value* monomial(const Dim::Term& term);
  llvm::Value* atom_value(const Dim::Atom& atom);
  llvm::Value* division(const Dim::Atom& atom);
  llvm::Value* wide_atom(const Dim::Atom& atom);
  llvm::Value* floating(const std::string& name);
  llvm::ConstantInt* number(int64_t v) const { return llvm::ConstantInt::get(type_, static_cast<uint64_t>(v), true); }

  Ir& ir_;
  llvm::IntegerType* type_;
  std::function<llvm::Value*(const std::string&)> floating_;
  std::vector<Scope> scopes_;
  std::map<std::string, Symbol> symbols_;
  std::map<std::string, Dim> constants_;
  DimRanges ranges_;
};

}  // namespace fusec::codegen
