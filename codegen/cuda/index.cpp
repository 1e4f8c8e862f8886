// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/index.h"

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/cuda/scalar.h"
#include "codegen/cuda/text.h"

namespace fusec::codegen::cuda {
namespace {

bool calls_function(const Dim& d) {
  if (d.is_const()) return false;
  for (const Dim::Term& term : d.terms()) {
    for (const Dim::Atom& atom : term.atoms) {
      if (atom.fn != Dim::Fn::symbol) return true;
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
  for (uint32_t i = 0; i < kernel.regs.size(); ++i) ranges_[ir::reg_name(ir::RegId{i})] = {};
}

void Index::bind(const std::string& name, const std::string& text, DimRange range) {
  names_[name] = text;
  ranges_[name] = std::move(range);
}

void Index::unbind(const std::string& name) {
  names_.erase(name);
  aliases_.erase(name);
  ranges_.erase(name);
}

Dim Index::resolve(const Dim& d) const {
  if (d.is_const()) return d;
  const Dim out = d.substitute(aliases_);
  return calls_function(out) ? simplify(out, ranges_) : out;
}

const ir::RegInfo* Index::register_named(const std::string& name) const {
  if (name.size() < 2 || name[0] != 'v' || !std::all_of(name.begin() + 1, name.end(), ::isdigit)) return nullptr;
  const ir::RegId id{static_cast<uint32_t>(std::stoul(name.substr(1)))};
  return kernel_.regs.contains(id) && ir::reg_name(id) == name ? &kernel_.regs[id] : nullptr;
}

bool Index::uses_lane(const Dim& d) const {
  std::set<std::string> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& name) {
    const ir::RegInfo* info = register_named(name);
    return name == ir::kLane || (info != nullptr && info->width > 1);
  });
}

bool Index::uses_data(const Dim& d) const {
  std::set<std::string> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](const std::string& name) { return register_named(name) != nullptr; });
}

int64_t Index::divisor(const Dim& d) const {
  std::map<std::string, Dim> facts;
  for (const auto& [extent, by] : kernel_.divisible) facts[extent] = Dim::symbol(extent) * by;
  return d.substitute(facts).known_divisor();
}

LaneForm Index::lane_form(const Dim& d) const {
  LaneForm out;
  if (d.is_const()) return {d};
  std::vector<Dim::Term> rest;
  for (Dim::Term& term : d.terms()) {
    if (!uses_lane(Dim::from_terms({term}))) {
      rest.push_back(std::move(term));
    } else if (term.atoms.size() == 1 && term.atoms[0].fn == Dim::Fn::symbol && term.atoms[0].name == ir::kLane) {
      out.step = term.coefficient;
    } else {
      return {d, std::nullopt};
    }
  }
  out.base = Dim::from_terms(std::move(rest));
  return out;
}

std::string Index::symbol(const std::string& name) const {
  const auto it = names_.find(name);
  if (it != names_.end()) return (wide_ ? "(i64)" : "") + it->second;
  const ir::RegInfo* info = register_named(name);
  if (info == nullptr) throw UnsupportedKernel("an index uses '" + name + "', which is not known here");
  return "(i64)" + name + (info->width > 1 ? "[lane]" : "");
}

std::string Index::division(const Dim::Atom& atom) {
  const Dim &n = atom.args[0], &d = atom.args[1];
  const bool is_mod = atom.fn == Dim::Fn::mod;
  const std::string by = d.is_const() ? text(d) : prelude_.use("greater") + "(" + text(d) + ", 1)";
  const char* name = proves_nonneg(n) ? (is_mod ? "umod" : "udiv") : (is_mod ? "floormod" : "floordiv");
  return prelude_.use(name) + "(" + text(n) + ", " + by + ")";
}

std::string Index::atom_text(const Dim::Atom& atom) {
  if (atom.fn == Dim::Fn::symbol) return symbol(atom.name);
  if (atom.fn == Dim::Fn::floordiv || atom.fn == Dim::Fn::mod) return division(atom);
  const char* name = atom.fn == Dim::Fn::min ? "lesser" : "greater";
  return prelude_.use(name) + "(" + text(atom.args[0]) + ", " + text(atom.args[1]) + ")";
}

// Without the sign of the coefficient, which is given.
std::string Index::term_text(const Dim::Term& term, int64_t coefficient) {
  std::string out = coefficient == 1 && !term.atoms.empty() ? "" : number(coefficient);
  for (const Dim::Atom& atom : term.atoms) out += (out.empty() ? "" : " * ") + atom_text(atom);
  return out;
}

// The constant comes last.
std::string Index::text(const Dim& d) {
  if (d.is_const()) return number(d.value());
  std::vector<Dim::Term> terms = d.terms();
  if (terms.front().atoms.empty()) std::rotate(terms.begin(), terms.begin() + 1, terms.end());
  std::string out;
  for (const Dim::Term& term : terms) {
    const bool minus = term.coefficient < 0 && term.coefficient != std::numeric_limits<int64_t>::min();
    const std::string text = term_text(term, minus ? -term.coefficient : term.coefficient);
    out += out.empty() ? (minus ? "-" : "") + text : (minus ? " - " : " + ") + text;
  }
  return out;
}

std::string Index::wide_text(const Dim& d) {
  const std::optional<int64_t> low = lower_bound(d, ranges_), high = upper_bound(d, ranges_);
  const bool fits = low && high && *low > -(int64_t{1} << 30) && *high < int64_t{1} << 30;
  wide_ = type_ == "int" && !fits;
  std::string out = text(d);
  wide_ = false;
  return out;
}

LaneScope::LaneScope(Index& index, int width) : index_(index) {
  if (width == 1) {
    index.alias(ir::kLane, Dim(0));
  } else {
    index.bind(ir::kLane, ir::kLane, {Dim(0), Dim(width - 1)});
  }
}

}  // namespace fusec::codegen::cuda
