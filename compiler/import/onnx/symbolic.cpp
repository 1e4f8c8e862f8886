// SPDX-License-Identifier: Apache-2.0
// Evaluates scalar ops on integer expressions over symbols in the import stage. A result must hold for all values of
// the symbols in range; otherwise it is nullopt.

#include "compiler/import/onnx/fold.h"

namespace fusec::importer {

namespace {

// These limits are far above the formulas of real models, which have a handful of terms.
constexpr int64_t kMaxAtoms = 1024, kMaxDepth = 48, kMaxProductTerms = 1024;

// Counts the terms and atoms of an expression and of the arguments inside it. Returns more than kMaxAtoms where it is
// nested too deeply.
int64_t count_atoms(const Dim& d, int64_t depth) {
  if (d.is_const()) return 1;
  int64_t count = 0;
  for (const Dim::Term& term : d.terms()) {
    ++count;
    for (const Dim::Atom& atom : term.atoms) {
      ++count;
      if (!atom.args.empty() && depth >= kMaxDepth) return kMaxAtoms + 1;
      for (const Dim& arg : atom.args) count += count_atoms(arg, depth + 1);
      if (count > kMaxAtoms) return count;
    }
  }
  return count;
}

int64_t count_terms(const Dim& d) { return d.is_const() ? 1 : static_cast<int64_t>(d.terms().size()); }

std::optional<Dim> product(const Dim& a, const Dim& b) {
  if (count_terms(a) * count_terms(b) > kMaxProductTerms) return std::nullopt;
  return a * b;
}

std::optional<Dim> truth(std::optional<bool> value) {
  if (!value) return std::nullopt;
  return Dim(*value ? 1 : 0);
}

std::optional<bool> inverse(std::optional<bool> value) {
  if (!value) return std::nullopt;
  return !*value;
}

std::optional<Dim> apply_logic(ir::ScalarOp op, std::span<const Dim> args) {
  using S = ir::ScalarOp;
  const Dim& a = args[0];
  auto known = [](const Dim& d) { return d.is_const(); };
  if (op == S::not_) return known(a) ? std::optional<Dim>(Dim(a.is(0))) : std::nullopt;
  const Dim& b = args[1];
  if (op == S::and_ && (a.is(0) || b.is(0))) return Dim(0);
  if (op == S::or_ && (a.is(1) || b.is(1))) return Dim(1);
  if (!known(a) || !known(b)) return std::nullopt;
  bool x = a.value() != 0, y = b.value() != 0;
  return Dim(op == S::and_ ? x && y : op == S::or_ ? x || y : x != y);
}

}  // namespace

bool is_short(const Dim& d) { return count_atoms(d, 0) <= kMaxAtoms; }

bool is_short_product(const std::vector<Dim>& dims) {
  int64_t terms = 1;
  for (const Dim& d : dims) {
    if (!is_short(d)) return false;
    terms *= count_terms(d);
    if (terms > kMaxProductTerms) return false;
  }
  return true;
}

// C division truncates. For nonnegative operands that is floordiv.
std::optional<Dim> Decider::divide(const Dim& a, const Dim& b) const {
  if (a.is_const() && b.is_const()) {
    if (b.value() == 0) return std::nullopt;
    if (b.value() == -1) return -a;
    return Dim(a.value() / b.value());
  }
  if (std::optional<Dim> exact = a.exact_div(b); exact && (positive(b) || b.is_const())) return exact;
  if (nonneg(a) && positive(b)) return floordiv(a, b);
  return std::nullopt;
}

// The remainder has the sign of the divisor if `floored`, else that of the dividend (fmod).
std::optional<Dim> Decider::remainder(const Dim& a, const Dim& b, bool floored) const {
  if (a.is_const() && b.is_const()) {
    if (b.value() == 0) return std::nullopt;
    int64_t r = b.value() == -1 ? 0 : a.value() % b.value();
    return floored && r != 0 && (r < 0) != (b.value() < 0) ? Dim(r + b.value()) : Dim(r);
  }
  if (positive(b) && (floored || nonneg(a))) return mod(a, b);
  return std::nullopt;
}

std::optional<bool> Decider::less_equal(const Dim& a, const Dim& b) const {
  if (nonneg(b - a)) return true;
  if (positive(a - b)) return false;
  return std::nullopt;
}

std::optional<bool> Decider::less(const Dim& a, const Dim& b) const { return inverse(less_equal(b, a)); }

std::optional<bool> Decider::equal(const Dim& a, const Dim& b) const {
  if (a == b) return true;
  if (positive(a - b) || positive(b - a)) return false;
  return std::nullopt;
}

Dim Decider::smaller(const Dim& a, const Dim& b) const {
  if (nonneg(b - a)) return a;
  return nonneg(a - b) ? b : min(a, b);
}

Dim Decider::larger(const Dim& a, const Dim& b) const {
  if (nonneg(b - a)) return b;
  return nonneg(a - b) ? a : max(a, b);
}

std::optional<Dim> Decider::apply(ir::ScalarOp op, std::span<const Dim> args) const {
  using S = ir::ScalarOp;
  const Dim& a = args[0];
  const Dim& b = args[args.size() > 1 ? 1 : 0];
  switch (op) {
    case S::add:
      return a + b;
    case S::sub:
      return a - b;
    case S::mul:
      return product(a, b);
    case S::div:
      return divide(a, b);
    case S::mod:
      return remainder(a, b, true);
    case S::fmod:
      return remainder(a, b, false);
    case S::min:
      return smaller(a, b);
    case S::max:
      return larger(a, b);
    case S::relu:
      return larger(a, 0);
    case S::clamp:
      return smaller(larger(a, b), args[2]);
    case S::neg:
      return -a;
    case S::square:
      return product(a, a);
    case S::abs:
      return nonneg(a) ? std::optional<Dim>(a) : nonneg(-a) ? std::optional<Dim>(-a) : std::nullopt;
    case S::eq:
      return truth(equal(a, b));
    case S::ne:
      return truth(inverse(equal(a, b)));
    case S::lt:
      return truth(less(a, b));
    case S::le:
      return truth(less_equal(a, b));
    case S::gt:
      return truth(less(b, a));
    case S::ge:
      return truth(less_equal(b, a));
    case S::where:
      if (!a.is_const()) return args[1] == args[2] ? std::optional<Dim>(args[1]) : std::nullopt;
      return a.is(0) ? args[2] : args[1];
    case S::and_:
    case S::or_:
    case S::xor_:
    case S::not_:
      return apply_logic(op, args);
    default:
      return std::nullopt;
  }
}

}  // namespace fusec::importer
