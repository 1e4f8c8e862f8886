// SPDX-License-Identifier: Apache-2.0
// Index expressions compiled for repeated evaluation: symbols are slots of an array.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/base/index_expr.h"

namespace fusec::ir {

class IndexCode {
 public:
  IndexCode() = default;
  // `slot` returns the slot of a symbol.
  IndexCode(const IndexExpr& dim, const std::function<int(SymbolId)>& slot);
  // Wraps past 64 bits. A divisor below 1 counts as 1, as in compiled code, because an extent may be 0 where nothing is
  // loaded.
  int64_t eval(const std::vector<int64_t>& slots) const;

 private:
  struct Atom {
    IndexExpr::Fn fn = IndexExpr::Fn::symbol;
    int slot = 0;
    std::vector<IndexCode> args;
    int64_t eval(const std::vector<int64_t>& slots) const;
  };
  struct Term {
    int64_t coefficient = 0;
    std::vector<Atom> atoms;
  };
  std::vector<Term> terms_;
};

}  // namespace fusec::ir
