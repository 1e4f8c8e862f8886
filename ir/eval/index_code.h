// SPDX-License-Identifier: Apache-2.0
// Index expressions compiled for repeated evaluation: symbols are slots of an array.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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
  struct Linear {
    uint64_t coefficient = 0;
    std::size_t slot = 0;
  };
  struct Term {
    uint64_t coefficient = 0;
    std::vector<Atom> atoms;
  };
  uint64_t constant_ = 0;
  std::vector<Linear> linear_;  // terms of one symbol
  std::vector<Term> terms_;     // all others
};

// The codes of a kernel's expressions, found by the addresses of the expressions: open addressing, at most half full.
class IndexCodes {
 public:
  // The code of the expression, which `make` gives at the first call.
  template <class Make>
  const IndexCode& get(const IndexExpr& expr, const Make& make) {
    std::size_t at = place(&expr);
    for (; table_[at].first != nullptr; at = (at + 1) & (table_.size() - 1))
      if (table_[at].first == &expr) return *table_[at].second;
    table_[at] = {&expr, std::make_unique<IndexCode>(make())};
    const IndexCode& code = *table_[at].second;
    if (2 * ++count_ > table_.size()) grow();
    return code;
  }

 private:
  std::size_t place(const IndexExpr* expr) const {
    return (reinterpret_cast<std::uintptr_t>(expr) * 0x9e3779b97f4a7c15 >> 32) & (table_.size() - 1);
  }
  void grow() {
    auto old = std::exchange(table_, std::vector<Entry>(2 * table_.size()));
    for (Entry& entry : old) {
      if (entry.first == nullptr) continue;
      std::size_t at = place(entry.first);
      while (table_[at].first != nullptr) at = (at + 1) & (table_.size() - 1);
      table_[at] = std::move(entry);
    }
  }

  using Entry = std::pair<const IndexExpr*, std::unique_ptr<IndexCode>>;
  std::vector<Entry> table_ = std::vector<Entry>(256);
  std::size_t count_ = 0;
};

}  // namespace fusec::ir
