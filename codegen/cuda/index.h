// SPDX-License-Identifier: Apache-2.0
// Index expressions as C++ text: in int where the kernel's facts say that 32 bits suffice, else in i64. Common
// subexpressions are left to the compiler.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/cuda/prelude.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

using ir::IndexExpr;

// base + step * lane; step nullopt: not affine with a constant step. `varies` false: step is 0.
struct LaneForm {
  IndexExpr base;
  std::optional<int64_t> step = 0;
  bool varies() const { return step != 0; }
};

class Index {
 public:
  Index(const ir::Kernel& kernel, Prelude& prelude);

  const std::string& type() const { return type_; }
  // The symbol is written as `text` and has the inclusive range; an empty range means that nothing is known.
  void bind(ir::SymbolId symbol, const std::string& text, ir::IndexRange range);
  // The symbol stands for a resolved expression.
  void alias(ir::SymbolId symbol, const IndexExpr& value) { aliases_[symbol] = value; }
  void unbind(ir::SymbolId symbol);

  // Substitutes aliases and simplifies what the ranges decide.
  IndexExpr resolve(const IndexExpr& d) const;
  bool proves_nonneg(const IndexExpr& d) const { return ir::proves_nonneg(d, ranges_); }
  // `d` must be resolved.
  std::string text(const IndexExpr& d);
  // For a number that is not a memory offset: evaluated so that it is right in 64 bits, whatever the facts say.
  std::string wide_text(const IndexExpr& d);
  LaneForm lane_form(const IndexExpr& d) const;
  // Whether a register occurs in it.
  bool uses_data(const IndexExpr& d) const;
  // The greatest known divisor, using the facts about extents; 0 for 0.
  int64_t divisor(const IndexExpr& d) const;

 private:
  std::string term_text(const IndexExpr::Term& term, int64_t coefficient);
  std::string atom_text(const IndexExpr::Atom& atom);
  std::string division(const IndexExpr::Atom& atom);
  std::string symbol_text(ir::SymbolId symbol) const;
  const ir::RegInfo* register_info(ir::SymbolId symbol) const;
  bool uses_lane(const IndexExpr& d) const;

  const ir::Kernel& kernel_;
  Prelude& prelude_;
  std::string type_;
  bool wide_ = false;
  std::map<ir::SymbolId, std::string> texts_;
  std::map<ir::SymbolId, IndexExpr> aliases_;
  ir::IndexRanges ranges_;
};

// While it lives, `lane` has the range 0 .. width-1, or is 0 for width 1.
class LaneScope {
 public:
  LaneScope(Index& index, int width);
  ~LaneScope() { index_.unbind(ir::kLane); }
  LaneScope(const LaneScope&) = delete;

 private:
  Index& index_;
};

}  // namespace fusec::codegen::cuda
