// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: the threads of a row hold as many accesses each, so some of them lie past the end. A reduction would
// test each one. Where loads give the right value there, such as -infinity for a maximum, what it combines changes
// nothing: max(x, -inf), x + 0, and x + exp(-inf - maximum) are x.
// The last block of rows may have fewer rows than the others: accesses to those it lacks are guarded.

#include <algorithm>
#include <limits>

#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/ops/reference.h"

namespace fusec::compiler {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// With what the combiner gives the other operand.
std::optional<double> neutral_of(const ir::Kernel& kernel, const ir::Reduce& reduce) {
  if (reduce.dst.size() != 1 || !is_float(kernel.regs[reduce.dst[0]].dtype)) return std::nullopt;
  switch (reduce.combiner) {
    case ir::Combiner::add:
      return 0;
    case ir::Combiner::max:
      return -kUnbounded;
    case ir::Combiner::min:
      return kUnbounded;
    default:
      return std::nullopt;
  }
}

const Stmt* find_maker(const Block& block, RegId reg) {
  for (const Stmt& stmt : block)
    for (const RegId made : defined(stmt))
      if (made == reg) return &stmt;
  return nullptr;
}

// Whether the load does not happen past the end of the row.
bool is_cut(const ir::Load& load, const ir::Guard& inside) {
  return std::all_of(inside.begin(), inside.end(), [&](const IndexExpr& g) {
    return std::find(load.guard.begin(), load.guard.end(), g) != load.guard.end();
  });
}

}  // namespace

void RowPadding::note(const Block& body) {
  for (const Stmt& stmt : body)
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) values_.try_emplace(load->buffer, load->otherwise.f);
}

std::optional<double> RowPadding::value_of(const Block& body, const ir::Guard& inside, const Operand& operand) const {
  if (const auto* constant = std::get_if<ir::Constant>(&operand)) return constant->f;
  const Stmt* stmt = find_maker(body, std::get<RegId>(operand));
  if (stmt == nullptr) return std::nullopt;
  if (const auto* load = std::get_if<ir::Load>(&stmt->v))
    return is_cut(*load, inside) ? std::optional(load->otherwise.f) : std::nullopt;
  const auto* let = std::get_if<ir::Let>(&stmt->v);
  if (let == nullptr || !is_float(kernel_.regs[let->dst].dtype)) return std::nullopt;
  std::vector<double> args;
  for (const Operand& arg : let->args) {
    const std::optional<double> value = value_of(body, inside, arg);
    const auto* reg = std::get_if<RegId>(&arg);
    const bool takes_most = let->op == ir::ScalarOp::sub && args.size() == 1 && args[0] == -kUnbounded &&
                            reg != nullptr && most_.contains(*reg);
    if (takes_most) return -kUnbounded;  // or NaN, as the whole row is then
    if (!value || (!is_float(dtype_of(kernel_, arg)))) return std::nullopt;
    args.push_back(*value);
  }
  args.resize(3);
  return ir::eval_scalar(let->op, args[0], args[1], args[2]);
}

bool RowPadding::fill(const ir::Reduce& whole, ir::Reduce& own) {
  const std::optional<double> wanted = own.guard.empty() ? std::nullopt : neutral_of(kernel_, whole);
  for (Stmt& stmt : own.body) {
    auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || !is_float(kernel_.buffers[load->buffer].dtype)) continue;
    const double value = values_.try_emplace(load->buffer, wanted.value_or(load->otherwise.f)).first->second;
    if (load->guard == own.guard) load->otherwise = {kernel_.buffers[load->buffer].dtype, value};
  }
  if (!wanted) return false;
  const bool is_neutral = value_of(own.body, own.guard, own.yield[0]) == *wanted;
  if (is_neutral && whole.combiner == ir::Combiner::max) most_.insert(whole.dst[0]);
  return is_neutral;
}

namespace {

// False for what all rows load, such as weights: it can be loaded where there is no row.
bool moves_with_rows(const Stmt& stmt, const std::set<ir::SymbolId>& rows) {
  std::set<ir::SymbolId> symbols;
  for_each_index(stmt, [&](const IndexExpr& d) { d.collect_symbols(symbols); });
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](ir::SymbolId s) { return rows.contains(s) || s.reg().has_value(); });
}

}  // namespace

void guard_rows(ir::Kernel& kernel, Block& row, const IndexExpr& condition, const std::set<ir::SymbolId>& rows) {
  for_each_stmt(row, [&](Stmt& stmt) {
    if (std::holds_alternative<ir::Load>(stmt.v) && !moves_with_rows(stmt, rows)) return;
    const auto add = [&](auto& a) {
      const ir::Space space = kernel.buffers[a.buffer].space;
      if (space == ir::Space::in || space == ir::Space::out) a.guard.push_back(condition);
    };
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
      load->otherwise.dtype = kernel.buffers[load->buffer].dtype;
      add(*load);
    }
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) add(*store);
  });
}

}  // namespace fusec::compiler
