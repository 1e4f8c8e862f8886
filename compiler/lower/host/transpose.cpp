// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules nests that load along one axis and store along another, in square tiles that are
// transposed in registers. A task walks along the loads and stores a run of bytes at each step.

#include <algorithm>
#include <map>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// A task stores runs of about so many bytes, and touches about so many bytes in all: its part of the inputs' lines
// stays in the second-level cache until the task has read all of each line.
constexpr int64_t kRunBytes = 1024, kTaskBytes = 256 << 10;
constexpr int kSmallestTile = 8;

// Which edges of a tile may lie beyond the extents.
struct Edges {
  bool across = false, along = false;
};

class Tile {
 public:
  Tile(const Scheduling& s, const PerfectNest& nest, const LoopHead& across, int size, Edges edges, bool prefetches)
      : s_(s),
        nest_(nest),
        along_(nest.heads.back().var),
        across_(across.var),
        rows_(across.extent),
        columns_(nest.heads.back().extent),
        size_(size),
        edges_(edges),
        prefetches_(prefetches) {}

  // Emits one tile: `size` rows of the across loop from `row` on, and as many columns of the inner loop from `column`
  // on.
  Block body(const IndexExpr& row, const IndexExpr& column) {
    Block result;
    Block work = clone(s_.kernel, nest_.body);
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !is_strided(*load)) continue;
      const BufferId transposed = turn(*load, row, column, result);
      *load = ir::Load{load->dst, transposed,      {IndexExpr::symbol(row_var_), IndexExpr::symbol(along_) - column},
                       {},        load->otherwise, 0};
    }
    // Elements that are strided both ways are loaded one by one. size * size such loads are too much code to unroll.
    const bool scatters = std::any_of(work.begin(), work.end(), [&](const Stmt& stmt) { return is_scattered(stmt); });
    if (prefetches_) prefetch_rows(work, row, column);
    substitute(work, across_, row + IndexExpr::symbol(row_var_));
    vectorize(s_.kernel, work, along_, size_, column);
    guard(work, rows_ - 1 - row - IndexExpr::symbol(row_var_), columns_ - 1 - column - IndexExpr::symbol(ir::kLane));
    result.push_back({ir::Loop{
        {scatters ? LoopTag::seq : LoopTag::unroll, row_var_, size_}, std::move(work), ir::PhaseBoundary::launches}});
    return result;
  }

  bool is_strided(const ir::Load& load) const {
    if (load.index.size() != 1) return false;
    const auto affine = affine_in(load.index[0], {across_, along_});
    return affine && affine->coefficient(across_).is(1) && !affine->coefficient(along_).is(0);
  }

 private:
  // Whether the lanes of a load are neither one element nor contiguous.
  bool is_scattered(const Stmt& stmt) const {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.empty() || s_.kernel.buffers[load->buffer].space == ir::Space::reg) return false;
    const auto affine = affine_in(load->index.back(), {along_});
    return !affine || !(affine->coefficient(along_).is(0) || affine->coefficient(along_).is(1));
  }

  // The lines of a load along the stores are read in a tile's rows, one each: too far apart for the hardware to look
  // ahead. Those of the next tile of the task are prefetched.
  void prefetch_rows(Block& work, const IndexExpr& row, const IndexExpr& column) {
    Block result;
    for (Stmt& stmt : work) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && s_.kernel.buffers[load->buffer].space == ir::Space::in && load->index.size() == 1) {
        const auto affine = affine_in(load->index[0], {across_, along_});
        if (affine && affine->coefficient(along_).is(1) && !affine->coefficient(across_).is(0)) {
          const std::map<ir::SymbolId, IndexExpr> next = {{across_, row + size_ + IndexExpr::symbol(row_var_)},
                                                          {along_, column}};
          result.push_back({ir::Prefetch{load->buffer, {load->index[0].substitute(next)}}});
        }
      }
      result.push_back(std::move(stmt));
    }
    work = std::move(result);
  }

  // Guards accesses outside of registers: row and column must not be negative.
  void guard(Block& block, const IndexExpr& row, const IndexExpr& column) const {
    for (Stmt& stmt : block) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      auto* store = std::get_if<ir::Store>(&stmt.v);
      if ((load == nullptr && store == nullptr) ||
          (load != nullptr && s_.kernel.buffers[load->buffer].space == ir::Space::reg))
        continue;
      ir::Guard& to = load != nullptr ? load->guard : store->guard;
      if (edges_.across) to.push_back(row);
      if (edges_.along && width_of(s_.kernel, stmt) > 1) to.push_back(column);
    }
  }

  // Loads size rows along `across` and transposes them in registers.
  BufferId turn(const ir::Load& load, const IndexExpr& row, const IndexExpr& column, Block& out) {
    if (!row_var_.valid()) row_var_ = add_var(s_.kernel);
    const BufferId read = tile_buffer(load), transposed = tile_buffer(load);
    out.push_back({ir::Alloc{read}});
    out.push_back({ir::Alloc{transposed}});
    const VarId u = add_var(s_.kernel);
    Block rows;
    ir::Load wide = load;
    wide.dst = add_reg(s_.kernel, s_.kernel.regs[load.dst].dtype, size_);
    const auto turned_dim = [&](const IndexExpr& d) {
      return d.substitute({{across_, row + IndexExpr::symbol(ir::kLane)}, {along_, column + IndexExpr::symbol(u)}});
    };
    for (IndexExpr& d : wide.index) d = turned_dim(d);
    for (IndexExpr& d : wide.guard) d = turned_dim(d);
    if (edges_.across) wide.guard.push_back(rows_ - 1 - row - IndexExpr::symbol(ir::kLane));
    if (edges_.along) wide.guard.push_back(columns_ - 1 - column - IndexExpr::symbol(u));
    // The task comes back for the next line of this row when it has stored a run.
    if (prefetches_) {
      const std::map<ir::SymbolId, IndexExpr> next = {{across_, row + size_}, {along_, column + IndexExpr::symbol(u)}};
      rows.push_back({ir::Prefetch{load.buffer, {load.index[0].substitute(next)}}});
    }
    rows.push_back({wide});
    rows.push_back(
        {ir::Store{read, {IndexExpr::symbol(u), IndexExpr::symbol(ir::kLane)}, wide.dst, {}, ir::StoreHint::none}});
    out.push_back({ir::Loop{{LoopTag::unroll, u, size_}, std::move(rows), ir::PhaseBoundary::launches}});
    out.push_back({ir::TransposeTile{transposed, read}});
    return transposed;
  }

  BufferId tile_buffer(const ir::Load& load) {
    const std::string name = "tile" + std::to_string(s_.kernel.buffers.size());
    return add_buffer(s_.kernel, {name, ir::Space::reg, s_.kernel.regs[load.dst].dtype, {size_, size_}, {}, 0, ""});
  }

  const Scheduling& s_;
  const PerfectNest& nest_;
  VarId along_, across_;
  IndexExpr rows_, columns_;
  int size_;
  Edges edges_;
  bool prefetches_;
  VarId row_var_;
};

