// SPDX-License-Identifier: Apache-2.0
// Proves that the iterations of parallel loops are independent.
//
// Two accesses w and x under a loop variable l collide in different iterations if their index vectors are equal for
// some values of the other variables: the sum of c*(v - v') is 0 on each axis, where v' is the copy of v in the
// iteration of x. The proof eliminates variables: c*(v - v') + R = 0 and |R| < c imply v = v' (and R = 0). So does a
// number g that divides R with |c*(v - v')| < g. g*U + R = 0 and |R| < g imply U = 0 and R = 0. floordiv(u, d) and
// mod(u, d) are treated as variables; if both are equal, so is u. If l itself is proven equal, or an equation cannot
// hold, the iterations touch different elements.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/text/kernel_text.h"
#include "ir/verify/kernel_access.h"

namespace fusec::ir {
namespace {

IndexExpr atom_dim(const IndexExpr::Atom& atom) { return IndexExpr::from_terms({{1, {atom}}}); }

// c, where e = c * atom + terms without the atom; nullopt if e is not linear in the atom or does not contain it.
std::optional<IndexExpr> find_coefficient(const IndexExpr& e, const IndexExpr& atom) {
  std::vector<IndexExpr::Term> factor;
  for (const IndexExpr::Term& t : e.terms()) {
    IndexExpr::Term rest{t.coefficient, {}};
    int count = 0;
    for (const IndexExpr::Atom& a : t.atoms) {
      if (atom_dim(a) == atom) {
        ++count;
      } else {
        rest.atoms.push_back(a);
      }
    }
    if (count > 1) return std::nullopt;
    if (count == 1) factor.push_back(std::move(rest));
  }
  if (factor.empty()) return std::nullopt;
  return IndexExpr::from_terms(std::move(factor));
}

// e with the atom `from` replaced, outside functions.
IndexExpr replaced(const IndexExpr& e, const IndexExpr& from, const IndexExpr& to) {
  IndexExpr sum = 0;
  for (const IndexExpr::Term& t : e.terms()) {
    IndexExpr product = t.coefficient;
    for (const IndexExpr::Atom& a : t.atoms) product *= atom_dim(a) == from ? to : atom_dim(a);
    sum += product;
  }
  return sum;
}

// The ranges of the loops of an access, and of those values that it uses: a kernel has hundreds, and an access few.
IndexRanges compute_used_ranges(const AccessTable& table, const Access& access) {
  std::set<SymbolId> used;
  for (const auto* list : {&access.index, &access.guard})
    for (const IndexExpr& e : *list) e.collect_symbols(used);
  for (const EnclosingLoop& loop : access.loops) loop.extent.collect_symbols(used);
  IndexRanges ranges = compute_ranges(table, access);
  std::erase_if(ranges,
                [&](const auto& of) { return table.value_depth.contains(of.first) && !used.contains(of.first); });
  return ranges;
}

// Whether w and x never touch one element if `differs` (if any) has different values in the two and the first `shared`
// loops have equal ones.
class Collision {
 public:
  // `of_w` and `of_x`: the ranges of what they use.
  Collision(const AccessTable& table, const Access& w, const IndexRanges& of_w, const Access& x,
            const IndexRanges& of_x, std::size_t shared, std::optional<SymbolId> differs)
      : differs_(differs) {
    std::size_t common = 0;
    while (common < w.loops.size() && common < x.loops.size() && w.loops[common].id == x.loops[common].id) ++common;
    for (std::size_t i = shared; i < x.loops.size(); ++i) rename(x.loops[i].var);
    const bool same_iteration = shared == x.loops.size() && &w == &x;
    if (!same_iteration || differs_ == kLane) rename(kLane);
    // What x knows of values that only w uses: functions of w have copies, too.
    IndexRanges of_copies = of_x;
    for (const auto& [symbol, range] : of_w)
      if (table.value_depth.contains(symbol)) of_copies.emplace(symbol, range);
    for (const auto& [symbol, range] : of_copies) {
      const auto value = table.value_depth.find(symbol);
      if (value != table.value_depth.end() && value->second > shared) rename(symbol);
    }
    ranges_ = of_w;
    for (const auto& [name, range] : of_copies) {
      const IndexExpr copied = other(IndexExpr::symbol(name));
      ranges_[*copied.as_symbol()] = {range.lo ? std::optional(other(*range.lo)) : std::nullopt,
                                      range.hi ? std::optional(other(*range.hi)) : std::nullopt};
    }
    guards_ = w.guard;
    for (const IndexExpr& g : x.guard) guards_.push_back(other(g));
    for (std::size_t i = shared; i < common; ++i) add_pair(IndexExpr::symbol(w.loops[i].var));
    if (copies_.count(kLane)) add_pair(IndexExpr::symbol(kLane));
    const IndexRanges own = ranges_;
    for (std::size_t a = 0; a < w.index.size(); ++a) {
      const IndexExpr left = simplify(w.index[a], own);
      add_functions(left);
      equations_.push_back(left - other(simplify(x.index[a], of_x)));
    }
    add_equal_guards(w.guard, own, x.guard, of_x);
  }

