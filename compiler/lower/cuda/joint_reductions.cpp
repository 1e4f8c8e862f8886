// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: makes one reduction over tuples of two reductions of a row, the second of which needs the result of
// the first. So a row that is too long for registers is read once less:
//
//   max_sum  the maximum m of x, and the sum of exp(x - m);
//   welford  the mean of x, and the sum of (x - mean)^2.

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Shorter rows may be held in the registers of a cluster. A sum of tuples rounds otherwise than two reductions do, so
// rows of one length have one form, whoever takes them.
constexpr int64_t kShortRow = int64_t{1} << 18;

class JointReduction {
 public:
  JointReduction(ir::Kernel& kernel, RowPart& first, RowPart& second) : k_(kernel), first_(first), second_(second) {}

  // Appends the second part to the first if it can be computed with it.
  bool make() {
    if (!reduces(first_) || !reduces(second_)) return false;
    a_ = &std::get<ir::Reduce>(first_.reductions[0].v);
    b_ = &std::get<ir::Reduce>(second_.reductions[0].v);
    return match_loops() && (max_and_sum() || moments());
  }

 private:
  bool reduces(const RowPart& part) const {
    if (part.loop || part.reductions.size() != 1) return false;
    const auto& reduce = std::get<ir::Reduce>(part.reductions[0].v);
    return reduce.dst.size() == 1 && reduce.guard.empty() && k_.regs[reduce.dst[0]].dtype == DType::f32;
  }

  // Maps the second reduction's loops to those of the first.
  bool match_loops() {
    if (a_->loops.size() != b_->loops.size()) return false;
    IndexExpr length = 1;
    for (size_t i = 0; i < a_->loops.size(); ++i) {
      if (!(a_->loops[i].extent == b_->loops[i].extent)) return false;
      length *= a_->loops[i].extent;
      names_[b_->loops[i].var] = IndexExpr::symbol(a_->loops[i].var);
    }
    if (!length.is_const() || length.value() <= kShortRow) return false;
    length_ = length.value();
    return true;
  }

  bool max_and_sum() {
    if (a_->combiner != ir::Combiner::max || b_->combiner != ir::Combiner::add) return false;
    const ir::Let* e = find_let(b_->body, b_->yield[0], ir::ScalarOp::exp);
    const ir::Let* difference = e == nullptr ? nullptr : find_let(b_->body, e->args[0], ir::ScalarOp::sub);
    if (difference == nullptr || !(difference->args[1] == Operand(a_->dst[0]))) return false;
    if (!are_equal(a_->yield[0], difference->args[0])) return false;
    join(ir::Combiner::max_sum, {a_->dst[0], b_->dst[0]}, {1});
    return true;
  }

  bool moments() {
    if (a_->combiner != ir::Combiner::add || b_->combiner != ir::Combiner::add) return false;
    const ir::Let* square = find_let(b_->body, b_->yield[0], ir::ScalarOp::mul);
    if (square == nullptr || !(square->args[0] == square->args[1])) return false;
    const ir::Let* difference = find_let(b_->body, square->args[0], ir::ScalarOp::sub);
    if (difference == nullptr || !are_equal(a_->yield[0], difference->args[0])) return false;
    const std::optional<RegId> mean = take_mean(difference->args[1]);
    if (!mean) return false;
    // Whoever reads the sum gets it from the mean.
    const ir::Let sum{a_->dst[0], ir::ScalarOp::mul, {*mean, length()}};
    first_.after.insert(first_.after.begin(), {sum});
    join(ir::Combiner::welford, {*mean, b_->dst[0], add_reg(k_, DType::f32)}, {0, 1});
    return true;
  }

  static Operand number(double value) { return ir::float_constant(DType::f32, value); }

  Operand length() const { return number(static_cast<double>(length_)); }

  bool is_mean(const ir::Let& let) const {
    return let.op == ir::ScalarOp::div && let.args[0] == Operand(a_->dst[0]) && let.args[1] == length();
  }