// The tiles of a nest: those inside the extents, then those at its edges, in tasks that read and store whole lines.
class Transpose {
 public:
  Transpose(const Scheduling& s, PerfectNest nest, VarId across)
      : s_(s), nest_(std::move(nest)), along_(nest_.heads.back()) {
    across_ = *std::find_if(nest_.heads.begin(), nest_.heads.end(), [&](const LoopHead& h) { return h.var == across; });
    const bool is_whole = moves_alone() || element() == 2;
    size_ = is_whole ? s.target.vector_bytes / static_cast<int>(element()) : lanes_for(s.kernel, nest_.body, s.target);
    const int64_t shorter = std::min(known(along_.extent), known(across_.extent));
    while (size_ > kSmallestTile && size_ / 2 >= shorter) size_ /= 2;
    for (const LoopHead& head : nest_.heads)
      if (head.var != across_.var && head.var != along_.var) others_.push_back(head);
    plan_task();
  }

  // Short runs are not parted from their edge, which lies in a line with the rest: all tiles are guarded there.
  Block run() {
    const Edges edges = {!divisible_by(s_.kernel, across_.extent, size_),
                         !divisible_by(s_.kernel, along_.extent, size_)};
    const Edges short_runs = {edges.across && known(across_.extent) * element() < kRunBytes,
                              edges.along && known(along_.extent) * element() < kRunBytes};
    const IndexExpr all_rows = ceildiv(across_.extent, size_), all_columns = ceildiv(along_.extent, size_);
    const IndexExpr rows = short_runs.across ? all_rows : floordiv(across_.extent, size_),
                    columns = short_runs.along ? all_columns : floordiv(along_.extent, size_);
    Block result;
    if (!rows.is(0) && !columns.is(0)) append(result, tiles(0, rows, 0, columns, short_runs));
    if (edges.along && !short_runs.along)
      append(result, tiles(0, all_rows, columns, all_columns - columns, {edges.across, true}));
    if (edges.across && !short_runs.across && !columns.is(0))
      append(result, tiles(rows, all_rows - rows, 0, columns, {true, short_runs.along}));
    return result;
  }

 private:
  int64_t known(const IndexExpr& extent) const { return known_extent(s_, extent, kTaskElements); }

  // Whether nothing is computed: casts to the compute type and back vanish.
  bool moves_alone() const {
    return std::all_of(nest_.body.begin(), nest_.body.end(), [](const Stmt& stmt) {
      const auto* let = std::get_if<ir::Let>(&stmt.v);
      return let == nullptr || let->op == ir::ScalarOp::cast;
    });
  }

