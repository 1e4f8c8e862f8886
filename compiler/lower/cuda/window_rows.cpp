// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: the rows of a window. A depthwise convolution comes as one sum over all places of its window, written
// out. Where a row of places is like the next one but for where it reads, a loop over the rows takes the place of the
// text: the compiler then keeps the elements of one row in registers, not those of all rows.

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr size_t kMinRows = 3;    // that make a loop
constexpr size_t kMinPlaces = 2;  // of a row

using ir::Let;
using ir::Load;

// The statements [begin, end) of the body that add one row to the sum.
struct Row {
  size_t begin = 0, end = 0;
};

// An operand as its row sees it: the sum of the rows before, the result of one of the row's statements, or another
// value.
struct RowOperand {
  bool is_sum = false;
  std::optional<size_t> place;  // of the statement in its row
  std::optional<Operand> other;
  bool operator==(const RowOperand&) const = default;
};

// How a load moves from row to row.
struct RowStep {
  int64_t index = 0;                                 // elements
  std::vector<std::pair<IndexExpr, int64_t>> guard;  // of the first row, and what each further row adds
};

std::optional<RegId> as_reg(const Operand& o) {
  const auto* reg = std::get_if<RegId>(&o);
  return reg != nullptr ? std::optional(*reg) : std::nullopt;
}

// `g >= 0` with the least coefficients: its non-constant terms have no common divisor.
IndexExpr tightest(const IndexExpr& g) {
  int64_t divisor = 0, constant = 0;
  std::vector<IndexExpr::Term> terms;
  if (!g.is_const()) terms = g.terms();
  for (const IndexExpr::Term& term : terms) {
    if (term.atoms.empty()) {
      constant = term.coefficient;
    } else {
      divisor = std::gcd(divisor, term.coefficient);
    }
  }
  if (divisor < 2) return g;
  return *(g - constant).exact_div(divisor) + floordiv(IndexExpr(constant), IndexExpr(divisor));
}

class WindowRows {
 public:
  WindowRows(ir::Kernel& kernel, const std::vector<LoopHead>& heads, const Block& body)
      : kernel_(kernel), heads_(heads), ranges_(ir::compute_ranges(heads)), body_(body) {
    for (size_t i = 0; i < body_.size(); ++i)
      for (const RegId reg : defined(body_[i])) defined_at_[reg] = i;
  }

  // Whether the body has such a sum.
  bool find() {
    find_sum();
    for (size_t places = kMinPlaces; places * kMinRows <= sum_.size(); ++places)
      if (sum_.size() % places == 0 && find_rows(places) && find_steps()) return true;
    return false;
  }

  // The body with a loop in the place of the sum that was found, which begins with -0: a product adds to it as if
  // alone.
  Block write() const {
    const DType dtype = kernel_.regs[partial_sum(0)].dtype;
    const BufferId sum =
        add_buffer(kernel_, {"sum" + std::to_string(kernel_.buffers.size()), ir::Space::reg, dtype, {1}, {}, 0, ""});
    const VarId row = add_var(kernel_);
    const RegId before = add_reg(kernel_, dtype);
    Block inside;
    inside.push_back({Load{before, sum, {0}, {}, ir::Constant{dtype}, 0}});
    for (size_t i = rows_[1].begin; i < rows_[1].end; ++i) {
      Stmt stmt = body_[i];
      if (auto* load = std::get_if<Load>(&stmt.v)) {
        const RowStep& step = steps_.at(i - rows_[1].begin);
        load->index[0] = load_at(rows_[0].begin + i - rows_[1].begin)->index[0] + step.index * IndexExpr::symbol(row);
        load->guard.clear();
        for (const auto& [first, moves] : step.guard) load->guard.push_back(first + moves * IndexExpr::symbol(row));
      }
      for_each_operand(stmt, [&](Operand& o) {
        if (as_reg(o) == partial_sum(0)) o = before;
      });
      inside.push_back(std::move(stmt));
    }
    inside.push_back({ir::Store{sum, {0}, partial_sum(1), {}, ir::StoreHint::none}});

    Block result(body_.begin(), body_.begin() + static_cast<std::ptrdiff_t>(rows_[0].begin));
    result.push_back({ir::Alloc{sum}});
    result.push_back({ir::Store{sum, {0}, ir::float_constant(dtype, -0.0), {}, ir::StoreHint::none}});
    result.push_back({ir::Loop{
        {LoopTag::seq, row, static_cast<int64_t>(rows_.size())}, std::move(inside), ir::PhaseBoundary::launches}});
    result.push_back({Load{partial_sum(rows_.size() - 1), sum, {0}, {}, ir::Constant{dtype}, 0}});
    result.insert(result.end(), body_.begin() + static_cast<std::ptrdiff_t>(rows_.back().end), body_.end());
    return result;
  }

