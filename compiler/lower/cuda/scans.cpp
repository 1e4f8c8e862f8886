// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules scans along rows that are contiguous in memory. A tile of a row is what a block holds at a
// time: thread l of warp w has the accesses j = 0 ... of `lanes` elements each, of which that with the number
//
//   ((tile*warps + w)*held + j)*threads + l
//
// begins at element number*lanes in the order of the scan. A thread adds up its lanes in order. The threads of a warp
// add the sum of the thread 1, 2, 4 ... places in front of them, through shared memory. The sums of the accesses of a
// warp are added in order, those of the warps like those of threads, and tiles one after another. An element is
//
//   part + (tiles before it in the part + (warps before it + (accesses before it + (threads before it)))) + lanes
//
// A long row has parts of whole tiles. Where rows are few, the parts are shared by blocks: a grid phase keeps the sum
// of each part in scratch memory, and the next one scans again, from the sum of the parts before. Where they are many,
// a block takes one part after another. Both add in the same order, which depends on the row's length and type alone.

#include <algorithm>
#include <utility>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kScanHeld = 4;            // accesses of a thread: loads under way at a time
constexpr int64_t kScanWarps = 16;          // of a row, at most
constexpr int64_t kUnknownHeld = 2;         // where the length is a symbol
constexpr int64_t kUnknownWarps = 8;        //
constexpr int64_t kScanGroupThreads = 128;  // rows of one warp and less share a block
constexpr int64_t kMaxRowParts = 128;       // of a row: each block adds up the sums of those before its own

