// SPDX-License-Identifier: Apache-2.0
// Collects the accesses of a kernel with resolved indices, guards and enclosing loops, for the range, race and phase
// checks, and proves inequalities from ranges and guards.

#include "ir/verify/kernel_access.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

namespace fusec::ir {
namespace {

class Collector {
 public:
  explicit Collector(const Kernel& kernel) : k_(kernel), next_var_(static_cast<uint32_t>(kernel.vars.size())) {}

  AccessTable run() {
    for (const BufferId b : k_.params) table_.alloc_depth[b.index] = 0;
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      phase_ = i;
      stmt(k_.body[i]);
    }
    const auto ranges = compute_value_ranges(k_);
    for (const auto& [value, depth] : table_.value_depth)
      if (const auto reg = value.reg(); reg && is_bounded(k_, *reg, ranges[*reg]))
        table_.value_range.emplace(value, ranges[*reg]);
    return std::move(table_);
  }

 private:
  IndexExpr resolved(const IndexExpr& d) const {
    const IndexExpr e = d.substitute(values_);
    return with_facts(threads_.empty() ? e : simplify(e, threads_), k_);
  }

  std::vector<IndexExpr> resolved(const std::vector<IndexExpr>& list) const {
    std::vector<IndexExpr> out;
    for (const IndexExpr& d : list) out.push_back(resolved(d));
    return out;
  }

  void push(const void* id, const LoopHead& head) { loops_.push_back({id, head.tag, head.var, resolved(head.extent)}); }

  void block(const Block& body) {
    for (const Stmt& s : body) stmt(s);
  }

  // The condition that holds inside a loop that may run zero times: c - 1 >= 0 in `seq i in max(0, min(1, c))`, and in
  // `seq i in c` where c depends on other loops.
  std::optional<IndexExpr> infer_condition(const LoopHead& head) const {
    const LoopCount loop = find_loop_count(head.extent);
    const bool varies =
        std::any_of(loops_.begin(), loops_.end(), [&](const auto& outer) { return loop.count.uses(outer.var); });
    return loop.at_most_once || varies ? std::optional(resolved(loop.count) - 1) : std::nullopt;
  }

  void stmt(const Stmt& s) {
    ++order_;
    std::visit([&](const auto& own) { visit(own, s); }, s.v);
    if (std::holds_alternative<IndexValue>(s.v)) return;
    for (const RegId r : defined(s)) table_.value_depth.emplace(r, loops_.size());
  }

  Access& access(BufferId b, bool write, const std::vector<IndexExpr>& index, const Stmt& s) {
    Access a;
    a.buffer = b;
    a.write = write;
    a.index = resolved(index);
    a.width = width_of(k_, s);
    a.loops = loops_;
    a.guard = conditions_;
    a.order = order_;
    a.phase = phase_;
    a.stmt = &s;
    table_.accesses.push_back(std::move(a));
    return table_.accesses.back();
  }

  // Records an access to every element of the box of `extents` on the last axes, starting at `index`.
  Access& box(BufferId b, bool write, std::vector<IndexExpr> index, const std::vector<IndexExpr>& extents,
              const Stmt& s) {
    const std::size_t depth = loops_.size();
    while (index.size() < k_.buffers[b].shape.size()) index.push_back(0);
    for (std::size_t i = 0; i < extents.size() && i < index.size(); ++i) {
      const VarId var{next_var_++};
      loops_.push_back({&extents[i], LoopTag::seq, var, resolved(extents[i])});
      index[index.size() - extents.size() + i] += IndexExpr::symbol(var);
    }
    Access& all = access(b, write, index, s);
    all.width = 1;
    loops_.resize(depth);
    return all;
  }

  // Records an access to all elements of the axes of b after those that `index` gives.
  void rest(BufferId b, bool write, const std::vector<IndexExpr>& index, const Stmt& s) {
    const IndexShape& shape = k_.buffers[b].shape;
    if (index.size() > shape.size()) return;
    boxes_.push_back(std::make_unique<std::vector<IndexExpr>>(shape.begin() + static_cast<std::ptrdiff_t>(index.size()),
                                                              shape.end()));
    box(b, write, index, *boxes_.back(), s);
  }