  bool impossible() {
    if (!differs_ && contradictory()) return true;
    // Each round settles a pair, splits an equation or ends.
    for (std::size_t round = 0; round <= 2 * pairs_.size() + kMaxSplits; ++round) {
      for (const IndexExpr& e : equations_) {
        if (never_zero(e)) return true;
      }
      if (!settle_one()) return done_;
      if (done_) return true;
    }
    return false;
  }

 private:
  struct Pair {
    IndexExpr mine, theirs;
    bool equal = false;
  };

  void rename(SymbolId symbol) { copies_[symbol] = IndexExpr::symbol(derived(symbol, 1)); }
  IndexExpr other(const IndexExpr& d) const { return d.substitute(copies_); }

  static bool takes_least(const IndexExpr& e) {
    const std::vector<IndexExpr::Term> terms = e.terms();
    return std::any_of(terms.begin(), terms.end(), [](const IndexExpr::Term& t) {
      return std::any_of(t.atoms.begin(), t.atoms.end(), [](const IndexExpr::Atom& a) {
        return a.fn == IndexExpr::Fn::min || a.fn == IndexExpr::Fn::max;
      });
    });
  }

  // A guard whose ranges leave only 0, such as -mod(t, 32) >= 0, is 0 in both accesses.
  void add_equal_guards(const Guard& w, const IndexRanges& of_w, const Guard& x, const IndexRanges& of_x) {
    for (const IndexExpr& g : w) {
      if (takes_least(g) || !ir::proves_nonneg(-g, of_w)) continue;
      for (const IndexExpr& h : x) {
        if (!ir::proves_nonneg(-h, of_x)) continue;
        add_functions(g);
        equations_.push_back(g - other(h));
      }
    }
  }

  void add_pair(const IndexExpr& mine) {
    const IndexExpr theirs = other(mine);
    if (mine == theirs) return;
    const auto known = [&](const Pair& p) { return p.mine == mine; };
    if (std::none_of(pairs_.begin(), pairs_.end(), known)) pairs_.push_back({mine, theirs});
  }

  void add_functions(const IndexExpr& d) {
    for (const IndexExpr::Term& t : d.terms()) {
      for (const IndexExpr::Atom& a : t.atoms) {
        if (a.fn != IndexExpr::Fn::symbol) add_pair(atom_dim(a));
      }
    }
  }

  bool nonneg(const IndexExpr& e) {
    const auto [it, fresh] = proven_.emplace(e, false);
    if (fresh) it->second = ir::proves_nonneg(e, ranges_, guards_);
    return it->second;
  }

  bool never_zero(const IndexExpr& e) {
    if (e.is_const()) return !e.is(0);
    int64_t constant = 0;
    for (const IndexExpr::Term& t : e.terms()) {
      if (t.atoms.empty()) constant = t.coefficient;
    }
    const int64_t g = (e - constant).known_divisor();
    if (g > 1 && constant % g != 0) return true;
    return nonneg(e - 1) || nonneg(-e - 1);
  }

  bool within(const IndexExpr& e, const IndexExpr& below) { return nonneg(below - 1 - e) && nonneg(below - 1 + e); }

  // Whether e = c*(mine - theirs) + R = 0 implies mine == theirs.
  bool implies_equal(const IndexExpr& e, const Pair& p) {
    const auto c = find_coefficient(e, p.mine), opposite = find_coefficient(e, p.theirs);
    if (!c || !opposite || !(*c + *opposite).is(0)) return false;
    const IndexExpr part = *c * (p.mine - p.theirs), rest = e - part;
    if (rest.is(0) && c->is_const()) return true;
    if (within(rest, *c) || within(rest, -*c)) return true;
    const int64_t g = rest.known_divisor();
    return g > 1 && c->is_const() && within(part, g);
  }

  bool settle_one() {
    for (Pair& p : pairs_) {
      if (p.equal) continue;
      const bool proven =
          std::any_of(equations_.begin(), equations_.end(), [&](const IndexExpr& e) { return implies_equal(e, p); });
      if (!proven) continue;
      settle(p);
      return true;
    }
    return settle_dividend() || split_equation();
  }

