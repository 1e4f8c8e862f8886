// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules short rows in groups. What is one value for each row is computed for all rows of a
// group at once, lane k for row k; loops along rows run row by row. The lanes of the rows' reductions are transposed in
// registers and combined as vectors, in the order in which the lanes of one row are combined, so that the bits equal
// those of rows scheduled alone.

#include <algorithm>
#include <map>
#include <set>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

namespace {

constexpr int kGroup = 16;  // rows
// Fewer rows are better scheduled as tasks of their own.
constexpr int64_t kMinGroupedRows = 1024;
// In longer rows, what is done once for each row matters little. Where a row is read only once, that is less.
constexpr int64_t kShortRow = 128, kShortSum = 64;

bool is_short(const std::vector<LoopHead>& loops) {
  return loops.size() == 1 && loops[0].extent.is_const() && loops[0].extent.value() <= kShortRow;
}

class RowGroups {
 public:
  RowGroups(const Scheduling& s, PerfectNest& nest) : s_(s), nest_(nest), row_(nest.heads.back()) {}

  bool suits() const {
    int reductions = 0;
    for (const Stmt& stmt : nest_.body) {
      const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
      const auto* loop = std::get_if<ir::Loop>(&stmt.v);
      if (std::holds_alternative<ir::Scan>(stmt.v)) return false;
      if (reduce != nullptr && !is_short(*reduce)) return false;
      if (loop != nullptr && !is_short_loop(*loop)) return false;
      reductions += reduce != nullptr;
    }
    return reductions > 0 && has_many_rows() && !reads_by_data() && (reads_again() || is_short_sum());
  }

  Block run() {
    const VarId group = add_var(s_.kernel);
    base_ = IndexExpr(kGroup) * IndexExpr::symbol(group);
    if (!divisible_by(s_.kernel, row_.extent, kGroup)) {
      rows_ = min(kGroup, row_.extent - base_);
      guard_ = {row_.extent - 1 - base_ - IndexExpr::symbol(ir::kLane)};
    }
    nest_.heads.back() = {LoopTag::grid, group, ceildiv(row_.extent, kGroup)};
    find_values_of_phases();
    for (Stmt& stmt : nest_.body) add(std::move(stmt));
    flush();
    Block result;
    result.push_back(rebuild_loops(nest_.heads, std::move(out_)));
    return result;
  }

 private:
  bool is_short(const ir::Reduce& reduce) const {
    return tuple_size(reduce.combiner) == 1 && reduce.guard.empty() && compiler::is_short(reduce.loops) &&
           s_.kernel.regs[reduce.dst[0]].dtype == DType::f32;
  }