  // The constants by which the thread's number is divided in the body, each a multiple of the one before.
  static std::vector<int64_t> thread_divisors(const Loop& s, int threads) {
    std::set<int64_t> divisors;
    const std::function<void(const IndexExpr&)> collect = [&](const IndexExpr& e) {
      if (e.is_const()) return;
      for (const IndexExpr::Term& term : e.terms()) {
        for (const IndexExpr::Atom& atom : term.atoms) {
          const bool divides = atom.fn == IndexExpr::Fn::floordiv || atom.fn == IndexExpr::Fn::mod;
          if (divides && atom.args[0] == IndexExpr::symbol(kThread) && atom.args[1].is_const())
            divisors.insert(atom.args[1].value());
          for (const IndexExpr& arg : atom.args) collect(arg);
        }
      }
    };
    for_each_stmt(s.body, [&](const Stmt& stmt) { for_each_index(stmt, collect); });
    std::vector<int64_t> chain = {1};
    for (const int64_t d : divisors) {
      if (d > chain.back() && d < threads && d % chain.back() == 0) chain.push_back(d);
    }
    return chain;
  }

  // The threads are the iterations of nested block loops, so that quotients and remainders of their number are loop
  // variables.
  void push_threads(const Loop& s, int threads) {
    const std::vector<int64_t> divisors = thread_divisors(s, threads);
    IndexExpr number = 0;
    for (std::size_t i = divisors.size(); i-- > 0;) {
      const bool outermost = i + 1 == divisors.size();
      const int64_t extent = outermost ? (threads + divisors[i] - 1) / divisors[i] : divisors[i + 1] / divisors[i];
      const VarId var{next_var_++};
      loops_.push_back({reinterpret_cast<const char*>(&s.threads) + i, LoopTag::block, var, IndexExpr(extent)});
      threads_[var] = {IndexExpr(0), IndexExpr(extent - 1)};
      number += IndexExpr::symbol(var) * divisors[i];
    }
    values_[kThread] = number;
    if (threads % divisors.back() != 0) conditions_.push_back(threads - 1 - number);
  }

  static bool holds_grids(const Loop& s) {
    return std::any_of(s.body.begin(), s.body.end(), [](const Stmt& inner) {
      const auto* loop = std::get_if<Loop>(&inner.v);
      return loop != nullptr && loop->head.tag == LoopTag::grid;
    });
  }

  void visit(const Loop& s, const Stmt&) {
    const std::size_t depth = loops_.size(), conditions = conditions_.size();
    push(&s, s.head);
    // The threads of the blocks of one pass are not those of the other one.
    const bool is_pass = task_threads_ > 0 && s.head.tag == LoopTag::grid && !holds_grids(s);
    if (s.threads > 0 && !s.tasks) push_threads(s, s.threads);
    if (is_pass) push_threads(s, task_threads_);
    if (s.tasks) task_threads_ = s.threads;
    const auto condition = infer_condition(s.head);
    if (condition) conditions_.push_back(*condition);
    block(s.body);
    if (s.tasks) task_threads_ = 0;
    conditions_.resize(conditions);
    loops_.resize(depth);
  }
  void visit(const Alloc& s, const Stmt&) { table_.alloc_depth[s.buffer.index] = loops_.size(); }
  void visit(const Let&, const Stmt&) {}
  void visit(const IndexValue& s, const Stmt&) { values_[s.dst] = s.value.substitute(values_); }
  void visit(const Load& s, const Stmt& stmt) {
    Access& a = access(s.buffer, false, s.index, stmt);
    guard(a, s.guard);
    a.clamp = s.clamp;
  }
  void visit(const Store& s, const Stmt& stmt) { guard(access(s.buffer, true, s.index, stmt), s.guard); }
  void guard(Access& a, const Guard& own) {
    for (const IndexExpr& g : own) a.guard.push_back(resolved(g));
  }
  void visit(const If& s, const Stmt&) {
    for (const IndexExpr& c : s.condition) conditions_.push_back(resolved(c));
    block(s.body);
    conditions_.resize(conditions_.size() - s.condition.size());
  }
  // As a loop in which one iteration runs: which one follows from the number.
  void visit(const Choose& s, const Stmt&) {
    push(&s, s.head);
    const IndexExpr difference = resolved(s.number) - IndexExpr::symbol(s.head.var);
    conditions_.push_back(difference);
    conditions_.push_back(-difference);
    block(s.body);
    conditions_.resize(conditions_.size() - 2);
    loops_.pop_back();
  }
  void visit(const Prefetch&, const Stmt&) {}
  void visit(const Shuffle&, const Stmt&) {}
  void visit(const Ballot&, const Stmt&) {}
  void visit(const Sync&, const Stmt&) {}
  void visit(const Reduce& s, const Stmt&) {
    for (const LoopHead& head : s.loops) push(&head, head);
    block(s.body);
    loops_.resize(loops_.size() - s.loops.size());
  }
  void visit(const Scan& s, const Stmt&) {
    push(&s, s.loop);
    table_.value_depth[s.dst] = loops_.size();
    block(s.body);
    block(s.then);
    loops_.pop_back();
  }
  void visit(const TransposeTile& s, const Stmt& stmt) {
    rest(s.src, false, {}, stmt);
    rest(s.dst, true, {}, stmt);
  }
  void visit(const CopyAsync& s, const Stmt& stmt) {
    guard(box(s.src, false, s.src_index, s.extents, stmt), s.guard);
    box(s.dst, true, s.dst_index, s.extents, stmt);
  }
  void visit(const Mma& s, const Stmt& stmt) {
    static const std::vector<IndexExpr> kRows = {kMmaRows, kMmaTerms}, kColumns = {kMmaColumns, kMmaTerms};
    if (s.windows) {
      windows(s, stmt);
    } else {
      box(s.a, false, s.a_index, kRows, stmt);
    }
    box(s.b, false, s.b_index, kColumns, stmt);
  }

