// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules nests that load along one axis and store along another. A thread block moves one tile
// through shared memory: it loads along the axis that is contiguous in the input, stores the tile transposed, and after
// a barrier computes along the axis that is contiguous in the output. Both sides access up to 16 bytes per thread.
//
// Rows of the tile are an odd number of words apart. Elements of 1 and 2 bytes come from 4 and 2 rows of the input at
// once, so that whole words enter the tile. A warp then spans 128 bytes of a row of the output, or as many bytes of the
// input's rows as its lanes times the lanes of an access make a full row of banks: no two threads meet in a bank.
//
// Short rows of the output (24 channels) that the next outer loop continues are one long row: its loop is c = o*24 + i,
// and the input is read at o = c div 24 and i = c mod 24. If it is the input's contiguous loop that continues them, a
// tile has whole rows, which lie one after the other in the output, and threads follow each other along all of them.

#include <algorithm>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kWord = 4;              // bytes of a bank of shared memory
constexpr int kUnit = 16;             // the sides of a tile are multiples
constexpr int kSmallTile = 32;        // the smallest side of a tile
constexpr int kMediumTile = 4096;     // elements of the tile that suits problems of few blocks
constexpr int kMaxSteps = 8;          // accesses of a thread along one side of a tile
constexpr int kAllTileBytes = 46080;  // of all tiles of a block: what needs no dynamic shared memory
constexpr int kHeldBytes = 128;       // of operands that a thread loads before the barrier
constexpr int kShortRow = 256;        // bytes of a row of the output, below which it is joined to the next one

int element_bytes(const ir::Kernel& k, BufferId id) { return static_cast<int>(size_of(k.buffers[id].dtype)); }

// How the threads of a block walk over a tile of `minor` x `major` steps. The threads of a warp take `lanes_minor`
// steps along the minor axis and the rest along the major one; groups of lanes cover the minor axis, then repeat along
// the major one.
struct TileWalk {
  int minor, major, lanes_minor, lanes_major, groups_minor, groups_major;
  VarId group, group_minor, lane, lane_minor, step;

  int steps() const { return major / (lanes_major * groups_major); }
  IndexExpr at_minor() const { return at(group_minor, groups_minor) * lanes_minor + at(lane_minor, lanes_minor); }
  IndexExpr at_major() const {
    return (at(step, steps()) * groups_major + at(group, groups_major)) * lanes_major + at(lane, lanes_major);
  }
  static IndexExpr at(VarId var, int extent) { return extent > 1 ? IndexExpr::symbol(var) : IndexExpr(0); }
  // Loops that run once would not count as axes of buffers.
  std::vector<LoopHead> threads() const {
    std::vector<LoopHead> heads{{LoopTag::block, group, groups_major},
                                {LoopTag::block, group_minor, groups_minor},
                                {LoopTag::block, lane, lanes_major},
                                {LoopTag::block, lane_minor, lanes_minor}};
    std::erase_if(heads, [](const LoopHead& head) { return head.extent.is(1); });
    return heads;
  }
};

// The largest power of two up to `most`, a power of two itself, that divides `of`.
int largest_power(int of, int most) {
  while (of % most != 0) most /= 2;
  return most;
}

// A walk of at most `threads` threads in which `lanes` lanes of a warp go along the minor axis if they divide it.
TileWalk walk_tile(ir::Kernel& k, int minor, int major, int lanes, int threads) {
  TileWalk w{};
  w.minor = minor, w.major = major;
  w.lanes_minor = largest_power(minor, lanes);
  w.lanes_major = largest_power(major, kWarp / w.lanes_minor);
  w.lanes_minor = largest_power(minor, kWarp / w.lanes_major);
  w.groups_minor = minor / w.lanes_minor;
  const int block = w.lanes_minor * w.lanes_major * w.groups_minor, rest = major / w.lanes_major;
  w.groups_major = static_cast<int>(largest_divisor(rest, std::clamp(threads / block, 1, rest)));
  for (VarId* var : {&w.group, &w.group_minor, &w.lane, &w.lane_minor, &w.step}) *var = add_var(k);
  return w;
}

// A walk in which the threads follow each other over whole rows of `minor` steps.
TileWalk walk_rows(ir::Kernel& k, int minor, int major, int threads) {
  TileWalk w{};
  w.minor = minor, w.major = major;
  w.lanes_minor = minor, w.lanes_major = 1, w.groups_minor = 1;
  w.groups_major = static_cast<int>(largest_divisor(major, std::clamp(threads / minor, 1, major)));
  for (VarId* var : {&w.group, &w.group_minor, &w.lane, &w.lane_minor, &w.step}) *var = add_var(k);
  return w;
}

