// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules attentions in one kernel, whose scores stay on the chip.
//
//   y[.., s, e] = sum over t of softmax over t of (q[.., s, :] k[.., t, :] * scale + mask[.., s, t]) * v[.., t, e]
//
// A thread block has a tile of queries of one head and walks over blocks of keys. Of each row of its tile it keeps the
// greatest score m so far, the sum l of exp(score - m), and the sums of values that these weight. A block of keys with
// a greater score m' scales l and the sums by exp(m - m'). At the end the sums are divided by l.
//
// f32 is multiplied by a fused multiplication and addition for each product, 16 bits by matrix instructions. Weights
// pass from one product to the other through shared memory.
//
// The order of all sums depends on the types and the channels alone. docs/decisions/038-own-attention.md

#include <algorithm>
#include <limits>

#include "compiler/lower/cuda/attention_parts.h"
#include "compiler/lower/cuda/product_tiles.h"
#include "compiler/lower/cuda/tile_walk.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {
namespace {

using ir::ScalarOp;

constexpr double kLog2E = 1.4426950408889634;
constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int64_t kMaxKeys = 64;     // of a block of keys
constexpr int64_t kFewestRows = 32;  // of a tile
constexpr int64_t kRowThreads = 16;  // in a row of scalar arithmetic
constexpr int64_t kRowPad = 4;       // f32 elements behind each row of a tile
constexpr int64_t kTermLanes = 4;    // terms that a thread reads at once
constexpr int64_t kQuad = 4;         // threads in a row of a matrix instruction's results
constexpr int64_t kManyValues = 64;

class AttentionSchedule {
 public:
  AttentionSchedule(const Scheduling& s, const PerfectNest& nest) : s_(s), k_(s.kernel), nest_(nest) {}

  bool suits() {
    put_extents(nest_, known_extents(s_));
    auto parts = find_attention_parts(nest_);
    if (!parts || !parts->query.channel.extent.is_const() || !parts->value.channel.extent.is_const()) return false;
    p_ = *std::move(parts);
    channels_ = p_.query.channel.extent.value(), values_ = p_.value.channel.extent.value();
    dtype_ = DType::f32;
    const auto q = p_.query.narrow(k_), k = p_.key.narrow(k_), v = p_.value.narrow(k_);
    if (q && k && v && s_.target.sm >= ir::kFirstMmaSm) {
      p_.query = *q, p_.key = *k, p_.value = *v;
      dtype_ = k_.regs[q->value].dtype;
    }
    return true;
  }

  Block run() {
    put_extents(k_, known_extents(s_));
    choose_threads();
    const VarId tile = add_var(k_), step = add_var(k_);
    const IndexExpr tiles = ceildiv(p_.query.position.extent, rows_);
    // Later queries of a causal attention take more keys, so they come first. That tiles store different rows is proven
    // where their number is known.
    const IndexExpr number = IndexExpr::symbol(tile);
    row0_ = (p_.is_causal() && tiles.is_const() ? tiles - 1 - number : number) * rows_;
    key0_ = IndexExpr::symbol(step) * block_keys_;
    make_buffers();
    Block body, part;
    for (const BufferId id :
         {query_tile_, key_tile_, value_tile_, weights_, scores_, sums_, greatest_, totals_, row_terms_, column_terms_})
      if (id.valid()) body.push_back({ir::Alloc{id}});
    body.push_back(fill(p_.query, query_tile_, rows_, row0_));
    body.push_back(clear());
    part.push_back(fill(p_.key, key_tile_, block_keys_, key0_));
    part.push_back(is_matrix() ? fill_transposed() : fill(p_.value, value_tile_, block_keys_, key0_));
    part.push_back(is_matrix() ? multiply_matrices(scores_, query_tile_, key_tile_, own_keys_, padded_channels(), true)
                               : multiply_keys());
    if (auto finished = finish_scores()) part.push_back(std::move(*finished));
    part.push_back(weigh());
    part.push_back(hand_on_weights());
    part.push_back(is_matrix() ? multiply_matrices(sums_, weights_, value_tile_, own_channels_, block_keys_, false)
                               : multiply_values());
    body.push_back(rebuild_loops({{LoopTag::seq, step, key_blocks()}}, std::move(part)));
    body.push_back(finish());
    std::vector<LoopHead> grid = p_.outer;
    for (LoopHead& head : grid) head.tag = LoopTag::grid;
    grid.push_back({LoopTag::grid, tile, tiles});
    Block result;
    result.push_back(rebuild_loops(grid, std::move(body)));
    return result;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }
  static Operand number(double value) { return ir::float_constant(DType::f32, value); }
  bool is_matrix() const { return dtype_ != DType::f32; }
  const IndexExpr& keys() const { return p_.key.position.extent; }