  static bool is_short_loop(const ir::Loop& loop) {
    const std::vector<LoopHead> heads(1, loop.head);
    return compiler::is_short(heads) && std::none_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) {
             return std::holds_alternative<ir::Loop>(stmt.v) || std::holds_alternative<ir::Reduce>(stmt.v);
           });
  }

  bool reads_again() const {
    return std::count_if(nest_.body.begin(), nest_.body.end(), [](const Stmt& stmt) {
             return std::holds_alternative<ir::Reduce>(stmt.v) || std::holds_alternative<ir::Loop>(stmt.v);
           }) > 1;
  }

  bool is_short_sum() const {
    return std::all_of(nest_.body.begin(), nest_.body.end(), [](const Stmt& stmt) {
      const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
      return reduce == nullptr || reduce->loops[0].extent.value() <= kShortSum;
    });
  }

  bool has_many_rows() const {
    IndexExpr rows(1);
    for (const LoopHead& head : nest_.heads) rows *= head.extent;
    const auto own = row_.extent.eval(s_.expected_values), all = rows.eval(s_.expected_values);
    return own.value_or(kGroup) >= kGroup && all.value_or(kMinGroupedRows) >= kMinGroupedRows;
  }

  // Whether an index comes from data: registers of single rows are not renamed in indices.
  bool reads_by_data() const {
    bool found = false;
    for_each_stmt(nest_.body, [&](const Stmt& stmt) {
      for_each_index(stmt, [&](const IndexExpr& e) {
        std::set<ir::SymbolId> symbols;
        e.collect_symbols(symbols);
        for (const ir::SymbolId symbol : symbols) found = found || symbol.reg().has_value();
      });
    });
    return found;
  }

  // The registers that loops along a row use.
  void find_values_of_phases() {
    const auto note = [&](const Stmt& stmt) {
      for_each_operand(stmt, [&](const Operand& operand) {
        if (const auto* reg = std::get_if<RegId>(&operand)) used_.insert(*reg);
      });
    };
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v)) note(stmt);
      for (const Block* block : nested_blocks(stmt)) for_each_stmt(*block, note);
    }
  }

  void add(Stmt stmt) {
    if (auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) {
      ir::IndexShape& shape = s_.kernel.buffers[alloc->buffer].shape;
      shape.insert(shape.begin(), kGroup);
      kept_.insert(alloc->buffer);
      out_.push_back(std::move(stmt));
    } else if (auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      flush();
      add_reduce(std::move(*reduce));
    } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
      flush();
      Block body;
      body.push_back(std::move(stmt));
      Block row = values_of_row(body);
      vectorize_loops(s_, std::move(body[0]), row);
      for_each_row(std::move(row));
    } else {
      const std::vector<RegId> made = defined(stmt);
      between_.push_back(std::move(stmt));
      for (const RegId reg : made)
        if (used_.contains(reg)) keep(reg);
    }
  }

  // Stores a value of each row where loops along one row find it.
  void keep(RegId reg) {
    const BufferId buffer = new_buffer("rows", s_.kernel.regs[reg].dtype, {kGroup});
    values_[reg] = buffer;
    between_.push_back({ir::Store{buffer, {IndexExpr::symbol(row_.var) - base_}, reg, {}, ir::StoreHint::none}});
  }

  void flush() {
    vectorize(s_.kernel, between_, row_.var, kGroup, base_);
    if (!guard_.empty()) add_guard(s_.kernel, between_, guard_);
    append(out_, std::move(between_));
    between_.clear();
  }

  BufferId new_buffer(const std::string& name, DType dtype, ir::IndexShape shape) {
    const std::string unique = name + std::to_string(s_.kernel.buffers.size());
    const BufferId id = add_buffer(s_.kernel, {unique, ir::Space::reg, dtype, std::move(shape), {}, 0, ""});
    out_.push_back({ir::Alloc{id}});
    return id;
  }

  // Gives the loops of one row the values of that row, and its part of the buffers. Returns the loads of these values.
  Block values_of_row(Block& body) {
    if (!at_.valid()) at_ = add_var(s_.kernel);
    Block loads;
    std::map<RegId, RegId> own;
    for_each_stmt(body, [&](Stmt& stmt) {
      for_each_operand(stmt, [&](Operand& operand) {
        auto* reg = std::get_if<RegId>(&operand);
        const auto value = reg == nullptr ? values_.end() : values_.find(*reg);
        if (value == values_.end()) return;
        if (!own.contains(*reg)) {
          const DType dtype = s_.kernel.buffers[value->second].dtype;
          own[*reg] = add_reg(s_.kernel, dtype);
          loads.push_back({ir::Load{own[*reg], value->second, {IndexExpr::symbol(at_)}, {}, ir::Constant{dtype}, 0}});
        }
        *reg = own[*reg];
      });
      auto* load = std::get_if<ir::Load>(&stmt.v);
      auto* store = std::get_if<ir::Store>(&stmt.v);
      if (load != nullptr && kept_.contains(load->buffer))
        load->index.insert(load->index.begin(), IndexExpr::symbol(at_));
      if (store != nullptr && kept_.contains(store->buffer))
        store->index.insert(store->index.begin(), IndexExpr::symbol(at_));
    });
    return loads;
  }

  void for_each_row(Block row) {
    const VarId u = add_var(s_.kernel);
    substitute(row, at_, IndexExpr::symbol(u));
    substitute(row, row_.var, base_ + IndexExpr::symbol(u));
    out_.push_back({ir::Loop{{LoopTag::seq, u, rows_}, std::move(row), ir::PhaseBoundary::launches}});
  }

  RegId vector() { return add_reg(s_.kernel, DType::f32, kGroup); }

  void add_reduce(ir::Reduce reduce) {
    const RegId result = reduce.dst[0];
    const ir::ScalarOp op = combining_op(reduce.combiner);
    Block body;
    body.push_back({std::move(reduce)});
    Block row = values_of_row(body);
    ir::Reduce own = std::get<ir::Reduce>(std::move(body[0].v));
    own.dst = {add_reg(s_.kernel, DType::f32)};
    const BufferId lanes = accumulate_row(s_.kernel, std::move(own), row);
    // Each kGroup lanes of all rows are a square.
    const int64_t squares = s_.kernel.buffers[lanes].shape[0].value() / kGroup;
    std::vector<BufferId> tiles;
    for (int64_t k = 0; k < squares; ++k) {
      tiles.push_back(new_buffer("lanes", DType::f32, {kGroup, kGroup}));
      const RegId v = vector();
      const IndexExpr lane = IndexExpr::symbol(ir::kLane);
      row.push_back({ir::Load{v, lanes, {lane + kGroup * k}, {}, ir::Constant{DType::f32}, 0}});
      row.push_back({ir::Store{tiles.back(), {IndexExpr::symbol(at_), lane}, v, {}, ir::StoreHint::none}});
    }
    for_each_row(std::move(row));
    std::vector<RegId> parts;
    for (const BufferId tile : tiles) parts.push_back(combined(tile, op));
    const RegId all = in_pairs(parts, op);
    values_[result] = new_buffer("results", DType::f32, {kGroup});
    out_.push_back({ir::Store{values_[result], {IndexExpr::symbol(ir::kLane)}, all, {}, ir::StoreHint::none}});
    between_.push_back(
        {ir::Load{result, values_[result], {IndexExpr::symbol(row_.var) - base_}, {}, ir::Constant{DType::f32}, 0}});
  }

  // The combination of the columns of a square.
  RegId combined(BufferId tile, ir::ScalarOp op) {
    const BufferId transposed = new_buffer("transposed", DType::f32, {kGroup, kGroup});
    out_.push_back({ir::TransposeTile{transposed, tile}});
    std::vector<RegId> parts;
    for (int64_t k = 0; k < kGroup; ++k) {
      parts.push_back(vector());
      out_.push_back({ir::Load{
          parts.back(), transposed, {IndexExpr(k), IndexExpr::symbol(ir::kLane)}, {}, ir::Constant{DType::f32}, 0}});
    }
    return in_pairs(std::move(parts), op);
  }

  RegId in_pairs(std::vector<RegId> parts, ir::ScalarOp op) {
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      for (size_t k = 0; k < parts.size() / 2; ++k) {
        const RegId pair = vector();
        out_.push_back({ir::Let{pair, op, {parts[2 * k], parts[2 * k + 1]}}});
        parts[k] = pair;
      }
    }
    return parts[0];
  }

  const Scheduling& s_;
  PerfectNest& nest_;
  LoopHead row_;
  IndexExpr base_;                    // the first row of a group
  IndexExpr rows_ = kGroup;           // of a group
  ir::Guard guard_;                   // of the lanes that are rows
  VarId at_;                          // the row of a group, in the code of one row
  std::set<RegId> used_;              // by loops along a row
  std::map<RegId, BufferId> values_;  // one element per row
  std::set<BufferId> kept_;           // rows of values between phases
  Block between_, out_;
};

}  // namespace

std::optional<Block> schedule_row_groups(const Scheduling& s, PerfectNest& nest) {
  if (nest.heads.empty()) return std::nullopt;
  RowGroups groups(s, nest);
  if (!groups.suits()) return std::nullopt;
  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  return groups.run();
}

}  // namespace fusec::compiler