  // Bytes of the widest element that is moved.
  int64_t element() const {
    std::size_t bytes = 1;
    for (const Stmt& stmt : nest_.body) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      const auto* store = std::get_if<ir::Store>(&stmt.v);
      if (load != nullptr) bytes = std::max(bytes, size_of(s_.kernel.buffers[load->buffer].dtype));
      if (store != nullptr) bytes = std::max(bytes, size_of(s_.kernel.buffers[store->buffer].dtype));
    }
    return static_cast<int64_t>(bytes);
  }

  // The loop whose iterations store behind one another.
  std::size_t next_run() const {
    const auto vars = collect_vars(nest_.heads);
    for (const Stmt& stmt : nest_.body) {
      const auto* store = std::get_if<ir::Store>(&stmt.v);
      if (store == nullptr || store->index.size() != 1) continue;
      const auto affine = affine_in(store->index[0], vars);
      if (!affine) continue;
      for (std::size_t i = 0; i < others_.size(); ++i)
        if (affine->coefficient(others_[i].var) == along_.extent) return i;
    }
    return others_.size();
  }

  // The tiles of a task, and the iterations of the next run.
  void plan_task() {
    const int64_t tile_bytes = size_ * element(), runs = known(along_.extent) * element();
    along_tiles_ = std::max<int64_t>(1, kRunBytes / tile_bytes);
    if (runs < kRunBytes) next_run_ = next_run();
    if (next_run_ < others_.size()) times_ = std::max<int64_t>(1, kRunBytes / std::max<int64_t>(runs, 1));
    across_tiles_ = std::max<int64_t>(
        2, kTaskBytes / (tile_bytes * size_ * std::min(along_tiles_, runs / tile_bytes + 1) * times_));
    int64_t elements = 1;
    for (const LoopHead& head : nest_.heads) elements *= known_extent(s_, head.extent, 0);
    const int64_t bytes = elements * element();
    prefetches_ = bytes >= s_.target.l2_bytes * s_.target.threads;
    // A small array is cut into smaller tasks, so that all threads have some.
    for (int64_t task = kTaskBytes; bytes > 0 && bytes < 4 * task * s_.target.threads && across_tiles_ > 1; task /= 2)
      across_tiles_ /= 2;
  }

  // `count` tiles from `first` on, as tasks of `in_task`: the loop over tasks goes to `heads`; returns the loop inside.
  LoopHead split(std::vector<LoopHead>& heads, const IndexExpr& count, int64_t in_task, IndexExpr& at) {
    const VarId g = add_var(s_.kernel), k = add_var(s_.kernel);
    const IndexExpr done = IndexExpr(in_task) * IndexExpr::symbol(g);
    heads.push_back({LoopTag::grid, g, ceildiv(count, in_task)});
    at += done + IndexExpr::symbol(k);
    return {LoopTag::seq, k, divisible_by(s_.kernel, count, in_task) ? IndexExpr(in_task) : min(in_task, count - done)};
  }

  Block tiles(const IndexExpr& first_row, const IndexExpr& rows, const IndexExpr& first_column,
              const IndexExpr& columns, Edges edges) {
    std::vector<LoopHead> heads, inside;
    IndexExpr row = first_row, column = first_column, again = 0;
    for (std::size_t i = 0; i < others_.size(); ++i)
      if (i != next_run_) heads.push_back({LoopTag::grid, others_[i].var, others_[i].extent});
    if (next_run_ < others_.size()) inside.push_back(split(heads, others_[next_run_].extent, times_, again));
    inside.push_back(split(heads, columns, along_tiles_, column));
    inside.insert(inside.begin(), split(heads, rows, across_tiles_, row));
    heads.insert(heads.end(), inside.begin(), inside.end());
    Block tile =
        Tile(s_, nest_, across_, size_, edges, prefetches_).body(IndexExpr(size_) * row, IndexExpr(size_) * column);
    if (next_run_ < others_.size()) substitute(tile, others_[next_run_].var, again);
    Block result;
    result.push_back(rebuild_loops(heads, std::move(tile)));
    return result;
  }

  const Scheduling& s_;
  PerfectNest nest_;
  LoopHead along_, across_;
  std::vector<LoopHead> others_;
  int size_ = 0;
  std::size_t next_run_ = SIZE_MAX;
  int64_t across_tiles_ = 1, along_tiles_ = 1, times_ = 1;  // of a task
  bool prefetches_ = false;
};

}  // namespace

Block schedule_transpose(const Scheduling& s, PerfectNest nest, VarId across) {
  return Transpose(s, std::move(nest), across).run();
}

}  // namespace fusec::compiler