  // --- tiles and threads -------------------------------------------------------------------------------------------

  int64_t padded_channels() const { return round_up(channels_, is_matrix() ? ir::kMmaTerms : kTermLanes); }
  int64_t padded_values() const { return own_channels_.extent * thread_columns() * channel_lanes_; }
  // The threads that share a row.
  int64_t thread_columns() const { return is_matrix() ? kQuad : kRowThreads; }

  // The rows of a tile: as many as leave a tile for each multiprocessor. `heights` rise.
  int64_t choose_rows(std::initializer_list<int64_t> heights) const {
    IndexExpr heads = 1;
    for (const LoopHead& head : p_.outer) heads *= head.extent;
    const IndexExpr& queries = p_.query.position.extent;
    int64_t rows = *heights.begin(), most = rows;
    for (const int64_t height : heights)
      if (fits(height)) most = height;
    if (typical_value(s_, heads * queries)) {
      for (const int64_t height : heights)
        if (height <= most && *typical_value(s_, heads * ceildiv(queries, height)) >= s_.target.sm_count) rows = height;
    } else if (has_many(s_, heads * queries, most * s_.target.sm_count, true)) {
      rows = most;
    }
    const int64_t asked = decide(s_, &ScheduleChoice::tile_rows, static_cast<int>(rows));
    const bool is_height = std::find(heights.begin(), heights.end(), asked) != heights.end();
    return is_height && asked <= most ? asked : rows;
  }

  // Whether tiles of so many rows fit in the shared memory of a block.
  bool fits(int64_t rows) const {
    const int64_t pad = row_pad(), keys = block_keys_;
    const int64_t values =
        is_matrix() ? round_up(values_, ir::kMmaColumns) * (keys + pad) : round_up(values_, kRowThreads) * keys;
    const int64_t elements = (rows + keys) * (padded_channels() + pad) + rows * (keys + pad) + values;
    return elements * static_cast<int64_t>(size_of(dtype_)) <= s_.target.shared_bytes_per_block;
  }
  int64_t row_pad() const { return is_matrix() ? kTilePad : kRowPad; }