  // Records reads of the lines under the windows of an mma's rows.
  void windows(const Mma& s, const Stmt& stmt) {
    const std::size_t depth = loops_.size();
    boxes_.push_back(std::make_unique<std::vector<IndexExpr>>(
        std::vector<IndexExpr>{kMmaTerms / s.windows->width, kMmaRows, s.windows->width}));
    std::vector<IndexExpr> vars;
    for (const IndexExpr& extent : *boxes_.back()) {
      const VarId var{next_var_++};
      loops_.push_back({&extent, LoopTag::seq, var, extent});
      vars.push_back(IndexExpr::symbol(var));
    }
    std::vector<IndexExpr> index = s.a_index;
    index[index.size() - 2] += vars[0];
    index.back() += vars[1] * s.windows->step + vars[2];
    access(s.a, false, index, stmt).width = 1;
    loops_.resize(depth);
  }

  void visit(const TileProduct& s, const Stmt& stmt) {
    rest(s.sums, true, s.sums_index, stmt);
    const IndexShape& shape = k_.buffers[s.sums].shape;
    rows_of_tile(s.a, s.a_index, s.a_pitch, shape[shape.size() - 3] * kTileRows, s.rows, s.terms, stmt);
    rows_of_tile(s.b, s.b_index, s.b_pitch, shape[shape.size() - 2] * kTileColumns, s.columns, s.terms, stmt);
  }
  // Records reads of the terms of the tile's rows, of those that there are.
  void rows_of_tile(BufferId b, std::vector<IndexExpr> index, const IndexExpr& pitch, const IndexExpr& extent,
                    const IndexExpr& rows, const IndexExpr& terms, const Stmt& s) {
    const std::size_t depth = loops_.size();
    boxes_.push_back(std::make_unique<std::vector<IndexExpr>>(std::vector{extent, terms}));
    const VarId row{next_var_++}, term{next_var_++};
    loops_.push_back({&boxes_.back()->front(), LoopTag::seq, row, resolved(extent)});
    loops_.push_back({&boxes_.back()->back(), LoopTag::seq, term, resolved(terms)});
    index.back() += IndexExpr::symbol(row) * pitch + IndexExpr::symbol(term);
    Access& a = access(b, false, index, s);
    a.width = 1;
    guard(a, {rows - 1 - IndexExpr::symbol(row)});
    loops_.resize(depth);
  }