  // The register of the first sum divided by the length of the row: where the row computes it, takes that statement
  // away, for the reduction will do it.
  std::optional<RegId> take_mean(const Operand& value) {
    const ir::Let* in_body = find_let(b_->body, value, ir::ScalarOp::div);
    if (in_body != nullptr) return is_mean(*in_body) ? std::optional(add_reg(k_, DType::f32)) : std::nullopt;
    const ir::Let* of_row = find_let(first_.after, value, ir::ScalarOp::div);
    if (of_row == nullptr || !is_mean(*of_row)) return std::nullopt;
    const RegId mean = of_row->dst;
    std::erase_if(first_.after, [&](const Stmt& stmt) { return std::get_if<ir::Let>(&stmt.v) == of_row; });
    return mean;
  }

  // The elements of the tuple are those of the first reduction, then `others`.
  void join(ir::Combiner combiner, std::vector<RegId> dst, const std::vector<double>& others) {
    ir::Reduce joint = *a_;
    joint.combiner = combiner;
    joint.dst = std::move(dst);
    for (const double value : others) joint.yield.push_back(number(value));
    first_.reductions.clear();
    first_.reductions.push_back({std::move(joint)});
    append(first_.after, std::move(second_.before));
    append(first_.after, std::move(second_.after));
  }

  static const Stmt* find_definition_in(const Block& block, const Operand& value) {
    const auto* reg = std::get_if<RegId>(&value);
    for (const Stmt& stmt : block) {
      const std::vector<RegId> made = defined(stmt);
      if (reg != nullptr && std::find(made.begin(), made.end(), *reg) != made.end()) return &stmt;
    }
    return nullptr;
  }

  static const ir::Let* find_let(const Block& block, const Operand& value, ir::ScalarOp op) {
    const Stmt* stmt = find_definition_in(block, value);
    const auto* let = stmt == nullptr ? nullptr : std::get_if<ir::Let>(&stmt->v);
    return let != nullptr && let->op == op ? let : nullptr;
  }

  // Whether a of the first reduction's body and b of the second one's are computed alike.
  bool are_equal(const Operand& a, const Operand& b) const {
    const Stmt *here = find_definition_in(a_->body, a), *there = find_definition_in(b_->body, b);
    if (here == nullptr || there == nullptr) return here == there && a == b;
    if (const auto* load = std::get_if<ir::Load>(&here->v)) {
      const auto* other = std::get_if<ir::Load>(&there->v);
      return other != nullptr && are_equal(*load, *other);
    }
    const auto *let = std::get_if<ir::Let>(&here->v), *other = std::get_if<ir::Let>(&there->v);
    if (let == nullptr || other == nullptr || let->op != other->op || let->args.size() != other->args.size())
      return false;
    if (!(k_.regs[let->dst] == k_.regs[other->dst])) return false;
    for (size_t i = 0; i < let->args.size(); ++i)
      if (!are_equal(let->args[i], other->args[i])) return false;
    return true;
  }

  bool are_equal(const ir::Load& a, const ir::Load& b) const {
    const auto same = [&](const std::vector<IndexExpr>& x, const std::vector<IndexExpr>& y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](const IndexExpr& d, const IndexExpr& e) { return d == e.substitute(names_); });
    };
    return a.buffer == b.buffer && a.clamp == b.clamp && a.otherwise == b.otherwise && same(a.index, b.index) &&
           same(a.guard, b.guard);
  }

  ir::Kernel& k_;
  RowPart &first_, &second_;
  const ir::Reduce *a_ = nullptr, *b_ = nullptr;
  std::map<ir::SymbolId, IndexExpr> names_;
  int64_t length_ = 0;
};

}  // namespace

void join_reductions(ir::Kernel& kernel, std::vector<RowPart>& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i)
    if (JointReduction(kernel, parts[i], parts[i + 1]).make())
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
}

}  // namespace fusec::compiler