  void choose_threads() {
    const auto block = [&](int64_t extent) { return TileAxis{LoopTag::block, add_var(k_), extent}; };
    const auto own = [&](int64_t extent) { return TileAxis{LoopTag::unroll, add_var(k_), extent}; };
    while (block_keys_ > kRowThreads && !fits(kFewestRows)) block_keys_ /= 2;
    if (is_matrix()) {
      rows_ = values_ > kManyValues ? choose_rows({64}) : choose_rows({64, 128});  // as many as registers hold
      const int64_t warps = 4;
      row_threads_ = {block(warps), block(ir::kMmaRows / 2)};
      in_row_ = block(kQuad);
      own_rows_ = own(rows_ / warps / ir::kMmaRows), half_ = own(2);
      key_lanes_ = channel_lanes_ = 2;
      own_keys_ = own(block_keys_ / ir::kMmaColumns);
      own_channels_ = own(round_up(values_, ir::kMmaColumns) / ir::kMmaColumns);
      row_ = warp_row() + row_threads_[1].at() + half_.at() * (ir::kMmaRows / 2);
      first_key_ = own_keys_.at() * ir::kMmaColumns + in_row_.at() * 2;
      first_channel_ = own_channels_.at() * ir::kMmaColumns + in_row_.at() * 2;
      return;
    }
    rows_ = values_ > kManyValues ? choose_rows({kFewestRows, 64}) : choose_rows({kFewestRows, 64, 128});
    const int64_t thread_rows = rows_ == 32 ? 8 : 16;
    row_threads_ = {block(thread_rows)};
    in_row_ = block(kRowThreads);
    own_rows_ = own(rows_ / thread_rows), half_ = own(1);
    key_lanes_ = 1, channel_lanes_ = kTermLanes;
    own_keys_ = own(block_keys_ / kRowThreads);
    // Wide accesses where they compute no more columns.
    const int64_t columns = round_up(values_, kRowThreads);
    while (columns % (kRowThreads * channel_lanes_) != 0 || values_ % channel_lanes_ != 0) channel_lanes_ /= 2;
    own_channels_ = own(columns / kRowThreads / channel_lanes_);
    row_ = own_rows_.at() * thread_rows + row_threads_[0].at();
    first_key_ = own_keys_.at() * kRowThreads + in_row_.at();
    first_channel_ = (own_channels_.at() * kRowThreads + in_row_.at()) * channel_lanes_;
  }
  IndexExpr warp_row() const { return (row_threads_[0].at() * own_rows_.extent + own_rows_.at()) * ir::kMmaRows; }

  std::vector<TileAxis> all_threads() const {
    std::vector<TileAxis> axes = row_threads_;
    axes.push_back(in_row_);
    return axes;
  }
  int64_t count_threads() const {
    int64_t all = in_row_.extent;
    for (const TileAxis& axis : row_threads_) all *= axis.extent;
    return all;
  }
  std::vector<IndexExpr> of_thread(std::initializer_list<IndexExpr> rest) const {
    std::vector<IndexExpr> index;
    for (const TileAxis& axis : used_axes(all_threads())) index.push_back(axis.at());
    index.insert(index.end(), rest);
    return index;
  }
  std::vector<IndexExpr> score_at(const IndexExpr& at) const {
    return of_thread({own_rows_.at(), own_keys_.at(), half_.at() * key_lanes_ + at});
  }
  std::vector<IndexExpr> sum_at(const IndexExpr& at) const {
    return of_thread({own_rows_.at(), own_channels_.at(), half_.at() * channel_lanes_ + at});
  }
  std::vector<IndexExpr> state_at() const { return of_thread({own_rows_.at(), half_.at()}); }
  Stmt over_threads(const std::vector<TileAxis>& inner, Block body) const {
    std::vector<TileAxis> axes = all_threads();
    axes.insert(axes.end(), inner.begin(), inner.end());
    return loop_over(axes, std::move(body));
  }

  void make_buffers() {
    const int64_t pad = row_pad(), channels = padded_channels(), values = padded_values();
    query_tile_ = add_tile(k_, "Q", dtype_, rows_, channels + pad, channels);
    key_tile_ = add_tile(k_, "K", dtype_, block_keys_, channels + pad, channels);
    value_tile_ = is_matrix() ? add_tile(k_, "V", dtype_, values, block_keys_ + pad, block_keys_)
                              : add_tile(k_, "V", dtype_, block_keys_, values, values);
    weights_ = add_tile(k_, "P", dtype_, rows_, block_keys_ + pad, block_keys_);
    scores_ = add_registers("scores", {own_rows_.extent, own_keys_.extent, half_.extent * key_lanes_});
    sums_ = add_registers("sums", {own_rows_.extent, own_channels_.extent, half_.extent * channel_lanes_});
    greatest_ = add_registers("greatest", {own_rows_.extent, half_.extent});
    totals_ = add_registers("totals", {own_rows_.extent, half_.extent});
    if (is_matrix()) return;
    row_terms_ = add_registers("row_terms", {own_rows_.extent, kTermLanes});
    column_terms_ = add_registers("column_terms", {std::max(kTermLanes, own_channels_.extent * channel_lanes_)});
  }
  BufferId add_registers(const char* name, std::initializer_list<IndexExpr> own) {
    ir::IndexShape shape;
    for (const TileAxis& axis : used_axes(all_threads())) shape.push_back(axis.extent);
    shape.insert(shape.end(), own);
    return add_buffer(k_, {name, ir::Space::reg, DType::f32, std::move(shape), {}, 0, ""});
  }

