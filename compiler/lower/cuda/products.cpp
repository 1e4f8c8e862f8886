// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules matrix products of 16-bit floats with what surrounds them.
//
//   y[.., m, n] = f(sum over k of f32(a[.., m, k]) * f32(b[.., n, k]), ...)
//
// A thread block computes a tile of rows m and columns n. It loads its part of a, which other ops may have to make
// first, and of b to shared memory, its warps multiply these by matrix instructions, and their results go through
// shared memory, too: f is then computed along rows, 8 elements at a time. Where k does not fit, it is taken in chunks.
//
// The order of a sum depends on the number of its terms alone: it is that of the matrix instructions. In exact numerics
// partition keeps products and sums apart, so there is nothing to schedule here.

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxLanes = 8;         // elements of an access of 16 bytes
constexpr int kPad = 8;                  // elements behind each row of a tile, so that rows begin in different banks
constexpr int64_t kManyRows = 64;        // of a tile, where there are tiles for half of the multiprocessors
constexpr int64_t kTypicalRows = 12544;  // of a product with many rows: 64 images of 14 x 14 places
constexpr int64_t kMaxColumns = 144;     // of a tile
constexpr int64_t kWarpRows = 32, kWarpColumns = 4;  // of a warp: rows, groups of 8 columns
constexpr int64_t kMaxWarps = 8;                     // of a block
constexpr int64_t kTileBytes = 72 << 10;             // of a block: three of them fit on a multiprocessor
constexpr int64_t kFewTileBytes = 160 << 10;         // of a block, where blocks are few
// Measured on an H100 (13 products of 3,136 to 802,816 rows): sums of up to so many terms are taken at once, longer
// ones in chunks; tiles of more columns and rows are faster in about these proportions, as long as there are some for
// each multiprocessor. Loads ahead of the products, and blocks that compute several tiles, were no faster.
constexpr int64_t kWholeTerms = 256, kChunk = 64;
constexpr double kTileColumns = 24, kTileRows = 8, kBlocks = 1.5;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Iterations of a nest of loops, of which those that run once are left out: they would not count as axes of buffers.
struct Axis {
  LoopTag tag;
  VarId var;
  int64_t extent;
  IndexExpr at() const { return extent > 1 ? IndexExpr::symbol(var) : IndexExpr(0); }
};

class ProductSchedule {
 public:
  ProductSchedule(const Scheduling& s, const PerfectNest& nest) : s_(s), k_(s.kernel), nest_(nest) {}

  bool suits() { return find_parts() && choose_tiles(); }