  // Whether some guard fails wherever the others hold: the accesses are in the two branches of one condition.
  bool contradictory() {
    const Guard guards = guards_;
    return std::any_of(guards.begin(), guards.end(), [&](const IndexExpr& g) { return least_nonneg(-g - 1); });
  }

  // The least of several is at least 0 if each of them is.
  bool least_nonneg(const IndexExpr& e) {
    for (const IndexExpr::Term& t : e.terms()) {
      if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0].fn != IndexExpr::Fn::min) continue;
      const IndexExpr rest = e - IndexExpr::from_terms({t});
      return least_nonneg(rest + t.atoms[0].args[0]) && least_nonneg(rest + t.atoms[0].args[1]);
    }
    return nonneg(e);
  }

  // What of a term may be the g of split_equation: its coefficient and its extents.
  static IndexExpr splitter(const IndexExpr::Term& t) {
    IndexExpr g = t.coefficient < 0 ? -t.coefficient : t.coefficient;
    for (const IndexExpr::Atom& a : t.atoms)
      if (a.fn == IndexExpr::Fn::symbol && a.symbol.extent()) g *= IndexExpr::symbol(a.symbol);
    return g;
  }

  // g*u + r = 0 and |r| < g imply r = 0 and u = 0: rows and columns of tiles that different loops walk over.
  bool split_equation() {
    if (splits_ == kMaxSplits) return false;
    for (const IndexExpr& e : equations_) {
      for (const IndexExpr::Term& t : e.terms()) {
        const IndexExpr g = splitter(t);
        IndexExpr rest = 0;
        for (const IndexExpr::Term& other : e.terms()) {
          const IndexExpr term = IndexExpr::from_terms({other});
          if (g.is(1) || !term.exact_div(g)) rest += term;
        }
        if (rest.is(0) || rest == e || !within(rest, g)) continue;
        const IndexExpr multiple = *(e - rest).exact_div(g);
        ++splits_;
        equations_.erase(std::find(equations_.begin(), equations_.end(), e));
        equations_.push_back(rest);
        equations_.push_back(multiple);
        return true;
      }
    }
    return false;
  }

  void settle(Pair& p) {
    p.equal = true;
    proven_.clear();
    const auto name = p.theirs.as_symbol();
    if (differs_ && p.mine.as_symbol() == differs_) done_ = true;
    const auto rewrite = [&](IndexExpr& d) {
      d = name ? d.substitute(std::map<SymbolId, IndexExpr>{{*name, p.mine}}) : replaced(d, p.theirs, p.mine);
    };
    for (IndexExpr& e : equations_) rewrite(e);
    for (IndexExpr& g : guards_) rewrite(g);
    if (name) {
      for (Pair& q : pairs_) rewrite(q.theirs);
      for (auto& [from, to] : copies_) rewrite(to);
    }
  }

  IndexExpr with_equal_functions(IndexExpr d) const {
    for (const Pair& q : pairs_) {
      if (q.equal && !q.theirs.as_symbol()) d = replaced(d, q.theirs, q.mine);
    }
    return d;
  }

  // mod(u, d) == mod(u', d) and floordiv(w, d) == floordiv(w', d), where d divides w - u, imply w == w'.
  bool settle_dividend() {
    for (const Pair& p : pairs_) {
      const IndexExpr::Atom remainder = p.mine.terms()[0].atoms[0];
      if (!p.equal || remainder.fn != IndexExpr::Fn::mod) continue;
      if (is_settled(floordiv(remainder.args[0], remainder.args[1])) && add_equation(remainder.args[0])) return true;
      for (const Pair& q : pairs_) {
        const IndexExpr::Atom quotient = q.mine.terms()[0].atoms[0];
        const bool fits = q.equal && quotient.fn == IndexExpr::Fn::floordiv && quotient.args[1] == remainder.args[1] &&
                          (quotient.args[0] - remainder.args[0]).exact_div(remainder.args[1]);
        if (fits && add_equation(quotient.args[0])) return true;
      }
    }
    return false;
  }

  bool is_settled(const IndexExpr& d) const { return with_equal_functions(d - other(d)).is(0); }

  // Adds d == d'; false if that is already known.
  bool add_equation(const IndexExpr d) {
    const IndexExpr equation = with_equal_functions(d - other(d));
    if (equation.is(0) || std::find(equations_.begin(), equations_.end(), equation) != equations_.end()) return false;
    equations_.push_back(equation);
    add_functions(d);
    return true;
  }