  // --- statements --------------------------------------------------------------------------------------------------

  RegId load(Block& to, BufferId from, std::vector<IndexExpr> index, int64_t width = 1) {
    const RegId value = add_reg(k_, k_.buffers[from].dtype, static_cast<int>(width));
    to.push_back({ir::Load{value, from, std::move(index), {}, ir::Constant{k_.buffers[from].dtype}, 0}});
    return value;
  }
  static void keep(Block& to, BufferId buffer, std::vector<IndexExpr> index, const Operand& value) {
    to.push_back({ir::Store{buffer, std::move(index), value, {}, ir::StoreHint::none}});
  }
  RegId let(Block& to, ScalarOp op, std::vector<Operand> args, int64_t width = 1, DType dtype = DType::f32) {
    const RegId value = add_reg(k_, dtype, static_cast<int>(width));
    to.push_back({ir::Let{value, op, std::move(args)}});
    return value;
  }

  // --- from memory to tiles ----------------------------------------------------------------------------------------

  // Whether the operand's channels lie side by side, so that an access takes whole runs of them.
  static bool is_contiguous(const AttentionOperand& o) {
    return std::all_of(o.work.begin(), o.work.end(), [&](const Stmt& stmt) {
      const auto* from = std::get_if<ir::Load>(&stmt.v);
      if (from == nullptr) return true;
      const auto affine = affine_in(from->index.back(), {o.channel.var});
      return from->index.size() == 1 && affine && affine->coefficient(o.channel.var).is(1);
    });
  }

  // The rows of a tile are positions from `first` on; zeros lie behind the last position and channel.
  Stmt fill(const AttentionOperand& o, BufferId tile, int64_t positions, const IndexExpr& first) {
    const int64_t channels = o.channel.extent.value(), columns = k_.buffers[tile].shape[1].value();
    int64_t lanes = is_contiguous(o) ? kAccessBytes / static_cast<int64_t>(size_of(narrowest(o))) : 1;
    while (channels % lanes != 0) lanes /= 2;
    const TileWalk walk = make_walk(k_, count_threads(), positions, columns / lanes, lanes, false);
    Block work = o.work;
    RegId value = o.value;
    if (tile == query_tile_ && scales_queries()) value = let(work, ScalarOp::mul, {value, number(factor())});
    keep(work, tile, {walk.row(), IndexExpr::symbol(o.channel.var)}, value);
    work = clone(k_, work);
    ir::Guard guard;
    if (!divisible_by(k_, o.position.extent, positions)) guard.push_back(o.position.extent - 1 - first - walk.row());
    if (columns != channels) guard.push_back(IndexExpr(channels) - lanes - walk.column());
    for (Stmt& stmt : work)
      if (auto* from = std::get_if<ir::Load>(&stmt.v)) guard_load(k_, *from, guard);
    substitute(work, o.position.var, first + walk.row());
    vectorize(k_, work, o.channel.var, static_cast<int>(lanes), walk.column());
    return loop_over(walk.axes(), std::move(work));
  }
  DType narrowest(const AttentionOperand& o) const {
    DType dtype = DType::f32;
    for (const Stmt& stmt : o.work)
      if (const auto* from = std::get_if<ir::Load>(&stmt.v)) dtype = k_.buffers[from->buffer].dtype;
    return dtype;
  }