 private:
  const Let* let_at(size_t i) const { return std::get_if<Let>(&body_[i].v); }
  const Load* load_at(size_t i) const { return std::get_if<Load>(&body_[i].v); }
  RegId partial_sum(size_t row) const { return let_at(rows_[row].end - 1)->dst; }

  // Finds a sum of many products: a mul, and an fma for each further one. Notes where they are in the body.
  void find_sum() {
    for (size_t i = body_.size(); i-- > 0;) {
      std::vector<size_t> sum;
      for (const Let* at = let_at(i); at != nullptr && (at->op == ir::ScalarOp::fma || at->op == ir::ScalarOp::mul);) {
        sum.push_back(defined_at_.at(at->dst));
        const auto before = at->op == ir::ScalarOp::fma ? as_reg(at->args[2]) : std::nullopt;
        const auto it = before ? defined_at_.find(*before) : defined_at_.end();
        at = it != defined_at_.end() ? let_at(it->second) : nullptr;
      }
      if (sum.size() < kMinRows * kMinPlaces || let_at(sum.back())->op != ir::ScalarOp::mul) continue;
      sum_.assign(sum.rbegin(), sum.rend());
      return;
    }
  }

  // Whether the sum has rows of `places` products: equally many statements, one row right behind the other.
  bool find_rows(size_t places) {
    rows_.clear();
    for (size_t i = places; i <= sum_.size(); i += places)
      rows_.push_back({rows_.empty() ? 0 : rows_.back().end, sum_[i - 1] + 1});
    const size_t length = rows_[1].end - rows_[1].begin;
    if (rows_[0].end < length) return false;
    rows_[0].begin = rows_[0].end - length;
    return rows_[0].begin <= sum_[0] &&
           std::all_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.end - row.begin == length; });
  }

  RowOperand as_seen(const Operand& o, size_t row) const {
    const auto reg = as_reg(o);
    if (reg && row > 0 && *reg == partial_sum(row - 1)) return {true, std::nullopt, std::nullopt};
    const auto it = reg ? defined_at_.find(*reg) : defined_at_.end();
    if (it == defined_at_.end() || it->second < rows_[row].begin || it->second >= rows_[row].end)
      return {false, std::nullopt, o};
    return {false, it->second - rows_[row].begin, std::nullopt};
  }

  // The first product of all has no sum to add to.
  std::vector<RowOperand> operands(const Let& let, size_t row) const {
    std::vector<RowOperand> result;
    for (const Operand& o : let.args) result.push_back(as_seen(o, row));
    if (defined_at_.at(let.dst) == sum_[0]) result.push_back({true, std::nullopt, std::nullopt});
    return result;
  }

  // Finds how the loads move from row to row. False: the rows differ in more.
  bool find_steps() {
    steps_.clear();
    const size_t length = rows_[0].end - rows_[0].begin;
    for (size_t i = 0; i < length; ++i) {
      if (load_at(rows_[1].begin + i) != nullptr) {
        std::optional<RowStep> step = find_step(i);
        if (!step) return false;
        steps_[i] = std::move(*step);
      } else if (!computes_alike(i)) {
        return false;
      }
    }
    return keeps_results(length);
  }

  // Whether statement i of every row is the same scalar op, on operands that the rows see alike.
  bool computes_alike(size_t i) const {
    const Let* const second = let_at(rows_[1].begin + i);
    if (second == nullptr) return false;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Let* const let = let_at(rows_[r].begin + i);
      if (let == nullptr || kernel_.regs[let->dst] != kernel_.regs[second->dst]) return false;
      const ir::ScalarOp op = rows_[r].begin + i == sum_[0] ? ir::ScalarOp::fma : let->op;
      if (op != second->op || operands(*let, r) != operands(*second, 1)) return false;
    }
    return true;
  }

  // Whether nothing else uses what a row computes but the last sum.
  bool keeps_results(size_t length) const {
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (size_t i = 0; i < length; ++i) {
        for (const RegId reg : defined(body_[rows_[r].begin + i])) {
          const bool is_sum = rows_[r].begin + i + 1 == rows_[r].end;
          for (size_t at = rows_[r].end; at < body_.size(); ++at) {
            const bool may = is_sum && (r + 1 == rows_.size() || at < rows_[r + 1].end);
            if (!may && uses(body_[at], reg)) return false;
          }
        }
      }
    }
    return true;
  }

  static bool uses(const Stmt& stmt, RegId reg) {
    bool found = mentions(stmt, reg);
    for_each_operand(stmt, [&](const Operand& o) { found |= as_reg(o) == reg; });
    return found;
  }

  std::optional<RowStep> find_step(size_t i) const {
    std::vector<const Load*> loads;
    for (const Row& row : rows_) loads.push_back(load_at(row.begin + i));
    for (const Load* load : loads) {
      const bool same = load != nullptr && load->clamp == 0 && load->index.size() == 1 &&
                        load->buffer == loads[0]->buffer && load->otherwise == loads[0]->otherwise &&
                        kernel_.regs[load->dst] == kernel_.regs[loads[0]->dst];
      if (!same) return std::nullopt;
    }
    const IndexExpr step = loads[1]->index[0] - loads[0]->index[0];
    if (!step.is_const()) return std::nullopt;
    for (size_t r = 1; r < loads.size(); ++r)
      if (loads[r]->index[0] - loads[r - 1]->index[0] != step) return std::nullopt;
    RowStep result{step.value(), {}};
    if (std::all_of(loads.begin(), loads.end(), [](const Load* load) { return load->guard.empty(); })) return result;
    for (const LoopHead& head : heads_)
      if (find_guards(loads, head.var, result)) return result;
    return std::nullopt;
  }

  // Whether a row reads where iterations of `along` do, so that guards move with the rows as they do with the loop. A
  // guard of one row must be among those of each other row, or hold there anyway.
  bool find_guards(const std::vector<const Load*>& loads, VarId along, RowStep& step) const {
    const auto affine = affine_in(loads[0]->index[0], {along});
    if (!affine || !affine->coefficient(along).is_const() || affine->coefficient(along).is(0)) return false;
    const int64_t stride = affine->coefficient(along).value();
    std::map<IndexExpr, int64_t> guards;
    for (size_t r = 0; r < loads.size(); ++r) {
      for (const IndexExpr& g : loads[r]->guard) {
        const auto moves = affine_in(g, {along});
        if (!moves || !moves->coefficient(along).is_const()) return false;
        const int64_t product = moves->coefficient(along).value() * step.index;
        const int64_t times = stride / std::gcd(product, stride);  // g >= 0 where times * g + times - 1 >= 0
        const int64_t by = times * product / stride;
        guards[times * g + (times - 1 - static_cast<int64_t>(r) * by)] = by;
      }
    }
    for (size_t r = 0; r < loads.size(); ++r) {
      std::set<IndexExpr> own;
      for (const IndexExpr& g : loads[r]->guard) own.insert(tightest(g));
      for (const auto& [first, by] : guards) {
        const IndexExpr here = first + static_cast<int64_t>(r) * by;
        if (!own.contains(tightest(here)) && !proves_nonneg(here, ranges_)) return false;
      }
    }
    step.guard.assign(guards.begin(), guards.end());
    return true;
  }

  ir::Kernel& kernel_;
  const std::vector<LoopHead>& heads_;
  const ir::IndexRanges ranges_;
  const Block& body_;
  std::map<RegId, size_t> defined_at_;
  std::vector<size_t> sum_;
  std::vector<Row> rows_;
  std::map<size_t, RowStep> steps_;  // of the loads, by their places in a row
};

}  // namespace

bool has_rows(ir::Kernel& kernel, const std::vector<LoopHead>& heads, const Block& body) {
  return WindowRows(kernel, heads, body).find();
}

void roll_rows(ir::Kernel& kernel, const std::vector<LoopHead>& heads, Block& body) {
  WindowRows rows(kernel, heads, body);
  if (rows.find()) body = rows.write();
}

}  // namespace fusec::compiler