  static constexpr std::size_t kMaxSplits = 8;
  std::size_t splits_ = 0;
  std::optional<SymbolId> differs_;
  std::map<SymbolId, IndexExpr> copies_;
  IndexRanges ranges_;
  Guard guards_;
  std::vector<Pair> pairs_;
  std::vector<IndexExpr> equations_;
  std::map<IndexExpr, bool> proven_;  // memoizes nonneg
  bool done_ = false;
};

class RaceCheck {
 public:
  RaceCheck(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out)
      : k_(kernel), table_(table), out_(out) {}

  void run() {
    std::map<uint32_t, std::vector<const Access*>> by_buffer;
    for (const Access& a : table_.accesses) by_buffer[a.buffer.index].push_back(&a);
    for (const auto& [buffer, list] : by_buffer) {
      const Space space = k_.buffers[BufferId{buffer}].space;
      // check_phases handles reg buffers; in the lowered form, barriers order the accesses to shared ones.
      const bool private_to_thread = space == Space::reg || (space == Space::shared && is_lowered(k_));
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (!list[i]->write) continue;
        lanes(*list[i]);
        for (std::size_t j = 0; j < list.size() && !private_to_thread; ++j) {
          if (!list[j]->write || j >= i) pair(*list[i], *list[j]);
        }
      }
    }
    for (const auto& [in, alias] : k_.may_alias) {
      for (const Access* w : by_buffer[alias.index]) {
        for (const Access* r : by_buffer[in.index]) aliased(*w, *r);
      }
    }
  }

 private:
  std::string name(const Access& a) const { return k_.buffers[a.buffer].name; }
  std::string text(const Access& a) const { return "'" + print_stmt(k_, *a.stmt) + "'"; }

  void lanes(const Access& w) {
    if (w.width == 1 || collide_never(w, w, w.loops.size(), kLane)) return;
    out_.push_back(fmt::format("lanes of one store may write one element of {}: {}", name(w), text(w)));
  }

  const IndexRanges& used_ranges(const Access& a) {
    auto& known = ranges_[static_cast<std::size_t>(&a - table_.accesses.data())];
    if (!known) known = compute_used_ranges(table_, a);
    return *known;
  }
  bool collide_never(const Access& w, const Access& x, std::size_t shared, std::optional<SymbolId> differs) {
    return Collision(table_, w, used_ranges(w), x, used_ranges(x), shared, differs).impossible();
  }

  static std::size_t common_loops(const Access& a, const Access& b) {
    std::size_t n = 0;
    while (n < a.loops.size() && n < b.loops.size() && a.loops[n].id == b.loops[n].id) ++n;
    return n;
  }

  void pair(const Access& w, const Access& x) {
    const auto depth = table_.alloc_depth.find(w.buffer.index);
    const std::size_t common = common_loops(w, x);
    for (std::size_t i = depth == table_.alloc_depth.end() ? 0 : depth->second; i < common; ++i) {
      const EnclosingLoop& l = w.loops[i];
      if (!l.is_parallel() || proves_nonneg(1 - l.extent, used_ranges(w)) || collide_never(w, x, i, l.var)) continue;
      const std::string loop = fmt::format("iterations of {} {}", to_string(l.tag), name_of(k_, l.var));
      if (&w == &x) {
        out_.push_back(fmt::format("{} may write one element of {}: {}", loop, name(w), text(w)));
      } else {
        out_.push_back(fmt::format("{} may {} one element of {}: {} and {}", loop,
                                   x.write ? "both write" : "write and read", name(w), text(w), text(x)));
      }
    }
  }

  void aliased(const Access& w, const Access& r) {
    const std::size_t common = common_loops(w, r);
    for (std::size_t i = 0; i < common; ++i) {
      if (proves_nonneg(1 - w.loops[i].extent, used_ranges(w))) continue;
      if (collide_never(w, r, i, w.loops[i].var)) continue;
      out_.push_back(fmt::format("{} may alias {}, but another iteration of {} may write what {} reads: {}", name(r),
                                 name(w), name_of(k_, w.loops[i].var), text(r), text(w)));
      return;
    }
    if (r.order > w.order && !collide_never(w, r, common, std::nullopt)) {
      out_.push_back(fmt::format("{} may alias {}, but {} comes after {}", name(r), name(w), text(r), text(w)));
    }
  }

  const Kernel& k_;
  const AccessTable& table_;
  std::vector<std::optional<IndexRanges>> ranges_{table_.accesses.size()};  // of each access, once asked for
  std::vector<std::string>& out_;
};

}  // namespace

void check_races(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out) {
  RaceCheck(kernel, table, out).run();
}

}  // namespace fusec::ir