  // The values of the block of keys, whose rows are channels: matrix instructions read terms that lie side by side.
  Stmt fill_transposed() {
    const AttentionOperand& o = p_.value;
    const int64_t lanes = kAccessBytes / static_cast<int64_t>(size_of(dtype_));
    const TileWalk walk = make_walk(k_, count_threads(), padded_values(), block_keys_ / lanes, lanes, true);
    Block work = o.work;
    keep(work, value_tile_, {walk.row(), IndexExpr::symbol(o.position.var) - key0_}, o.value);
    work = clone(k_, work);
    ir::Guard guard;
    if (!divisible_by(k_, keys(), block_keys_)) guard.push_back(keys() - 1 - IndexExpr::symbol(o.position.var));
    if (padded_values() != values_) guard.push_back(IndexExpr(values_ - 1) - walk.row());
    for (Stmt& stmt : work)
      if (auto* from = std::get_if<ir::Load>(&stmt.v)) guard_load(k_, *from, guard);
    substitute(work, o.channel.var, walk.row());
    vectorize(k_, work, o.position.var, static_cast<int>(lanes), key0_ + walk.column());
    return loop_over(walk.axes(), std::move(work));
  }

  // --- scores ------------------------------------------------------------------------------------------------------

  // Without a mask, scores are logarithms to base 2, whose factor is in the scale. A mask may have the least number
  // there is, which keeps its meaning.
  double factor() const { return p_.mask.empty() ? p_.scale * kLog2E : p_.scale; }
  // 16-bit queries stay as they are.
  bool scales_queries() const { return !is_matrix() && factor() != 1; }

  // The blocks of keys that the tile takes.
  IndexExpr key_blocks() const {
    const IndexExpr all = ceildiv(keys(), block_keys_);
    if (!p_.is_causal()) return all;
    return min(all, ceildiv(row0_ + rows_ + keys() - p_.query.position.extent, block_keys_));
  }

  Stmt clear() {
    const TileAxis lanes{LoopTag::unroll, add_var(k_), half_.extent * channel_lanes_};
    Block states, sums, body;
    keep(states, greatest_, state_at(), number(kNone));
    keep(states, totals_, state_at(), number(0));
    keep(sums, sums_, of_thread({own_rows_.at(), own_channels_.at(), lanes.at()}), number(0));
    body.push_back(loop_over({own_rows_, half_}, std::move(states)));
    body.push_back(loop_over({own_rows_, own_channels_, lanes}, std::move(sums)));
    return over_threads({}, std::move(body));
  }

  // sums += a b^T over so many terms, by matrix instructions. `starts`: with sums of 0.
  Stmt multiply_matrices(BufferId sums, BufferId a, BufferId b, const TileAxis& columns, int64_t terms, bool starts) {
    const TileAxis step{LoopTag::unroll, add_var(k_), terms / ir::kMmaTerms};
    const IndexExpr term = step.at() * ir::kMmaTerms;
    const std::vector<IndexExpr> at = of_thread({own_rows_.at(), columns.at(), lane()});
    Block body, all;
    const RegId before = load(body, sums, at, ir::kMmaResults), after = add_reg(k_, DType::f32, ir::kMmaResults);
    body.push_back({ir::Mma{after,
                            before,
                            a,
                            b,
                            {warp_row(), term},
                            {columns.at() * ir::kMmaColumns, term},
                            row_threads_[1].at() * kQuad + in_row_.at()}});
    keep(body, sums, at, after);
    if (starts) {
      Block zero;
      add_zeros(k_, zero, sums, at, ir::kMmaResults, {});
      all.push_back(loop_over({own_rows_, columns}, std::move(zero)));
    }
    all.push_back(loop_over({step, own_rows_, columns}, std::move(body)));
    return over_threads({}, std::move(all));
  }