  const Kernel& k_;
  AccessTable table_;
  LoopStack loops_;
  Guard conditions_;  // of the enclosing loops and ifs
  std::map<SymbolId, IndexExpr> values_;
  IndexRanges threads_;  // of the variables of push_threads
  std::vector<std::unique_ptr<std::vector<IndexExpr>>> boxes_;
  std::size_t order_ = 0, phase_ = 0;
  int task_threads_ = 0;  // of a block, in a lowered launch with tasks
  uint32_t next_var_;     // of the boxes, after those of the kernel
};

// The symbols that stand alone in a term of g with coefficient 1 (sign 1) or -1.
std::vector<SymbolId> unit_symbols(const IndexExpr& g, int64_t sign) {
  std::vector<SymbolId> out;
  for (const IndexExpr::Term& t : g.terms()) {
    if (t.coefficient == sign && t.atoms.size() == 1 && t.atoms[0].fn == IndexExpr::Fn::symbol)
      out.push_back(t.atoms[0].symbol);
  }
  return out;
}

// c + d*q >= 0 is equivalent to d*q >= -d*floor(c/d): the constant of a guard can be rounded down to a multiple of the
// divisor of the rest.
IndexExpr tightened(const IndexExpr& g) {
  int64_t constant = 0;
  for (const IndexExpr::Term& t : g.terms()) {
    if (t.atoms.empty()) constant = t.coefficient;
  }
  const IndexExpr rest = g - constant;
  const int64_t d = rest.known_divisor();
  if (d <= 1) return g;
  return rest + floordiv(IndexExpr(constant), IndexExpr(d)) * d;
}

// The tightened guards that share a symbol with e.
std::vector<IndexExpr> related(const IndexExpr& e, const Guard& guards) {
  std::set<SymbolId> symbols;
  e.collect_symbols(symbols);
  std::vector<IndexExpr> out;
  for (const IndexExpr& g : guards) {
    if (std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return g.uses(s); })) {
      out.push_back(tightened(g));
    }
  }
  return out;
}

}  // namespace

AccessTable collect_accesses(const Kernel& kernel) { return Collector(kernel).run(); }

IndexRanges compute_ranges(const AccessTable& table, const Access& access) {
  IndexRanges ranges;
  for (const auto& [value, depth] : table.value_depth) ranges[value] = {};
  for (const auto& [value, range] : table.value_range) ranges[value] = {IndexExpr(range.lo), IndexExpr(range.hi)};
  for (const EnclosingLoop& loop : access.loops) ranges[loop.var] = {IndexExpr(0), loop.extent - 1};
  ranges[kLane] = {IndexExpr(0), IndexExpr(access.width - 1)};
  return ranges;
}

namespace {

// The constant factor of a symbol that stands alone in a term of d.
int64_t find_factor(const IndexExpr& d, SymbolId symbol) {
  for (const IndexExpr::Term& t : d.terms()) {
    if (t.atoms.size() == 1 && t.atoms[0].fn == IndexExpr::Fn::symbol && t.atoms[0].symbol == symbol)
      return t.coefficient;
  }
  return 0;
}

// g multiplied so that one of its symbols cancels the same symbol in e: 100*(n - 1 - i) for e with -100*i.
IndexExpr scaled(const IndexExpr& g, const IndexExpr& e) {
  for (const int64_t sign : {int64_t{1}, int64_t{-1}}) {
    for (const SymbolId s : unit_symbols(g, sign)) {
      const int64_t factor = find_factor(e, s) * sign;
      if (factor > 1) return g * factor;
    }
  }
  return g;
}

}  // namespace

bool proves_nonneg(const IndexExpr& e, const IndexRanges& ranges, const Guard& guards) {
  if (ir::proves_nonneg(e, ranges)) return true;
  std::vector<IndexExpr> tight = related(e, guards);
  for (IndexExpr& g : tight) g = scaled(g, e);
  for (std::size_t i = 0; i < tight.size(); ++i) {
    if (ir::proves_nonneg(e - tight[i], ranges)) return true;
    for (std::size_t j = 0; j < i; ++j) {
      if (ir::proves_nonneg(e - tight[i] - tight[j], ranges)) return true;
    }
  }
  return false;
}

bool proves_nonneg_narrowed(const IndexExpr& e, const IndexRanges& ranges, const Guard& guards) {
  if (proves_nonneg(e, ranges, guards)) return true;
  for (const IndexExpr& g : related(e, guards)) {
    for (const int64_t sign : {int64_t{1}, int64_t{-1}}) {
      for (const SymbolId s : unit_symbols(g, sign)) {
        const auto it = ranges.find(s);
        if (it == ranges.end() || !e.uses(s)) continue;
        IndexRanges narrowed = ranges;
        // s + r >= 0: s >= -r; -s + r >= 0: s <= r.
        (sign > 0 ? narrowed[s].lo : narrowed[s].hi) = sign > 0 ? IndexExpr::symbol(s) - g : g + IndexExpr::symbol(s);
        if (ir::proves_nonneg(e, narrowed)) return true;
      }
    }
  }
  return false;
}

}  // namespace fusec::ir
