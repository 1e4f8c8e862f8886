// SPDX-License-Identifier: Apache-2.0
// Writes index expressions of a kernel as C++ text for the CUDA emitter. Divisions with a proven non-negative dividend
// are unsigned; all others round towards negative infinity. A symbolic divisor is clamped to at least 1.

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/cuda/expression.h"
#include "codegen/kernel/layout.h"

namespace fusec::codegen::cuda {
namespace {

bool calls_function(const IndexExpr& d) {
  if (d.is_const()) return false;
  for (const IndexExpr::Term& term : d.terms()) {
    for (const IndexExpr::Atom& atom : term.atoms) {
      if (atom.fn != IndexExpr::Fn::symbol) return true;
    }
  }
  return false;
}

std::string number(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
  const bool fits = v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
  return std::to_string(v) + (fits ? "" : "LL");
}

}  // namespace

Index::Index(const ir::Kernel& kernel, Prelude& prelude)
    : kernel_(kernel), prelude_(prelude), type_(kernel.fits32 ? "int" : "i64") {
  for (uint32_t i = 0; i < kernel.regs.size(); ++i) ranges_[ir::RegId{i}] = {};
}

void Index::bind(ir::SymbolId symbol, const std::string& text, ir::IndexRange range) {
  texts_[symbol] = text;
  ranges_[symbol] = std::move(range);
}

void Index::unbind(ir::SymbolId symbol) {
  texts_.erase(symbol);
  aliases_.erase(symbol);
  ranges_.erase(symbol);
}

IndexExpr Index::resolve(const IndexExpr& d) const {
  if (d.is_const()) return d;
  const IndexExpr out = d.substitute(aliases_);
  return calls_function(out) ? simplify(out, ranges_) : out;
}

const ir::RegInfo* Index::register_info(ir::SymbolId symbol) const {
  const auto reg = symbol.reg();
  return reg && kernel_.regs.contains(*reg) ? &kernel_.regs[*reg] : nullptr;
}

bool Index::uses_lane(const IndexExpr& d) const {
  std::set<ir::SymbolId> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](ir::SymbolId symbol) {
    const ir::RegInfo* info = register_info(symbol);
    return symbol == ir::kLane || (info != nullptr && info->width > 1);
  });
}

bool Index::uses_data(const IndexExpr& d) const {
  std::set<ir::SymbolId> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](ir::SymbolId symbol) { return register_info(symbol) != nullptr; });
}

int64_t Index::divisor(const IndexExpr& d) const { return find_divisor(d, kernel_); }

LaneForm Index::lane_form(const IndexExpr& d) const {
  LaneForm out;
  if (d.is_const()) return {d};
  std::vector<IndexExpr::Term> rest;
  for (IndexExpr::Term& term : d.terms()) {
    if (!uses_lane(IndexExpr::from_terms({term}))) {
      rest.push_back(std::move(term));
    } else if (term.atoms.size() == 1 && term.atoms[0].fn == IndexExpr::Fn::symbol &&
               term.atoms[0].symbol == ir::kLane) {
      out.step = term.coefficient;
    } else {
      return {d, std::nullopt};
    }
  }
  out.base = IndexExpr::from_terms(std::move(rest));
  return out;
}

std::string Index::symbol_text(ir::SymbolId symbol) const {
  const auto it = texts_.find(symbol);
  if (it != texts_.end()) return (wide_ ? "(i64)" : "") + it->second;
  const ir::RegInfo* info = register_info(symbol);
  if (info == nullptr)
    throw UnsupportedKernel("an index uses '" + name_of(kernel_, symbol) + "', which is not known here");
  return "(i64)" + ir::reg_name(*symbol.reg()) + (info->width > 1 ? "[lane]" : "");
}

std::string Index::division(const IndexExpr::Atom& atom) {
  const IndexExpr &n = atom.args[0], &d = atom.args[1];
  const bool is_mod = atom.fn == IndexExpr::Fn::mod;
  const std::string by = d.is_const() ? text(d) : prelude_.use("greater") + "(" + text(d) + ", 1)";
  const char* name = proves_nonneg(n) ? (is_mod ? "umod" : "udiv") : (is_mod ? "floormod" : "floordiv");
  return prelude_.use(name) + "(" + text(n) + ", " + by + ")";
}

std::string Index::atom_text(const IndexExpr::Atom& atom) {
  if (atom.fn == IndexExpr::Fn::symbol) return symbol_text(atom.symbol);
  if (atom.fn == IndexExpr::Fn::floordiv || atom.fn == IndexExpr::Fn::mod) return division(atom);
  const char* name = atom.fn == IndexExpr::Fn::min ? "lesser" : "greater";
  return prelude_.use(name) + "(" + text(atom.args[0]) + ", " + text(atom.args[1]) + ")";
}

// Writes the absolute term; the caller writes the sign of the coefficient.
std::string Index::term_text(const IndexExpr::Term& term, int64_t coefficient) {
  std::string out = coefficient == 1 && !term.atoms.empty() ? "" : number(coefficient);
  for (const IndexExpr::Atom& atom : term.atoms) out += (out.empty() ? "" : " * ") + atom_text(atom);
  return out;
}

// Writes the constant last.
std::string Index::text(const IndexExpr& d) {
  if (d.is_const()) return number(d.value());
  std::vector<IndexExpr::Term> terms = d.terms();
  if (terms.front().atoms.empty()) std::rotate(terms.begin(), terms.begin() + 1, terms.end());
  std::string out;
  for (const IndexExpr::Term& term : terms) {
    const bool minus = term.coefficient < 0 && term.coefficient != std::numeric_limits<int64_t>::min();
    const std::string text = term_text(term, minus ? -term.coefficient : term.coefficient);
    out += out.empty() ? (minus ? "-" : "") + text : (minus ? " - " : " + ") + text;
  }
  return out;
}

std::string Index::wide_text(const IndexExpr& d) {
  const std::optional<int64_t> low = lower_bound(d, ranges_), high = upper_bound(d, ranges_);
  const bool fits = low && high && *low > -(int64_t{1} << 30) && *high < int64_t{1} << 30;
  wide_ = type_ == "int" && !fits;
  std::string out = text(d);
  wide_ = false;
  return out;
}

LaneScope::LaneScope(Index& index, int width) : index_(index) {
  if (width == 1) {
    index.alias(ir::kLane, IndexExpr(0));
  } else {
    index.bind(ir::kLane, systematic_name(ir::kLane), {IndexExpr(0), IndexExpr(width - 1)});
  }
}

}  // namespace fusec::codegen::cuda