  // Four channels at a time: those of the thread's rows stay in registers, while its keys follow each other.
  Stmt multiply_keys() {
    const TileAxis step{LoopTag::seq, add_var(k_), padded_channels() / kTermLanes},
        term{LoopTag::unroll, add_var(k_), kTermLanes};
    const IndexExpr first = step.at() * kTermLanes;
    Block zero, rows, columns, products, steps, body;
    keep(zero, scores_, score_at(0), number(0));
    keep(rows, row_terms_, of_thread({own_rows_.at(), lane()}),
         load(rows, query_tile_, {row_, first + lane()}, kTermLanes));
    keep(columns, column_terms_, of_thread({lane()}),
         load(columns, key_tile_, {first_key_, first + lane()}, kTermLanes));
    add_product(products, of_thread({own_rows_.at(), term.at()}), of_thread({term.at()}), scores_, score_at(0));
    columns.push_back(loop_over({term, own_rows_}, std::move(products)));
    steps.push_back(loop_over({own_rows_}, std::move(rows)));
    steps.push_back(loop_over({own_keys_}, std::move(columns)));
    body.push_back(loop_over({own_rows_, own_keys_}, std::move(zero)));
    body.push_back(loop_over({step}, std::move(steps)));
    return over_threads({}, std::move(body));
  }
  void add_product(Block& to, std::vector<IndexExpr> row, std::vector<IndexExpr> column, BufferId sums,
                   const std::vector<IndexExpr>& at) {
    const RegId x = load(to, row_terms_, std::move(row)), y = load(to, column_terms_, std::move(column));
    const RegId before = load(to, sums, at);
    keep(to, sums, at, let(to, ScalarOp::fma, {x, y, before}));
  }

  // Scales and masks the scores; nullopt: there is nothing to do. What is no score becomes -infinity.
  std::optional<Stmt> finish_scores() {
    ir::Guard guard = p_.seen;
    const IndexExpr key = IndexExpr::symbol(p_.mask_key);
    if (!divisible_by(k_, keys(), block_keys_)) guard.push_back(keys() - 1 - key);
    if (p_.mask.empty() && guard.empty() && !is_matrix()) return std::nullopt;
    Block work;
    RegId score = load(work, scores_, score_at(key - key0_ - first_key_));
    if (is_matrix() && factor() != 1) score = let(work, ScalarOp::mul, {score, number(factor())});
    Operand result = score;
    if (!p_.mask.empty()) {
      work.push_back({ir::Let{p_.product, ScalarOp::cast, {score}}});
      append(work, p_.mask);
      result = p_.score;
    }
    const std::vector<IndexExpr> at = score_at(key - key0_ - first_key_);
    keep(work, scores_, at, result);
    if (!guard.empty()) {
      const RegId kept = load(work, scores_, at);
      auto& from = std::get<ir::Load>(work.back().v);
      from.guard = guard, from.otherwise = ir::Constant{DType::f32, kNone, 0};
      keep(work, scores_, at, kept);
    }
    work = clone(k_, work);
    ir::Guard inside;
    if (!divisible_by(k_, keys(), block_keys_)) inside.push_back(keys() - 1 - key);
    if (!divisible_by(k_, p_.query.position.extent, rows_))
      inside.push_back(p_.query.position.extent - 1 - IndexExpr::symbol(p_.query.position.var));
    for (Stmt& stmt : work)
      if (auto* from = std::get_if<ir::Load>(&stmt.v); from != nullptr && from->buffer != scores_)
        guard_load(k_, *from, inside);
    substitute(work, p_.query.position.var, row0_ + row_);
    vectorize(k_, work, p_.mask_key, static_cast<int>(key_lanes_), key0_ + first_key_);
    return over_threads({own_rows_, half_, own_keys_}, std::move(work));
  }

  // exp(a - b), of scores.
  RegId exponential(Block& to, const Operand& a, const Operand& b) {
    RegId difference = let(to, ScalarOp::sub, {a, b});
    if (!p_.mask.empty()) difference = let(to, ScalarOp::mul, {difference, number(kLog2E)});
    return let(to, ScalarOp::exp2_approx, {difference});
  }

