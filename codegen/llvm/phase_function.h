// SPDX-License-Identifier: Apache-2.0
// The function of a phase in LLVM IR. Index expressions are i64, or i32 where that suffices for every memory offset; a
// loop-invariant one is computed once, at the head of the outermost loop where all its symbols are known, and shared by
// everything inside, because no IR pass has to find it again. Local buffers are vector slots (one SSA value each, after
// promotion) if every access is known at write time, else they lie in the thread's local memory. The frame of the host
// has the grid loop, and access to arguments, external functions and local memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/kernel/layout.h"
#include "codegen/llvm/values.h"
#include "ir/base/index_expr.h"
#include "ir/kernel/kernel.h"

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
  // Declares an address that is known in the innermost scope.
  void bind_base(llvm::Value* base) { base_levels_[base] = static_cast<int>(scopes_.size()) - 1; }
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
  // The address of element `offset` from `base`, which is available at function entry or was given to bind_base.
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
  std::map<llvm::Value*, int> base_levels_;
  std::map<ir::SymbolId, IndexExpr> constants_;
  ir::IndexRanges ranges_;
};

struct LocalBuffer {
  // With slots: `count` vectors of `width` elements. Else memory at `offset` bytes, an expression over extents.
  bool slots = false;
  int width = 1;
  int64_t count = 0;
  IndexExpr offset;
};

struct Locals {
  std::map<ir::BufferId, LocalBuffer> buffers;  // spaces reg and (on a CPU) shared
  IndexExpr bytes;                              // total size of local memory
};

inline constexpr int64_t kLocalAlignment = 64;

IndexExpr aligned_bytes(const IndexExpr& elements, DType dtype);  // a multiple of kLocalAlignment
// `shared_too`: shared memory is private to the thread, as on a CPU.
Locals plan_locals(const ir::Kernel& kernel, bool shared_too = true);

// The function under construction: void name(const HostArgs*, i64 begin, i64 end, void* local).
struct PhaseFunction {
  llvm::Function* function = nullptr;
  llvm::BasicBlock* entry =
      nullptr;  // holds stack slots, arguments and index arithmetic on extents; branches to the body
  std::map<std::pair<int, int64_t>, llvm::Value*> arguments;
};

// Opens the function and sets the insertion point to its body.
PhaseFunction open_phase(llvm::Module& module, Ir& ir, const std::string& name);
// Loads from HostArgs, made once per function, at its entry.
llvm::Value* buffer_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* extent_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* extern_argument(PhaseFunction& phase_function, Ir& ir, int64_t position);
llvm::Value* status_argument(PhaseFunction& phase_function, Ir& ir);
llvm::Value* local_memory(const PhaseFunction& phase_function);

// Builds a loop that runs body() for every linear grid index in [begin, end), with the variables of `grid` bound in
// `index`.
void grid_loop(PhaseFunction& phase_function, Ir& ir, Index& index, const ir::Kernel& kernel,
               const std::vector<ir::LoopHead>& grid, const std::function<void()>& body);
// Ends the function. With `fence`, streaming stores become visible to other threads first.
void close_phase(Ir& ir, bool fence);

}  // namespace fusec::codegen