// The most lanes, up to `lanes`, that divide every address along the loop: all that does not move with it.
int aligned_lanes(const ir::Kernel& k, const IndexExpr& index, const LoopHead& along, int lanes) {
  const auto affine = affine_in(index, {along.var});
  const auto fits = [&](int n) {
    return divisible_by(k, along.extent, n) && affine && divisible_by(k, affine->rest, n);
  };
  while (lanes > 1 && !fits(lanes)) lanes /= 2;
  return lanes;
}

// A load that goes through shared memory.
struct StagedLoad {
  ir::Load load;
  BufferId tile;
  int lanes = 1;  // of an access along `across`
  int rows = 1;   // that an access of the tile takes together
};

class TransposeSchedule {
 public:
  TransposeSchedule(const Scheduling& s, PerfectNest nest, VarId across)
      : s_(s), k_(s.kernel), nest_(std::move(nest)), along_(nest_.heads.back()) {
    for (const LoopHead& head : nest_.heads)
      if (head.var == across) across_ = head;
    join_short_rows();
    for (const Stmt& stmt : nest_.body) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && is_strided(*load)) staged_.push_back(describe(*load));
    }
    lanes_ = output_lanes();
  }

  bool suits() {
    const bool plain = std::all_of(nest_.body.begin(), nest_.body.end(), [](const Stmt& stmt) {
      return nested_blocks(stmt).empty() && !std::holds_alternative<ir::Alloc>(stmt.v);
    });
    return plain && !staged_.empty() && choose_tile();
  }

  // Tiles that lie wholly inside of the extents need no guards, so they have code of their own.
  Block run() {
    const VarId i = add_var(k_), j = add_var(k_);
    row_ = IndexExpr(height_) * IndexExpr::symbol(i), column_ = IndexExpr(width_) * IndexExpr::symbol(j);
    Block allocs;
    for (StagedLoad& staged : staged_) {
      staged.tile = add_tile(staged);
      allocs.push_back({ir::Alloc{staged.tile}});
    }
    std::vector<IndexExpr> left;
    if (!divisible_by(k_, across_.extent, height_))
      left.push_back(whole_tiles_left(across_.extent, height_, IndexExpr::symbol(i)));
    if (!divisible_by(k_, along_.extent, width_))
      left.push_back(whole_tiles_left(along_.extent, width_, IndexExpr::symbol(j)));
    Block body = tile(false);
    if (!left.empty()) body = whole_or_partial(k_, left, std::move(body), tile(true));
    append(allocs, std::move(body));
    Block result;
    result.push_back(rebuild_loops(grid(i, j), std::move(allocs)));
    return result;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // The work on one tile, which may be `partial`.
  Block tile(bool partial) {
    partial_ = partial;
    output_ = whole_rows_ ? walk_rows(k_, width_ / lanes_, height_, threads_)
                          : walk_tile(k_, width_ / lanes_, height_, kWarp / output_words(), threads_);
    Block body, fills;
    for (const StagedLoad& staged : staged_) fills.push_back(fill(staged));
    Block work = compute();
    Block held = hold(work, body);
    if (!held.empty()) body.push_back(over(output_, std::move(held)));
    append(body, std::move(fills));
    body.push_back(over(output_, std::move(work)));
    return body;
  }

  bool is_strided(const ir::Load& load) const {
    if (load.index.size() != 1 || load.clamp != 0 || uses_registers(load)) return false;
    const auto affine = affine_in(load.index[0], {across_.var});
    if (!affine || !affine->coefficient(across_.var).is(1)) return false;
    const auto rest = affine_in(affine->rest, {along_.var});
    if (!rest) return true;  // of joined rows
    const IndexExpr stride = rest->coefficient(along_.var);
    return !stride.is(0) && !stride.is(1);
  }

  // --- short rows --------------------------------------------------------------------------------------------------

  int64_t row_bytes() const {
    int64_t widest = 1;
    for (const Stmt& stmt : nest_.body)
      if (const auto* store = std::get_if<ir::Store>(&stmt.v))
        widest = std::max<int64_t>(widest, element_bytes(k_, store->buffer));
    return along_.extent.value() * widest;
  }

  // Whether the access goes on from row to row of the output as `next`, the loop around the rows, goes on.
  bool continues_row(const std::vector<IndexExpr>& index, VarId next) const {
    const auto affine = index.size() == 1 ? affine_in(index[0], {along_.var, next}) : std::nullopt;
    return affine && affine->coefficient(along_.var).is(1) && affine->coefficient(next) == along_.extent;
  }
  bool stores_continue(VarId next) const {
    return std::all_of(nest_.body.begin(), nest_.body.end(), [&](const Stmt& stmt) {
      const auto* store = std::get_if<ir::Store>(&stmt.v);
      return store == nullptr || continues_row(store->index, next);
    });
  }
  // Whether every load does so, too, goes through shared memory, or moves with neither loop.
  bool loads_continue(VarId next) const {
    return std::all_of(nest_.body.begin(), nest_.body.end(), [&](const Stmt& stmt) {
      if (std::holds_alternative<ir::IndexValue>(stmt.v)) return false;
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || (load->guard.empty() && is_strided(*load))) return true;
      return continues_row(load->index, next) || (!mentions(stmt, along_.var) && !mentions(stmt, next));
    });
  }

  void join_short_rows() {
    if (!along_.extent.is_const() || row_bytes() >= kShortRow) return;
    if (stores_continue(across_.var)) {
      whole_rows_ = along_.extent.value() % kSmallTile != 0;
      return;
    }
    for (size_t i = 0; i + 1 < nest_.heads.size(); ++i) {
      const VarId next = nest_.heads[i].var;
      if (next != across_.var && stores_continue(next) && loads_continue(next)) return join(i);
    }
  }

  // Makes the innermost loop and loop number `next` one.
  void join(size_t next) {
    const LoopHead outer = nest_.heads[next];
    const LoopHead joined{along_.tag, add_var(k_), outer.extent * along_.extent};
    const IndexExpr c = IndexExpr::symbol(joined.var);
    const std::map<ir::SymbolId, IndexExpr> at{{along_.var, mod(c, along_.extent)},
                                               {outer.var, floordiv(c, along_.extent)}};
    nest_.heads.back() = along_ = joined;
    nest_.heads.erase(nest_.heads.begin() + static_cast<std::ptrdiff_t>(next));
    const ir::IndexRanges ranges = ir::compute_ranges(nest_.heads);
    for (Stmt& stmt : nest_.body)
      ir::for_each_index(stmt, [&](IndexExpr& d) { d = simplify(d.substitute(at), ranges); });
  }

  static bool uses_registers(const ir::Load& load) {
    bool found = false;
    ir::for_each_index(Stmt{load}, [&](const IndexExpr& d) {
      std::set<ir::SymbolId> symbols;
      d.collect_symbols(symbols);
      for (const ir::SymbolId symbol : symbols) found |= symbol.reg().has_value();
    });
    return found;
  }

  StagedLoad describe(const ir::Load& load) const {
    StagedLoad staged{load, {}, 1, 1};
    const int bytes = element_bytes(k_, load.buffer);
    staged.lanes = aligned_lanes(k_, load.index[0], across_, kAccessBytes / bytes);
    if (staged.lanes > 1) staged.rows = std::max(1, kWord / bytes);
    return staged;
  }

  int output_lanes() const {
    int lanes = lanes_of_access(k_, nest_.body, along_.var);
    for (const Stmt& stmt : nest_.body)
      if (const auto* store = std::get_if<ir::Store>(&stmt.v))
        lanes = aligned_lanes(k_, store->index[0], along_, lanes);
    return lanes;
  }

  // The lanes of a warp along the input's rows that meet in no bank.
  static int input_lanes(int bytes, int lanes) { return (bytes == 8 ? kWarp / 2 : kWarp) / lanes; }

  // The number of words of a tile that an access takes.
  int output_words() const { return std::clamp(lanes_ * widest() / kWord, 1, 4); }

  int widest() const {
    int bytes = 1;
    for (const StagedLoad& staged : staged_) bytes = std::max(bytes, element_bytes(k_, staged.load.buffer));
    return bytes;
  }

  // --- the tile ----------------------------------------------------------------------------------------------------

  // How much worse than 128 bytes the runs of a warp are that takes steps of `lanes` elements along a side, `wanted` of
  // them if they divide it.
  double short_runs(int side, int lanes, int wanted) const {
    const int bytes = largest_power(side / lanes, wanted) * lanes * widest();
    return bytes >= 128 ? 0 : bytes >= 64 ? 0.1 : 0.5;
  }

  // The length of a tile along an axis, a multiple of kUnit up to `most`: long, with little of it beyond the extent and
  // long runs.
  int side(const LoopHead& head, int most, int lanes, int wanted) const {
    const int64_t extent = std::max<int64_t>(known_extent(s_, head.extent, most), 1);
    int best = most;
    double least = 1e9;
    for (int side = most; side >= kSmallTile; side -= kUnit) {
      const auto covered = static_cast<double>((extent + side - 1) / side * side);
      const double cost =
          covered / static_cast<double>(extent) + 0.1 * (most - side) / most + short_runs(side, lanes, wanted);
      if (cost < least) best = side, least = cost;
    }
    return best;
  }

  int64_t shared_bytes() const {
    int64_t bytes = 0;
    for (const StagedLoad& staged : staged_)
      bytes += int64_t{height_} * (width_ + pad(staged)) * element_bytes(k_, staged.load.buffer);
    return bytes;
  }

  // Tiles hold 8 to 16 KB. Narrow accesses take more of a thread's time, so they have smaller tiles and more threads.
  // False if there are too many operands for the smallest tile.
  bool choose_tile() {
    const int bytes = widest();
    int lanes_in = kAccessBytes;
    for (const StagedLoad& staged : staged_) lanes_in = std::min(lanes_in, staged.lanes);
    const int narrow = std::min(lanes_, lanes_in);
    height_ = side(across_, bytes == 8 ? 32 : bytes == 1 ? 128 : 64, lanes_in, input_lanes(bytes, lanes_in));
    const int widest_tile = bytes == 8 ? 32 : bytes <= 2 && narrow > 2 ? 128 : 64;
    whole_rows_ = whole_rows_ && along_.extent.value() <= widest_tile && row_steps() <= kWarp;
    width_ = whole_rows_ ? whole_row() : side(along_, widest_tile, lanes_, kWarp / output_words());
    while (shared_bytes() > kAllTileBytes && shrink()) continue;
    // Few blocks leave multiprocessors idle at the end.
    while (height_ * width_ > kMediumTile && blocks() < 40 * int64_t{s_.target.sm_count} && shrink()) continue;
    while (blocks() < 4 * int64_t{s_.target.sm_count} && shrink()) continue;
    height_ = whole_units(decide(s_, &ScheduleChoice::tile_rows, height_));
    if (!whole_rows_) width_ = whole_units(decide(s_, &ScheduleChoice::tile_columns, width_));
    const int area = height_ * width_;
    threads_ = area / lanes_ > 256 * kMaxSteps || (bytes == 4 && area >= kMediumTile) ? 512 : 256;
    return shared_bytes() <= kAllTileBytes;
  }

  static int whole_units(int side) { return (side + kUnit - 1) / kUnit * kUnit; }

  // A row, rounded up to what enters the tile together.
  int whole_row() const {
    const auto extent = static_cast<int>(along_.extent.value());
    int rows = 1;
    for (const StagedLoad& staged : staged_) rows = std::max(rows, staged.rows);
    return (extent + rows - 1) / rows * rows;
  }
  int row_steps() const { return static_cast<int>(along_.extent.value()) / lanes_; }

  bool shrink() {
    int& longer = !whole_rows_ && width_ >= height_ ? width_ : height_;
    if (longer <= kSmallTile) return false;
    longer = std::max(kSmallTile, whole_units(longer / 2));
    return true;
  }

  int64_t blocks() const {
    int64_t count = 1;
    for (const LoopHead& head : nest_.heads) {
      const int side = head.var == across_.var ? height_ : head.var == along_.var ? width_ : 1;
      count *= (known_value(s_, head.extent).value_or(int64_t{1} << 20) + side - 1) / side;
      if (count > int64_t{1} << 20) break;
    }
    return count;
  }

  int pad(const StagedLoad& staged) const { return std::max(1, kWord / element_bytes(k_, staged.load.buffer)); }

  BufferId add_tile(const StagedLoad& staged) {
    return add_buffer(k_, {"tile" + std::to_string(k_.buffers.size()),
                           ir::Space::shared,
                           k_.regs[staged.load.dst].dtype,
                           {height_, width_},
                           {},
                           0,
                           "pitch " + std::to_string(width_ + pad(staged))});
  }

  // Blocks that follow each other continue along the rows of the input.
  std::vector<LoopHead> grid(VarId i, VarId j) const {
    std::vector<LoopHead> heads;
    for (const LoopHead& head : nest_.heads)
      if (head.var != across_.var && head.var != along_.var) heads.push_back({LoopTag::grid, head.var, head.extent});
    heads.push_back({LoopTag::grid, j, ceildiv(along_.extent, width_)});
    heads.push_back({LoopTag::grid, i, ceildiv(across_.extent, height_)});
    return heads;
  }

  Stmt over(const TileWalk& walk, Block body) const {
    std::vector<LoopHead> heads = walk.threads();
    heads.push_back({LoopTag::unroll, walk.step, walk.steps()});
    return rebuild_loops(heads, std::move(body));
  }

  // Guards an access of `rows` x `columns` elements that begins so far into a partial tile.
  void add_bounds(ir::Guard& guard, const IndexExpr& row, int rows, const IndexExpr& column, int columns) const {
    if (!partial_) return;
    if (!divisible_by(k_, across_.extent, height_)) guard.push_back(across_.extent - rows - row_ - row);
    if (!divisible_by(k_, along_.extent, width_)) guard.push_back(along_.extent - columns - column_ - column);
  }

  // --- from the input to the tile ----------------------------------------------------------------------------------

  Stmt fill(const StagedLoad& staged) {
    const int lanes = input_lanes(element_bytes(k_, staged.load.buffer), staged.lanes);
    const TileWalk w = walk_tile(k_, height_ / staged.lanes, width_ / staged.rows, lanes, threads_);
    Block body;
    std::vector<RegId> values;
    for (int r = 0; r < staged.rows; ++r) {
      ir::Load load = load_row(staged, w.at_minor() * staged.lanes, w.at_major() * staged.rows + r);
      values.push_back(load.dst);
      body.push_back({std::move(load)});
    }
    append(body, staged.rows == 1 ? store_row(staged, w, values[0]) : store_packed(staged, w, values));
    return over(w, std::move(body));
  }

  ir::Load load_row(const StagedLoad& staged, const IndexExpr& row, const IndexExpr& column) {
    ir::Load load = staged.load;
    load.dst = add_reg(k_, k_.regs[load.dst].dtype, staged.lanes);
    load.otherwise.dtype = k_.buffers[load.buffer].dtype;
    const IndexExpr first = staged.lanes > 1 ? row + lane() : row;
    const std::map<ir::SymbolId, IndexExpr> at{{across_.var, row_ + first}, {along_.var, column_ + column}};
    for (IndexExpr& d : load.index) d = d.substitute(at);
    for (IndexExpr& d : load.guard) d = d.substitute(at);
    add_bounds(load.guard, row, staged.lanes, column, 1);
    return load;
  }

  Block store_row(const StagedLoad& staged, const TileWalk& w, RegId value) const {
    const IndexExpr row = w.at_minor() * staged.lanes;
    Block body;
    body.push_back({ir::Store{
        staged.tile, {staged.lanes > 1 ? row + lane() : row, w.at_major()}, value, {}, ir::StoreHint::none}});
    return body;
  }

  // Lane j of all rows becomes one word of the tile's row j.
  Block store_packed(const StagedLoad& staged, const TileWalk& w, const std::vector<RegId>& values) {
    const DType dtype = k_.regs[values[0]].dtype;
    const BufferId packed = add_buffer(
        k_,
        {"packed" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, {staged.rows, staged.lanes}, {}, 0, ""});
    Block body;
    body.push_back({ir::Alloc{packed}});
    for (int r = 0; r < staged.rows; ++r)
      body.push_back({ir::Store{packed, {r, lane()}, values[static_cast<size_t>(r)], {}, ir::StoreHint::none}});
    const VarId j = add_var(k_);
    const RegId word = add_reg(k_, dtype, staged.rows);
    Block words;
    words.push_back({ir::Load{word, packed, {lane(), IndexExpr::symbol(j)}, {}, ir::Constant{dtype}, 0}});
    words.push_back(
        {ir::Store{staged.tile,
                   {w.at_minor() * staged.lanes + IndexExpr::symbol(j), w.at_major() * staged.rows + lane()},
                   word,
                   {},
                   ir::StoreHint::none}});
    body.push_back({ir::Loop{{LoopTag::unroll, j, staged.lanes}, std::move(words), ir::PhaseBoundary::launches}});
    return body;
  }

  // --- from the tile to the output ---------------------------------------------------------------------------------

  IndexExpr output_row() const { return output_.at_major(); }
  IndexExpr output_column() const { return output_.at_minor() * lanes_; }

  // The body for one access of the output.
  Block compute() {
    Block work = nest_.body;
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !is_strided(*load)) continue;
      const auto staged =
          std::find_if(staged_.begin(), staged_.end(), [&](const StagedLoad& s) { return s.load.dst == load->dst; });
      *load = ir::Load{
          load->dst, staged->tile,    {IndexExpr::symbol(across_.var) - row_, IndexExpr::symbol(along_.var) - column_},
          {},        load->otherwise, 0};
    }
    work = clone(k_, work);
    for (Stmt& stmt : work) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) guard(*load);
      if (auto* store = std::get_if<ir::Store>(&stmt.v)) guard(*store);
    }
    substitute(work, across_.var, row_ + output_row());
    vectorize(k_, work, along_.var, lanes_, column_ + output_column());
    return work;
  }

  void guard(ir::Load& load) const {
    if (k_.buffers[load.buffer].space == ir::Space::shared) return;
    load.otherwise.dtype = k_.buffers[load.buffer].dtype;
    add_bounds(load.guard, output_row(), 1, output_column(), lanes_);
  }
  void guard(ir::Store& store) const { add_bounds(store.guard, output_row(), 1, output_column(), lanes_); }

  // Whether the load needs nothing but its place, and moves with every step.
  bool can_hold(const ir::Load& load) const {
    return k_.buffers[load.buffer].space == ir::Space::in && load.clamp == 0 && k_.regs[load.dst].width == lanes_ &&
           !uses_registers(load) && std::any_of(load.index.begin(), load.index.end(), [&](const IndexExpr& d) {
             return d.uses(output_.step) || d.uses(output_.group) || d.uses(output_.lane);
           });
  }

  // Takes operands of the output's layout out of `work`: a thread loads them before the barrier and holds them in
  // registers, so that they are under way together with the tile. Returns the loads.
  Block hold(Block& work, Block& allocs) {
    Block loads;
    int room = kHeldBytes;
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !can_hold(*load)) continue;
      room -= output_.steps() * lanes_ * element_bytes(k_, load->buffer);
      if (room < 0) break;
      const DType dtype = k_.regs[load->dst].dtype;
      const BufferId held =
          add_buffer(k_, {"held" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, held_shape(), {}, 0, ""});
      allocs.push_back({ir::Alloc{held}});
      ir::Load early = *load;
      early.dst = add_reg(k_, dtype, lanes_);
      loads.push_back({early});
      loads.push_back({ir::Store{held, held_at(), early.dst, {}, ir::StoreHint::none}});
      *load = ir::Load{load->dst, held, held_at(), {}, load->otherwise, 0};
    }
    return loads;
  }

  ir::IndexShape held_shape() const {
    ir::IndexShape shape;
    for (const LoopHead& head : output_.threads()) shape.push_back(head.extent);
    shape.insert(shape.end(), {output_.steps(), lanes_});
    return shape;
  }
  std::vector<IndexExpr> held_at() const {
    std::vector<IndexExpr> index;
    for (const LoopHead& head : output_.threads()) index.push_back(IndexExpr::symbol(head.var));
    index.insert(index.end(), {TileWalk::at(output_.step, output_.steps()), lanes_ > 1 ? lane() : IndexExpr(0)});
    return index;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  LoopHead along_, across_;
  std::vector<StagedLoad> staged_;
  int lanes_ = 1;                             // of an access along `along`
  int height_ = 0, width_ = 0, threads_ = 0;  // of a tile: along `across`, along `along`
  IndexExpr row_, column_;                    // where a tile begins
  TileWalk output_{};
  bool partial_ = false;     // whether the tile that is made may reach past the extents
  bool whole_rows_ = false;  // whether a tile has whole rows of the output, which follow each other there
};

}  // namespace

std::optional<Block> cuda_transpose(const Scheduling& s, const PerfectNest& nest, VarId across) {
  TransposeSchedule transpose(s, nest, across);
  if (!transpose.suits()) return std::nullopt;
  decide(s, &ScheduleChoice::tiles, true);
  return transpose.run();
}

}  // namespace fusec::compiler