  Block run() {
    const VarId i = add_var(k_), j = add_var(k_);
    row0_ = IndexExpr::symbol(i) * tiles_.rows, column0_ = IndexExpr::symbol(j) * tiles_.columns;
    const DType dtype = k_.regs[left_].dtype;
    a_ = {add_tile("A", dtype, tiles_.rows, tiles_.chunk + kPad, tiles_.chunk), left_, m_, tiles_.rows, {}};
    b_ = {add_tile("B", dtype, tiles_.columns, tiles_.chunk + kPad, tiles_.chunk), right_, n_, tiles_.columns, {}};
    for (Factor* factor : {&a_, &b_}) factor->walk = walk(factor->rows, tiles_.chunk / in_lanes_, in_lanes_);
    results_ = add_tile("C", DType::f32, tiles_.kept_rows(), tiles_.columns + kPad, tiles_.columns);
    warps_ = {{LoopTag::block, add_var(k_), tiles_.row_warps},
              {LoopTag::block, add_var(k_), tiles_.column_warps},
              {LoopTag::block, add_var(k_), kWarp}};
    rows_of_warp_ = {LoopTag::unroll, add_var(k_), tiles_.rows / tiles_.row_warps / ir::kMmaRows};
    columns_of_warp_ = {LoopTag::unroll, add_var(k_), tiles_.columns / tiles_.column_warps / ir::kMmaColumns};
    ir::IndexShape held;
    for (const Axis& axis : used(warps_)) held.push_back(axis.extent);
    held.insert(held.end(), {rows_of_warp_.extent, columns_of_warp_.extent, ir::kMmaResults});
    sums_ = add_buffer(k_, {"sums", ir::Space::reg, DType::f32, std::move(held), {}, 0, ""});
    Block body;
    for (const BufferId id : {a_.tile, b_.tile, results_, sums_}) body.push_back({ir::Alloc{id}});
    append(body, sum(add_var(k_)));
    body.push_back(finish());
    Block result;
    result.push_back(rebuild_loops(grid(i, j), std::move(body)));
    return result;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // --- the parts of the nest ---------------------------------------------------------------------------------------

  bool find_parts() {
    if (s_.target.sm < ir::kFirstMmaSm || nest_.heads.empty()) return false;
    n_ = nest_.heads.back();
    if (nest_.heads.size() > 1) m_ = nest_.heads[nest_.heads.size() - 2];
    for (const Stmt& stmt : nest_.body) {
      const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
      if (reduce != nullptr && sum_ != nullptr) return false;
      if (reduce != nullptr) sum_ = reduce;
      if (reduce == nullptr && !is_plain(stmt)) return false;
      if (sum_ == nullptr) made_.push_back(stmt);
      if (reduce != nullptr) append(made_, reduce->body);
    }
    return sum_ != nullptr && is_product() && is_of_known_extents();
  }

  bool is_plain(const Stmt& stmt) const {
    if (!ir::nested_blocks(stmt).empty() || std::holds_alternative<ir::Alloc>(stmt.v)) return false;
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    return load == nullptr || (load->clamp == 0 && k_.buffers[load->buffer].space == ir::Space::in);
  }

  const Stmt* definition(const Operand& operand) const {
    const auto* reg = std::get_if<RegId>(&operand);
    for (const Stmt& stmt : made_) {
      const std::vector<RegId> defined = ir::defined(stmt);
      if (reg != nullptr && std::find(defined.begin(), defined.end(), *reg) != defined.end()) return &stmt;
    }
    return nullptr;
  }
  const ir::Let* let_of(const Operand& operand) const {
    const Stmt* stmt = definition(operand);
    return stmt != nullptr ? std::get_if<ir::Let>(&stmt->v) : nullptr;
  }
  // The 16-bit value that the operand of the product converts.
  std::optional<RegId> factor(const Operand& operand) const {
    const ir::Let* cast = let_of(operand);
    if (cast == nullptr || cast->op != ir::ScalarOp::cast) return std::nullopt;
    const auto* from = std::get_if<RegId>(&cast->args[0]);
    if (from == nullptr || !is_16_bit_float(k_.regs[*from].dtype)) return std::nullopt;
    return *from;
  }

  bool is_product() {
    if (sum_->combiner != ir::Combiner::add || sum_->loops.size() != 1 || sum_->yield.size() != 1 ||
        !sum_->guard.empty() || k_.regs[sum_->dst[0]] != ir::RegInfo{DType::f32, 1} ||
        !std::all_of(sum_->body.begin(), sum_->body.end(), [&](const Stmt& stmt) { return is_plain(stmt); }))
      return false;
    term_ = sum_->loops[0];
    const ir::Let* mul = let_of(sum_->yield[0]);
    if (mul == nullptr || mul->op != ir::ScalarOp::mul) return false;
    const auto x = factor(mul->args[0]), y = factor(mul->args[1]);
    if (!x || !y || k_.regs[*x].dtype != k_.regs[*y].dtype) return false;
    left_ = *x, right_ = *y;
    if (uses(left_, n_.var)) std::swap(left_, right_);
    if (uses(left_, n_.var) || (m_ && uses(right_, m_->var))) return false;
    return reads_rows(right_);
  }

  // The statements of the sum's body, and of those before it, on which the register depends, in order.
  Block closure(RegId reg) const {
    std::set<RegId> needed = {reg};
    Block out;
    for (std::size_t i = made_.size(); i-- > 0;) {
      const Stmt& stmt = made_[i];
      const std::vector<RegId> made = ir::defined(stmt);
      if (std::none_of(made.begin(), made.end(), [&](RegId r) { return needed.contains(r); })) continue;
      ir::for_each_operand(stmt, [&](const Operand& operand) {
        if (const auto* r = std::get_if<RegId>(&operand)) needed.insert(*r);
      });
      ir::for_each_index(stmt, [&](const IndexExpr& e) {
        std::set<ir::SymbolId> symbols;
        e.collect_symbols(symbols);
        for (const ir::SymbolId s : symbols)
          if (s.reg()) needed.insert(*s.reg());
      });
      out.insert(out.begin(), stmt);
    }
    return out;
  }
  bool uses(RegId reg, VarId var) const {
    const Block block = closure(reg);
    return std::any_of(block.begin(), block.end(), [&](const Stmt& stmt) { return mentions(stmt, var); });
  }
  // Whether the operand lies in memory with its terms side by side, and is made of nothing else.
  bool reads_rows(RegId reg) const {
    const Block block = closure(reg);
    const auto* load = block.size() == 1 ? std::get_if<ir::Load>(&block[0].v) : nullptr;
    if (load == nullptr || load->index.size() != 1 || !load->guard.empty()) return false;
    const auto affine = affine_in(load->index[0], {term_.var});
    return affine && affine->coefficient(term_.var).is(1) && divisible_by(k_, affine->rest, 2);
  }

  bool is_of_known_extents() {
    const auto terms = known_value(s_, term_.extent), columns = known_value(s_, n_.extent);
    if (!terms || !columns || *terms < 2 || *terms % 2 != 0 || *columns % 2 != 0) return false;
    terms_ = *terms, width_ = *columns;
    in_lanes_ = std::gcd(terms_, kMaxLanes), out_lanes_ = std::gcd(width_, kMaxLanes);
    return true;
  }

  // --- tiles -------------------------------------------------------------------------------------------------------

  struct Tiles {
    int64_t rows = 0, columns = 0, chunk = 0;  // chunk: terms
    int64_t row_warps = 1, column_warps = 1;
    int64_t chunks(int64_t terms) const { return (terms + chunk - 1) / chunk; }
    int64_t threads() const { return row_warps * column_warps * kWarp; }
    int64_t kept_rows() const { return row_warps * ir::kMmaRows; }  // whose results are in shared memory at once
    int64_t shared_bytes() const { return (rows + columns) * (chunk + kPad) * 2 + kept_rows() * (columns + kPad) * 4; }
  };

  // The tiles of so many rows and columns; nullopt: there are none.
  std::optional<Tiles> make_tiles(int64_t rows, int64_t columns, bool whole) const {
    Tiles t{rows, columns, round_up(terms_, ir::kMmaTerms), std::max<int64_t>(1, rows / kWarpRows), 0};
    const int64_t groups = columns / ir::kMmaColumns;
    for (int64_t warps = 1; warps <= kMaxWarps / t.row_warps && t.column_warps == 0; ++warps)
      if (groups % warps == 0 && groups / warps <= kWarpColumns) t.column_warps = warps;
    if (t.column_warps == 0) return std::nullopt;
    // Four warps hide more of what each waits for.
    while (t.row_warps * t.column_warps < 4 && rows / t.row_warps > ir::kMmaRows) t.row_warps *= 2;
    while (t.row_warps * t.column_warps < 4 && groups % (t.column_warps * 2) == 0) t.column_warps *= 2;
    if (!whole && t.chunk > kWholeTerms) t.chunk = kChunk;
    const int64_t most = std::min<int64_t>(whole ? kFewTileBytes : kTileBytes, s_.target.shared_bytes_per_block);
    if (t.shared_bytes() > most) t.chunk = std::min(t.chunk, kChunk);
    if (t.shared_bytes() > most || t.row_warps * t.column_warps < 2) return std::nullopt;
    return t;
  }

  // How much longer the product takes than if it had no more columns than results, in large tiles, for every
  // multiprocessor.
  double cost(const Tiles& t, int64_t rows, int64_t outer) const {
    const int64_t across = (width_ + t.columns - 1) / t.columns;
    const double blocks = static_cast<double>(outer * ((rows + t.rows - 1) / t.rows) * across);
    const double waste = static_cast<double>(across * t.columns) / static_cast<double>(width_);
    return waste * (1 + kTileColumns / static_cast<double>(t.columns)) * (1 + kTileRows / static_cast<double>(t.rows)) *
           std::max(1.0, kBlocks * s_.target.sm_count / blocks);
  }

  bool choose_tiles() {
    IndexExpr count = 1;  // of rows
    for (const LoopHead& head : nest_.heads)
      if (head.var != n_.var) count *= head.extent;
    const int64_t least = kManyRows * std::max<int64_t>(1, s_.target.sm_count / 2 / ((width_ + 127) / 128));
    const bool many = has_many(s_, count, least, true);
    const int64_t all = typical_value(s_, count).value_or(std::max(4 * least, kTypicalRows));
    const int64_t rows = std::max<int64_t>(1, m_ ? typical_value(s_, m_->extent).value_or(all) : 1);
    std::optional<Tiles> best;
    double least_cost = 0;
    const auto consider = [&](int64_t height, int64_t columns) {
      const auto t = make_tiles(height, columns, !many);
      if (!t) return;
      const double own = cost(*t, rows, std::max<int64_t>(1, all / rows));
      if (!best || own < least_cost) best = *t, least_cost = own;
    };
    if (many) {
      for (const int64_t height : {32, 64})
        for (int64_t columns = 8; columns <= kMaxColumns && columns < width_ + 8; columns += 8)
          consider(height, columns);
    } else {
      consider(16, width_ >= 1024 ? 32 : 16);
    }
    if (!best) return false;
    const int64_t height = decide(s_, &ScheduleChoice::tile_rows, static_cast<int>(best->rows)),
                  columns = decide(s_, &ScheduleChoice::tile_columns, static_cast<int>(best->columns));
    const bool fits = height > 0 && height <= 128 && height % ir::kMmaRows == 0 && columns > 0 && columns % 8 == 0;
    tiles_ = fits ? make_tiles(height, columns, !many).value_or(*best) : *best;
    return true;
  }

  int64_t threads() const { return tiles_.threads(); }

  BufferId add_tile(const char* name, DType dtype, int64_t rows, int64_t pitch, int64_t columns) {
    return add_buffer(k_, {name + std::to_string(k_.buffers.size()),
                           ir::Space::shared,
                           dtype,
                           {rows, columns},
                           {},
                           0,
                           "pitch " + std::to_string(pitch)});
  }

  std::vector<LoopHead> grid(VarId i, VarId j) const {
    std::vector<LoopHead> heads;
    for (const LoopHead& head : nest_.heads)
      if (head.var != n_.var && (!m_ || head.var != m_->var)) heads.push_back({LoopTag::grid, head.var, head.extent});
    heads.push_back({LoopTag::grid, i, m_ ? ceildiv(m_->extent, tiles_.rows) : IndexExpr(1)});
    heads.push_back({LoopTag::grid, j, (width_ + tiles_.columns - 1) / tiles_.columns});
    return heads;
  }

  static std::vector<Axis> used(std::vector<Axis> axes) {
    std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
    return axes;
  }
  static Stmt over(const std::vector<Axis>& axes, Block body) {
    std::vector<LoopHead> heads;
    for (const Axis& axis : used(axes)) heads.push_back({axis.tag, axis.var, axis.extent});
    if (heads.empty()) heads.push_back({LoopTag::unroll, axes[0].var, 1});
    return rebuild_loops(heads, std::move(body));
  }

  // --- from memory to tiles ----------------------------------------------------------------------------------------

  // The threads of the block over the accesses of a tile of `rows` rows: threads that follow each other take what lies
  // side by side.
  struct Walk {
    int64_t lanes;
    Axis group, thread, step, turn;
    IndexExpr row() const { return step.at() * group.extent + group.at(); }
    IndexExpr column() const { return (turn.at() * thread.extent + thread.at()) * lanes; }
    std::vector<Axis> axes() const { return {group, thread, step, turn}; }
  };
  Walk walk(int64_t rows, int64_t accesses, int64_t lanes) {
    const int64_t side_by_side = largest_divisor(accesses, std::min(accesses, threads()));
    const int64_t groups = largest_divisor(rows, std::clamp<int64_t>(threads() / side_by_side, 1, rows));
    return {lanes,
            {LoopTag::block, add_var(k_), groups},
            {LoopTag::block, add_var(k_), side_by_side},
            {LoopTag::unroll, add_var(k_), rows / groups},
            {LoopTag::unroll, add_var(k_), accesses / side_by_side}};
  }

  // A factor of the product: `value` for a tile of rows of the loop `along`.
  struct Factor {
    BufferId tile;
    RegId value;
    std::optional<LoopHead> along;
    int64_t rows = 0;
    Walk walk;
  };

  // What makes the access of the factor's walk in the tile that begins at a row and a term.
  Block make(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) {
    const IndexExpr row = f.walk.row(), column = f.walk.column();
    Block work = closure(f.value);
    work.push_back({ir::Store{f.tile, {row, IndexExpr::symbol(term_.var) - term0}, f.value, {}, ir::StoreHint::none}});
    work = clone(k_, work);
    const bool has_tail = terms_ % tiles_.chunk != 0;
    const IndexExpr left = IndexExpr(terms_) - in_lanes_ - term0 - column;  // behind the access
    for (Stmt& stmt : work) {
      ir::Guard guard;
      if (f.along && !divisible_by(k_, f.along->extent, f.rows)) guard.push_back(f.along->extent - 1 - row0 - row);
      if (has_tail) guard.push_back(left);
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
        if (load->guard.empty()) load->otherwise = {k_.buffers[load->buffer].dtype};
        load->guard.insert(load->guard.end(), guard.begin(), guard.end());
      }
      if (auto* store = std::get_if<ir::Store>(&stmt.v); store != nullptr && has_tail) store->guard.push_back(left);
    }
    if (f.along) substitute(work, f.along->var, row0 + row);
    vectorize(k_, work, term_.var, static_cast<int>(in_lanes_), term0 + column);
    if (has_tail) {
      // Zeros behind the last term: whatever stood there could be no number.
      const RegId zero = add_reg(k_, k_.regs[f.value].dtype, static_cast<int>(in_lanes_));
      const Operand none = ir::float_constant(k_.regs[f.value].dtype, 0);
      work.push_back({ir::Let{zero, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), none, none}}});
      work.push_back({ir::Store{f.tile, {row, column + lane()}, zero, {-left - 1}, ir::StoreHint::none}});
    }
    return work;
  }
  Stmt fill(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) {
    return over(f.walk.axes(), make(f, row0, term0));
  }

  // --- the product -------------------------------------------------------------------------------------------------

  // The tile of results, in chunks of terms.
  Block sum(VarId step) {
    const int64_t chunks = tiles_.chunks(terms_);
    const IndexExpr term0 = chunks > 1 ? IndexExpr::symbol(step) * tiles_.chunk : IndexExpr(0);
    Block part, result;
    part.push_back(fill(a_, row0_, term0));
    part.push_back(fill(b_, column0_, term0));
    part.push_back(multiply());
    result.push_back(over_results(clear()));
    if (chunks == 1) return append(result, std::move(part)), result;
    result.push_back(rebuild_loops({{LoopTag::seq, step, chunks}}, std::move(part)));
    return result;
  }

  Stmt multiply() {
    Block step;
    const VarId at = add_var(k_);
    const RegId before = add_reg(k_, DType::f32, ir::kMmaResults), after = add_reg(k_, DType::f32, ir::kMmaResults);
    step.push_back({ir::Load{before, sums_, sums_at(lane()), {}, ir::Constant{DType::f32}, 0}});
    step.push_back({ir::Mma{after,
                            before,
                            a_.tile,
                            b_.tile,
                            {warp_row(), IndexExpr::symbol(at) * ir::kMmaTerms},
                            {warp_column(), IndexExpr::symbol(at) * ir::kMmaTerms},
                            IndexExpr::symbol(warps_.back().var)}});
    step.push_back({ir::Store{sums_, sums_at(lane()), after, {}, ir::StoreHint::none}});
    std::vector<LoopHead> heads;
    for (const Axis& axis : used(warps_)) heads.push_back({axis.tag, axis.var, axis.extent});
    const int64_t steps = tiles_.chunk / ir::kMmaTerms;
    if (steps > 1) heads.push_back({steps <= 8 ? LoopTag::unroll : LoopTag::seq, at, steps});
    if (steps == 1) substitute(step, at, 0);
    for (const Axis& axis : used({rows_of_warp_, columns_of_warp_})) heads.push_back({axis.tag, axis.var, axis.extent});
    return rebuild_loops(heads, std::move(step));
  }

  IndexExpr warp_row() const {
    return warps_[0].at() * (tiles_.rows / tiles_.row_warps) + rows_of_warp_.at() * ir::kMmaRows;
  }
  IndexExpr warp_column() const {
    return warps_[1].at() * (tiles_.columns / tiles_.column_warps) + columns_of_warp_.at() * ir::kMmaColumns;
  }
  std::vector<IndexExpr> sums_at(const IndexExpr& result) const {
    std::vector<IndexExpr> index;
    for (const Axis& axis : used(warps_)) index.push_back(axis.at());
    index.insert(index.end(), {rows_of_warp_.at(), columns_of_warp_.at(), result});
    return index;
  }
  Stmt over_results(Block body) const {
    std::vector<Axis> axes = warps_;
    axes.insert(axes.end(), {rows_of_warp_, columns_of_warp_});
    return over(axes, clone(k_, body));
  }

  Block clear() {
    const RegId zero = add_reg(k_, DType::f32, ir::kMmaResults);
    const Operand none = ir::float_constant(DType::f32, 0);
    Block body;
    body.push_back({ir::Let{zero, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), none, none}}});
    body.push_back({ir::Store{sums_, sums_at(lane()), zero, {}, ir::StoreHint::none}});
    return body;
  }

  // --- from the results to memory ----------------------------------------------------------------------------------

  // Each warp hands on 16 of its rows at a time, so that few results are in shared memory at once.
  Stmt finish() {
    const Axis part = rows_of_warp_;
    Block body;
    std::vector<Axis> axes = warps_;
    axes.push_back(columns_of_warp_);
    body.push_back(over(axes, clone(k_, keep())));
    body.push_back(compute(part.at()));
    if (part.extent == 1) {
      Block one;
      one.push_back(rebuild_loops({{LoopTag::seq, part.var, 1}}, std::move(body)));
      return std::move(one[0]);
    }
    return rebuild_loops({{LoopTag::unroll, part.var, part.extent}}, std::move(body));
  }

  // From the registers of the warps to the tile of results.
  Block keep() {
    const IndexExpr thread = IndexExpr::symbol(warps_.back().var);
    Block body;
    for (const int64_t half : {0, 1}) {
      const RegId pair = add_reg(k_, DType::f32, 2);
      body.push_back({ir::Load{pair, sums_, sums_at(half * 2 + lane()), {}, ir::Constant{DType::f32}, 0}});
      body.push_back({ir::Store{results_,
                                {warps_[0].at() * ir::kMmaRows + floordiv(thread, 4) + half * ir::kMmaRows / 2,
                                 warp_column() + mod(thread, 4) * 2 + lane()},
                                pair,
                                {},
                                ir::StoreHint::none}});
    }
    return body;
  }

  // The rest of the nest, for part `part` of each warp's rows.
  Stmt compute(const IndexExpr& part) {
    const Walk w = walk(tiles_.kept_rows(), tiles_.columns / out_lanes_, out_lanes_);
    const IndexExpr kept = w.row(), column = w.column();
    const IndexExpr row =
        floordiv(kept, ir::kMmaRows) * (tiles_.rows / tiles_.row_warps) + part * ir::kMmaRows + mod(kept, ir::kMmaRows);
    Block work;
    const RegId sum = sum_->dst[0];
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v)) {
        work.push_back(
            {ir::Load{sum, results_, {kept, IndexExpr::symbol(n_.var) - column0_}, {}, ir::Constant{DType::f32}, 0}});
      } else {
        work.push_back(stmt);
      }
    }
    work = clone(k_, work);
    ir::Guard guard;
    const IndexExpr rows = m_ ? m_->extent : IndexExpr(1);
    if (!divisible_by(k_, rows, tiles_.rows)) guard.push_back(rows - 1 - row0_ - row);
    if (width_ % tiles_.columns != 0) guard.push_back(IndexExpr(width_) - out_lanes_ - column0_ - column);
    for (Stmt& stmt : work) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->buffer != results_) {
        if (load->guard.empty()) load->otherwise = {k_.buffers[load->buffer].dtype};
        load->guard.insert(load->guard.end(), guard.begin(), guard.end());
      }
      if (auto* store = std::get_if<ir::Store>(&stmt.v))
        store->guard.insert(store->guard.end(), guard.begin(), guard.end());
    }
    if (m_) substitute(work, m_->var, row0_ + row);
    vectorize(k_, work, n_.var, static_cast<int>(out_lanes_), column0_ + column);
    return over(w.axes(), std::move(work));
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  const ir::Reduce* sum_ = nullptr;
  Block made_;  // the statements that make the factors
  LoopHead n_, term_;
  std::optional<LoopHead> m_;
  RegId left_, right_;  // the factors: of rows and of columns
  int64_t terms_ = 0, width_ = 0, in_lanes_ = 1, out_lanes_ = 1;
  Tiles tiles_;
  IndexExpr row0_, column0_;  // where the tile begins
  Factor a_, b_;
  BufferId results_, sums_;
  std::vector<Axis> warps_;
  Axis rows_of_warp_{}, columns_of_warp_{};
};

}  // namespace

std::optional<Block> cuda_product(const Scheduling& s, const PerfectNest& nest) {
  ProductSchedule product(s, nest);
  if (!product.suits()) return std::nullopt;
  return product.run();
}

}  // namespace fusec::compiler