  // Makes weights of the scores, and scales what was summed before.
  Stmt weigh() {
    const TileAxis lane_of_key{LoopTag::unroll, add_var(k_), key_lanes_},
        lane_of_channel{LoopTag::unroll, add_var(k_), channel_lanes_};
    ir::Reduce greatest;
    greatest.combiner = ir::Combiner::max;
    greatest.loops = {{in_row_.tag, in_row_.var, in_row_.extent}};
    for (const TileAxis& axis : used_axes({own_keys_, lane_of_key}))
      greatest.loops.push_back({axis.tag, axis.var, axis.extent});
    greatest.tree = {0, 0};
    greatest.yield = {load(greatest.body, scores_, score_at(lane_of_key.at()))};
    const RegId of_block = add_reg(k_, DType::f32);
    greatest.dst = {of_block};

    Block row, weights, scaled, body;
    const RegId old = load(row, greatest_, state_at());
    const RegId next = let(row, ScalarOp::max, {old, of_block});
    // Where all are -infinity, each weighs 0.
    const RegId none = let(row, ScalarOp::eq, {next, number(kNone)}, 1, DType::bool_);
    const RegId from = let(row, ScalarOp::where, {none, number(0), next});
    const RegId shrinks = exponential(row, old, from);
    keep(row, greatest_, state_at(), next);
    keep(row, totals_, state_at(), let(row, ScalarOp::mul, {load(row, totals_, state_at()), shrinks}));
    const RegId weight = exponential(weights, load(weights, scores_, score_at(lane_of_key.at())), from);
    keep(weights, scores_, score_at(lane_of_key.at()), weight);
    keep(weights, totals_, state_at(), let(weights, ScalarOp::add, {load(weights, totals_, state_at()), weight}));
    row.push_back(loop_over({own_keys_, lane_of_key}, std::move(weights)));
    const std::vector<IndexExpr> at = sum_at(lane_of_channel.at());
    keep(scaled, sums_, at, let(scaled, ScalarOp::mul, {load(scaled, sums_, at), shrinks}));
    row.push_back(loop_over({own_channels_, lane_of_channel}, std::move(scaled)));
    body.push_back({std::move(greatest)});
    body.push_back(loop_over({in_row_}, std::move(row)));
    return loop_over(of_rows(), std::move(body));
  }
  // Loops over the rows of the tile: over threads, and over the rows of each.
  std::vector<TileAxis> of_rows() const {
    std::vector<TileAxis> axes = row_threads_;
    axes.insert(axes.end(), {own_rows_, half_});
    return axes;
  }

  Stmt hand_on_weights() {
    const IndexExpr at = key_lanes_ > 1 ? lane() : IndexExpr(0);
    Block body;
    RegId weight = load(body, scores_, score_at(at), key_lanes_);
    if (is_matrix()) weight = let(body, ScalarOp::cast, {weight}, key_lanes_, dtype_);
    keep(body, weights_, {row_, first_key_ + at}, weight);
    return over_threads({own_rows_, half_, own_keys_}, std::move(body));
  }

  // --- values ------------------------------------------------------------------------------------------------------

  // Four keys at a time: their weights for the thread's rows stay in registers, while keys follow each other.
  Stmt multiply_values() {
    const TileAxis step{LoopTag::seq, add_var(k_), block_keys_ / kTermLanes},
        term{LoopTag::unroll, add_var(k_), kTermLanes}, part{LoopTag::unroll, add_var(k_), channel_lanes_};
    const IndexExpr first = step.at() * kTermLanes, at = channel_lanes_ > 1 ? lane() : IndexExpr(0),
                    column = own_channels_.at() * channel_lanes_;
    Block rows, columns, products, terms, steps;
    keep(rows, row_terms_, of_thread({own_rows_.at(), lane()}),
         load(rows, weights_, {row_, first + lane()}, kTermLanes));
    keep(columns, column_terms_, of_thread({column + at}),
         load(columns, value_tile_, {first + term.at(), first_channel_ + at}, channel_lanes_));
    add_product(products, of_thread({own_rows_.at(), term.at()}), of_thread({column + part.at()}), sums_,
                sum_at(part.at()));
    terms.push_back(loop_over({own_channels_}, std::move(columns)));
    terms.push_back(loop_over({own_rows_, own_channels_, part}, std::move(products)));
    steps.push_back(loop_over({own_rows_}, std::move(rows)));
    steps.push_back(loop_over({term}, std::move(terms)));
    return over_threads({step}, std::move(steps));
  }