int64_t scan_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t scan_ceil_power(int64_t n, int64_t most) {
  int64_t p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

struct ScanShape {
  int lanes = 1;
  int64_t threads = kWarp, held = 1, warps = 1;  // threads of a warp, accesses of a thread, warps of a row
  int64_t rows = 1;                              // of a block
  IndexExpr tiles = 1;                           // of a part
  int64_t parts = 1;
  int64_t tile() const { return warps * held * threads; }  // accesses
};

// `length`: of a row, in accesses.
ScanShape shape_of_scan(std::optional<int64_t> length, const IndexExpr& accesses, int lanes) {
  ScanShape shape;
  shape.lanes = lanes;
  if (!length) {
    shape.held = kUnknownHeld, shape.warps = kUnknownWarps;
    shape.tiles = ceildiv(accesses, shape.tile());
    return shape;
  }
  shape.threads = scan_ceil_power(*length, kWarp);
  shape.held = std::clamp<int64_t>(scan_ceil_div(*length, kWarp), 1, kScanHeld);
  shape.warps = scan_ceil_power(scan_ceil_div(*length, shape.held * kWarp), kScanWarps);
  if (shape.warps == 1) shape.rows = kScanGroupThreads / shape.threads;
  const int64_t tiles = std::max<int64_t>(1, scan_ceil_div(*length, shape.tile())),
                of_part = scan_ceil_div(tiles, kMaxRowParts);
  shape.tiles = of_part;
  shape.parts = scan_ceil_div(tiles, of_part);
  return shape;
}

class ScanRows {
 public:
  ScanRows(const Scheduling& s, const PerfectNest& nest, const ir::Scan& scan)
      : s_(s), k_(s.kernel), nest_(nest), scan_(scan), dtype_(k_.regs[scan.dst].dtype) {
    choose_shape();
    grid_ = add_var(k_), part_ = add_var(k_), r_ = add_var(k_), w_ = add_var(k_), l_ = add_var(k_), tile_ = add_var(k_);
    const IndexExpr grid = IndexExpr::symbol(grid_);
    linear_ = linearize(nest_.heads, shape_.rows > 1 ? grid * shape_.rows + IndexExpr::symbol(r_) : grid);
  }

  Block run() {
    k_.may_alias.clear();  // a block may read what another one has overwritten
    const auto rows = known_value(s_, linear_.total);
    const bool many = rows && 4 * *rows >= int64_t{3} * s_.target.sm_count;
    if (shape_.parts > 1 && decide(s_, &ScheduleChoice::slices, !many)) return in_parts();
    return whole();
  }

 private:
  void choose_shape() {
    int lanes =
        std::min(lanes_of_access(k_, scan_.body, scan_.loop.var), lanes_of_access(k_, scan_.then, scan_.loop.var));
    while (lanes > 1 && !divisible_by(k_, scan_.loop.extent, lanes)) lanes /= 2;
    const IndexExpr accesses = floordiv(scan_.loop.extent, lanes);
    shape_ = shape_of_scan(accesses.is_const() ? std::optional(accesses.value()) : std::nullopt, accesses, lanes);
  }

  // --- statements --------------------------------------------------------------------------------------------------

  ir::Constant identity() const { return ir::identity_constants(scan_.combiner, {&dtype_, 1})[0]; }

  RegId load(Block& out, BufferId from, std::vector<IndexExpr> at, ir::Guard guard = {}) {
    const RegId dst = add_reg(k_, dtype_);
    out.push_back({ir::Load{dst, from, std::move(at), std::move(guard), identity(), 0}});
    return dst;
  }
  static void store(Block& out, BufferId to, std::vector<IndexExpr> at, Operand value) {
    out.push_back({ir::Store{to, std::move(at), value, {}, ir::StoreHint::none}});
  }
  Operand combine(Block& out, const Operand& before, const Operand& after) {
    const RegId dst = add_reg(k_, dtype_);
    out.push_back({ir::Let{dst, ir::combining_op(scan_.combiner), {before, after}}});
    return dst;
  }

  BufferId allocate(Block& out, ir::Space space, ir::IndexShape shape) {
    const std::string name = (space == ir::Space::reg ? "held" : "sums") + std::to_string(k_.buffers.size());
    const BufferId buffer = add_buffer(k_, {name, space, dtype_, std::move(shape), {}, 0, ""});
    out.push_back({ir::Alloc{buffer}});
    return buffer;
  }

  // --- a row -------------------------------------------------------------------------------------------------------

  static IndexExpr symbol(VarId var, int64_t extent) { return extent > 1 ? IndexExpr::symbol(var) : IndexExpr(0); }
  IndexExpr row_in_block() const { return symbol(r_, shape_.rows); }
  IndexExpr warp() const { return symbol(w_, shape_.warps); }
  IndexExpr thread() const { return symbol(l_, shape_.threads); }

  Stmt for_warps(Block body) const { return rebuild_loops({{LoopTag::block, w_, shape_.warps}}, std::move(body)); }
  std::vector<LoopHead> thread_loops() const {
    std::vector<LoopHead> heads;
    if (shape_.warps > 1) heads.push_back({LoopTag::block, w_, shape_.warps});
    if (shape_.threads > 1) heads.push_back({LoopTag::block, l_, shape_.threads});
    return heads;
  }
  Stmt for_threads(Block body) {
    const std::vector<LoopHead> heads = thread_loops();
    return heads.empty() ? rebuild_loops({{LoopTag::seq, add_var(k_), 1}}, std::move(body))
                         : rebuild_loops(heads, std::move(body));
  }

  // The first element of an access, in the order of the scan and in memory.
  IndexExpr start_of(const IndexExpr& tile, int64_t j) const {
    return (((tile * shape_.warps + warp()) * shape_.held + j) * shape_.threads + thread()) * shape_.lanes;
  }
  IndexExpr place_of(const IndexExpr& start) const {
    return scan_.reverse ? scan_.loop.extent - shape_.lanes - start : start;
  }

  // The block for the access that begins at `start`; what it reads and stores along the row is inside of the row.
  Block accessed(Block block, const IndexExpr& start) {
    const ir::Guard inside = inside_row(start);
    const auto guard = [&](auto& access, bool takes_data) {
      const auto moves = [&](const std::vector<IndexExpr>& all) {
        return std::any_of(all.begin(), all.end(), [&](const IndexExpr& d) { return d.uses(scan_.loop.var); });
      };
      if (k_.buffers[access.buffer].space == ir::Space::reg) return;
      if (!moves(access.index) && !moves(access.guard) && !takes_data) return;
      access.guard.insert(access.guard.end(), inside.begin(), inside.end());
    };
    for (Stmt& stmt : block) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
        if (load->guard.empty()) load->otherwise.dtype = k_.buffers[load->buffer].dtype;
        guard(*load, load->clamp != 0);
      }
      if (auto* store = std::get_if<ir::Store>(&stmt.v)) guard(*store, false);
    }
    block = clone(k_, block);
    vectorize(k_, block, scan_.loop.var, shape_.lanes, place_of(start));
    return block;
  }

  ir::Guard inside_row(const IndexExpr& start) const {
    const IndexExpr& length = scan_.loop.extent;
    const IndexExpr all = IndexExpr(shape_.parts * shape_.tile() * shape_.lanes) * shape_.tiles;
    if (all == length) return {};
    return {length - shape_.lanes - start};
  }

  // The buffers of a tile.
  struct Tile {
    BufferId values;      // of a thread, by access and lane in memory
    BufferId threads[2];  // sums of threads, by row, warp, access and thread
    BufferId warps[2];    // sums of warps
  };

  std::vector<IndexExpr> value_at(int64_t j, const IndexExpr& lane) const {
    std::vector<IndexExpr> at;
    for (const LoopHead& head : thread_loops()) at.push_back(IndexExpr::symbol(head.var));
    at.insert(at.end(), {IndexExpr(j), lane});
    return at;
  }
  std::vector<IndexExpr> thread_at(int64_t j, const IndexExpr& thread) const {
    return {row_in_block(), warp(), IndexExpr(j), thread};
  }

  // Loads the tile and adds up the lanes of each access.
  void load_tile(const Tile& t, const IndexExpr& tile, Block& out) {
    Block body;
    for (int64_t j = 0; j < shape_.held; ++j) {
      const IndexExpr start = start_of(tile, j);
      Block one = scan_.body;
      store(one, t.values, value_at(j, IndexExpr::symbol(scan_.loop.var) - place_of(start)), scan_.yield);
      append(body, accessed(std::move(one), start));
    }
    for (int64_t j = 0; j < shape_.held; ++j) store(body, t.threads[0], thread_at(j, thread()), scan_lanes(t, j, body));
    out.push_back(for_threads(std::move(body)));
  }

  // Returns the sum of the lanes.
  Operand scan_lanes(const Tile& t, int64_t j, Block& body) {
    Operand sum;
    for (int lane = 0; lane < shape_.lanes; ++lane) {
      const auto at = value_at(j, scan_.reverse ? shape_.lanes - 1 - lane : lane);
      const Operand own = load(body, t.values, at), before = lane == 0 ? Operand(identity()) : sum;
      sum = lane == 0 ? own : combine(body, sum, own);
      if (scan_.exclusive || lane > 0) store(body, t.values, at, scan_.exclusive ? before : sum);
    }
    return sum;
  }

  // Adds to each of `count` sums those before it, one phase for each power of two. `at` is a sum's place; phase() makes
  // a loop over all of them. Returns the buffer that has the results.
  template <class At, class Phase>
  BufferId scan_sums(const BufferId (&buffers)[2], const IndexExpr& number, int64_t count, int64_t each, const At& at,
                     const Phase& phase, Block& out) {
    size_t from = 0;
    for (int64_t s = 1; s < count; s *= 2, from = 1 - from) {
      Block body;
      for (int64_t j = 0; j < each; ++j) {
        const Operand before = load(body, buffers[from], at(j, number - s), {number - s});
        const Operand own = load(body, buffers[from], at(j, number));
        store(body, buffers[1 - from], at(j, number), combine(body, before, own));
      }
      out.push_back(phase(std::move(body)));
    }
    return buffers[from];
  }

  BufferId scan_threads(const Tile& t, Block& out) {
    return scan_sums(
        t.threads, thread(), shape_.threads, shape_.held,
        [&](int64_t j, const IndexExpr& at) { return thread_at(j, at); },
        [&](Block body) { return for_threads(std::move(body)); }, out);
  }

  // The sums of a warp's accesses, each the last thread's.
  Operand sum_accesses(BufferId threads, int64_t count, Block& out) {
    Operand sum = load(out, threads, thread_at(0, shape_.threads - 1));
    for (int64_t j = 1; j < count; ++j) sum = combine(out, sum, load(out, threads, thread_at(j, shape_.threads - 1)));
    return sum;
  }

  BufferId scan_warps(const Tile& t, BufferId threads, Block& out) {
    Block body;
    store(body, t.warps[0], {warp()}, sum_accesses(threads, shape_.held, body));
    out.push_back(for_warps(std::move(body)));
    const VarId v = add_var(k_);
    return scan_sums(
        t.warps, IndexExpr::symbol(v), shape_.warps, 1,
        [&](int64_t, const IndexExpr& at) { return std::vector<IndexExpr>{at}; },
        [&](Block phase) {
          return rebuild_loops({{LoopTag::block, v, shape_.warps}}, std::move(phase));
        },
        out);
  }

  // Scans a tile of the row; returns its sum. `before`: what is added to it in front, innermost first. Without
  // `stores`, only the sum is computed.
  Operand scan_tile(const IndexExpr& tile, const std::vector<Operand>& before, bool stores, Block& out) {
    Tile t;
    ir::IndexShape held;
    for (const LoopHead& head : thread_loops()) held.push_back(head.extent);
    held.insert(held.end(), {IndexExpr(shape_.held), IndexExpr(shape_.lanes)});
    t.values = allocate(out, ir::Space::reg, std::move(held));
    for (BufferId& b : t.threads)
      b = allocate(
          shared_, ir::Space::shared,
          {IndexExpr(shape_.rows), IndexExpr(shape_.warps), IndexExpr(shape_.held), IndexExpr(shape_.threads)});
    load_tile(t, tile, out);
    const BufferId threads = scan_threads(t, out);
    BufferId warps;
    if (shape_.warps > 1) {
      for (BufferId& b : t.warps) b = allocate(shared_, ir::Space::shared, {IndexExpr(shape_.warps)});
      warps = scan_warps(t, threads, out);
    }
    const Operand sum = shape_.warps > 1 ? Operand(load(out, warps, {IndexExpr(shape_.warps - 1)}))
                                         : sum_accesses(threads, shape_.held, out);
    if (stores) store_tile(t, tile, threads, warps, before, out);
    return sum;
  }

  void store_tile(const Tile& t, const IndexExpr& tile, BufferId threads, BufferId warps,
                  const std::vector<Operand>& before, Block& out) {
    Block body;
    std::optional<Operand> of_warps, of_accesses;
    if (shape_.warps > 1) of_warps = load(body, warps, {warp() - 1}, {warp() - 1});
    for (int64_t j = 0; j < shape_.held; ++j) {
      Operand sum = load(body, threads, thread_at(j, thread() - 1), {thread() - 1});
      if (j > 0) {
        const Operand last = load(body, threads, thread_at(j - 1, shape_.threads - 1));
        of_accesses = of_accesses ? combine(body, *of_accesses, last) : last;
        sum = combine(body, *of_accesses, sum);
      }
      if (of_warps) sum = combine(body, *of_warps, sum);
      for (const Operand& value : before) sum = combine(body, value, sum);
      append(body, results(t, start_of(tile, j), j, sum));
    }
    out.push_back(for_threads(std::move(body)));
  }

  // What follows the scan, for one access. `sum` is that of all elements before it.
  Block results(const Tile& t, const IndexExpr& start, int64_t j, const Operand& sum) {
    const RegId lanes = add_reg(k_, dtype_);
    const auto at = value_at(j, IndexExpr::symbol(scan_.loop.var) - place_of(start));
    Block one{{ir::Load{lanes, t.values, at, {}, ir::Constant{dtype_}, 0}},
              {ir::Let{scan_.dst, ir::combining_op(scan_.combiner), {sum, lanes}}}};
    one.insert(one.end(), scan_.then.begin(), scan_.then.end());
    return accessed(std::move(one), start);
  }

  // --- parts -------------------------------------------------------------------------------------------------------

  // A value that changes from iteration to iteration.
  BufferId running(Block& out) {
    const BufferId buffer = allocate(out, ir::Space::reg, {IndexExpr(1)});
    store(out, buffer, {IndexExpr(0)}, identity());
    return buffer;
  }
  void add_to(BufferId buffer, const Operand& value, Block& out) {
    store(out, buffer, {IndexExpr(0)}, combine(out, load(out, buffer, {IndexExpr(0)}), value));
  }

  // Scans the tiles of a part; returns their sum. `before`: of the parts before it.
  Operand scan_part(const IndexExpr& part, const std::optional<Operand>& before, bool stores, Block& out) {
    std::vector<Operand> sums;
    if (before) sums.push_back(*before);
    if (shape_.tiles.is(1)) {
      if (sums.empty()) sums.push_back(identity());
      return scan_tile(part, sums, stores, out);
    }
    const BufferId tiles = running(out);
    Block body;
    sums.insert(sums.begin(), load(body, tiles, {IndexExpr(0)}));
    const Operand sum = scan_tile(part * shape_.tiles + IndexExpr::symbol(tile_), sums, stores, body);
    add_to(tiles, sum, body);
    out.push_back(rebuild_loops({{LoopTag::seq, tile_, shape_.tiles}}, std::move(body)));
    return load(out, tiles, {IndexExpr(0)});
  }

  Block whole() {
    Block row;
    if (shape_.parts == 1) {
      scan_part(0, std::nullopt, true, row);
    } else {
      const BufferId parts = running(row);
      Block body;
      const Operand before = load(body, parts, {IndexExpr(0)});
      add_to(parts, scan_part(IndexExpr::symbol(part_), before, true, body), body);
      row.push_back(rebuild_loops({{LoopTag::seq, part_, shape_.parts}}, std::move(body)));
    }
    Block result;
    result.push_back(
        rebuild_loops({{LoopTag::grid, grid_, ceildiv(linear_.total, shape_.rows)}}, rows(std::move(row))));
    return result;
  }

  // A grid phase for the sums of all parts but the last, and one that scans.
  Block in_parts() {
    Block result, sums, parts;
    const BufferId all =
        add_buffer(k_, {"parts", ir::Space::scratch, dtype_, {linear_.total, IndexExpr(shape_.parts - 1)}, {}, 0, ""});
    result.push_back({ir::Alloc{all}});
    const IndexExpr row = IndexExpr::symbol(grid_), part = IndexExpr::symbol(part_);
    store(sums, all, {row, part}, scan_part(part, std::nullopt, false, sums));
    const auto grid = [&](int64_t count) {
      return std::vector<LoopHead>{{LoopTag::grid, grid_, linear_.total}, {LoopTag::grid, part_, count}};
    };
    result.push_back(rebuild_loops(grid(shape_.parts - 1), rows(std::move(sums))));
    scan_part(part, sum_before(all, parts), true, parts);
    result.push_back(rebuild_loops(grid(shape_.parts), rows(std::move(parts))));
    return result;
  }

  // The sum of the parts before this one. Threads load one each, and then all add them up.
  Operand sum_before(BufferId all, Block& out) {
    const VarId v = add_var(k_), q = add_var(k_);
    const IndexExpr row = IndexExpr::symbol(grid_), part = IndexExpr::symbol(part_);
    const BufferId shared = allocate(shared_, ir::Space::shared, {IndexExpr(shape_.parts)}), sum = running(out);
    Block body, add;
    const IndexExpr at = IndexExpr::symbol(v);
    store(body, shared, {at}, load(body, all, {row, at}, {part - 1 - at}));
    out.push_back(rebuild_loops({{LoopTag::block, v, shape_.parts - 1}}, std::move(body)));
    add_to(sum, load(add, shared, {IndexExpr::symbol(q)}), add);
    out.push_back(rebuild_loops({{LoopTag::seq, q, part}}, std::move(add)));
    return load(out, sum, {IndexExpr(0)});
  }

  // Several rows of a block. The last block may have fewer.
  Block rows(Block row) {
    for (const LoopHead& head : nest_.heads) substitute(row, head.var, linear_.values.at(head.var));
    Block result = std::exchange(shared_, {});
    if (shape_.rows == 1) {
      append(result, std::move(row));
      return result;
    }
    const IndexExpr last = linear_.total - 1;
    if (!divisible_by(k_, linear_.total, shape_.rows))
      guard_rows(k_, row, last - IndexExpr::symbol(grid_) * shape_.rows - IndexExpr::symbol(r_), {grid_, r_});
    result.push_back({ir::Loop{{LoopTag::block, r_, shape_.rows}, std::move(row), ir::PhaseBoundary::launches}});
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  const ir::Scan scan_;
  const DType dtype_;
  ScanShape shape_;
  VarId grid_, part_, r_, w_, l_, tile_;
  Linear linear_;
  Block shared_;  // allocations of shared buffers
};

}  // namespace

std::optional<Block> cuda_scan(const Scheduling& s, const PerfectNest& nest) {
  const ir::Scan* const scan = lone_scan(nest);
  if (scan == nullptr) return std::nullopt;
  if (const auto column = scan_column(nest, *scan)) return cuda_scan_columns(s, nest, *scan, *column);
  return ScanRows(s, nest, *scan).run();
}

}  // namespace fusec::compiler