  // --- from the sums to memory -------------------------------------------------------------------------------------

  Stmt finish() {
    ir::Reduce total;
    total.tree = {0, 0};
    total.loops = {{in_row_.tag, in_row_.var, in_row_.extent}};
    total.yield = {load(total.body, totals_, state_at())};
    const RegId sum = add_reg(k_, DType::f32);
    total.dst = {sum};
    Block row, body;
    RegId inverse = let(row, ScalarOp::div, {number(1), sum});
    if (!keys().is_const()) {  // without keys the result is 0
      const RegId count = add_reg(k_, DType::i64);
      row.push_back({ir::IndexValue{count, keys()}});
      const RegId any = let(row, ScalarOp::gt, {count, ir::int_constant(DType::i64, 0)}, 1, DType::bool_);
      inverse = let(row, ScalarOp::where, {any, inverse, number(0)});
    }
    row.push_back(loop_over({own_channels_}, store(inverse)));
    body.push_back({std::move(total)});
    body.push_back(loop_over({in_row_}, std::move(row)));
    return loop_over(of_rows(), std::move(body));
  }

  // Stores a group of channels of a row.
  Block store(RegId inverse) {
    const IndexExpr channel = IndexExpr::symbol(p_.value.channel.var);
    Block work;
    const RegId value = load(work, sums_, sum_at(channel - first_channel_));
    work.push_back({ir::Let{p_.result, ScalarOp::mul, {value, inverse}}});
    append(work, p_.store);
    work = clone(k_, work);
    ir::Guard guard;
    if (!divisible_by(k_, p_.query.position.extent, rows_))
      guard.push_back(p_.query.position.extent - 1 - row0_ - row_);
    if (padded_values() != values_) guard.push_back(IndexExpr(values_ - 1) - channel);
    for (Stmt& stmt : work)
      if (auto* to = std::get_if<ir::Store>(&stmt.v)) to->guard.insert(to->guard.end(), guard.begin(), guard.end());
    substitute(work, p_.query.position.var, row0_ + row_);
    vectorize(k_, work, p_.value.channel.var, static_cast<int>(channel_lanes_), first_channel_);
    return work;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  AttentionLoops p_;
  DType dtype_ = DType::f32;                  // of the factors
  int64_t channels_ = 0, values_ = 0;         // of queries and keys, and of values
  int64_t rows_ = 0, block_keys_ = kMaxKeys;  // of a tile, and of a block of keys
  IndexExpr row0_, key0_;                     // where the tile and the block of keys begin
  std::vector<TileAxis> row_threads_;     // threads of rows: of scalars; of warps, and of a matrix instruction's rows
  TileAxis in_row_{};                     // the threads that share a row
  TileAxis own_rows_{}, half_{};          // the rows of a thread; of matrix instructions, the two rows of each
  TileAxis own_keys_{}, own_channels_{};  // groups of a thread's keys and channels
  int64_t key_lanes_ = 1, channel_lanes_ = 1;  // of such a group
  IndexExpr row_, first_key_, first_channel_;  // of the tile, the block of keys and the values
  BufferId query_tile_, key_tile_, value_tile_, weights_;
  BufferId scores_, sums_, greatest_, totals_;
  BufferId row_terms_, column_terms_;  // of scalar arithmetic: those in registers
};

}  // namespace

std::optional<Block> cuda_attention(const Scheduling& s, const PerfectNest& nest) {
  AttentionSchedule attention(s, nest);
  if (!attention.suits()) return std::nullopt;
  return attention.run();
}

}  // namespace fusec::compiler
