// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules rows that do not fit in the registers of one block. A row is a sequence of chunks
// (row_chunks.h), which every schedule combines to the same bits:
//
//   cluster  the blocks of a cluster hold the chunks of a row in registers (rows.cpp);
//   whole    one block takes a row and does all its phases, if there are rows for every multiprocessor;
//   slices   each block takes an aligned run of chunks of one row and stores their combination to scratch. Later grid
//            phases combine the slices again. Element-wise loops become launches of their own;
//   passes   slices, where both passes over a row are tasks of one launch: the second one finds the row in L2.

#include <algorithm>
#include <bit>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_chunks.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kRowChunks = 8;    // of a whole row that one warp reduces, in accumulators of their own
constexpr int64_t kSliceChunks = 4;  // of a slice
constexpr int64_t kSliceWarps = 8;
constexpr int kTasksSm = 70;              // the first architecture with instructions that release and acquire memory
constexpr int64_t kTaskChunks = 2;        // of a slice that is a task; more where accesses are narrow
constexpr int64_t kAheadBytes = 4 << 20;  // by which the first pass is ahead of a row before the second one
constexpr int64_t kRowWarps = 32;         // of a block that takes a whole row
constexpr int64_t kWarpsOfSm = 16;        // enough to keep loads under way
constexpr ir::Tree kFolds{0, 0};          // of slices, and of nothing else here
constexpr int64_t kFoldThreads = 256;     // of a block that combines slices and does nothing else
constexpr int64_t kFoldBlocks = 32;       // of a multiprocessor, which each combine the slices of their row

// The power of two up to n, which counts as 1 if it is less.
int64_t floor_power(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

class LongRows {
 public:
  LongRows(const Scheduling& s, const PerfectNest& nest, std::vector<RowPart> parts)
      : s_(s), k_(s.kernel), heads_(nest.heads), parts_(std::move(parts)), memory_(s.kernel, nest.heads) {
    for (LoopHead& head : heads_) head.tag = LoopTag::grid;
    for (RowPart& part : parts_)
      for (Stmt& stmt : part.reductions) order_by_memory(std::get<ir::Reduce>(stmt.v), k_);
    join_reductions(k_, parts_);
  }

  Block run() {
    const int64_t most = (int64_t{3} * s_.target.sm_count + 3) / 4;
    const bool fits = std::all_of(parts_.begin(), parts_.end(), [&](const RowPart& part) {
      return part.reductions.empty() || chunks_of(part).count <= kRowWarps * kRowChunks;
    });
    if (fits && !transposes()) {
      const bool many = has_many(s_, memory_.rows(), most, false);
      if (!decide(s_, &ScheduleChoice::slices, !many)) return whole();
    }
    return slices(typical_value(s_, memory_.rows()).value_or(kUnknownRows));
  }

 private:
  // Whether a loop stores elements in another order than it loads them: its launch can do that by tiles.
  bool transposes() const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const RowPart& part) {
      if (!part.loop) return false;
      PerfectNest nest = peel_loops(*part.loop);
      nest.heads.insert(nest.heads.begin(), heads_.begin(), heads_.end());
      return strided_across(nest).has_value();
    });
  }

  Chunks chunks_of(const Stmt& reduction) const {
    const auto& reduce = std::get<ir::Reduce>(reduction.v);
    return find_chunks(k_, reduce.loops, reduce.body);
  }
  // Of the part's longest sequence of chunks.
  Chunks chunks_of(const RowPart& part) const {
    Chunks most;
    for (const Stmt& stmt : part.reductions) {
      const Chunks own = chunks_of(stmt);
      if (own.count > most.count) most = own;
    }
    return most;
  }

  // --- whole rows --------------------------------------------------------------------------------------------------

  // A phase whose order is free reads the row from the end at which the previous one stopped: that part is still in the
  // L2 cache.
  Block whole() {
    bool backward = false;
    Block body;
    for (const RowPart& part : parts_) {
      append(body, part.before);
      for (const Stmt& stmt : part.reductions) {
        const int64_t count = chunks_of(stmt).count, warps = std::min(kRowWarps, ceil_power(count));
        const auto& row = std::get<ir::Reduce>(stmt.v);
        backward = is_order_free(k_, row) && !backward;
        const Slices all{warps, ceil_power(ceil_div(count, warps)), 1};
        body.push_back(reduce_share(k_, row, all, add_var(k_), backward));
      }
      append(body, part.after);
      if (part.loop) body.push_back(element_wise(*part.loop, !backward));
    }
    Block result;
    result.push_back(rebuild_loops(heads_, std::move(body)));
    return result;
  }

  // Runs the loop in the order of the chunks, or backward.
  Stmt element_wise(const Stmt& stmt, bool backward) {
    const PerfectNest loops = peel_loops(stmt);
    Chunks chunks = find_chunks(k_, loops.heads, loops.body);
    chunks.steps = ceil_div(ceil_div(chunks.length, chunks.lanes), kRowWarps * kWarp);
    RowPlace p = place_of(k_, chunks, {kRowWarps, 1, 1}, add_var(k_));
    if (backward) p.number = p.number.substitute({{p.j, chunks.steps - 1 - IndexExpr::symbol(p.j)}});
    Block body = accessed(k_, loops.heads, loops.body, chunks, p);
    return rebuild_loops({p.heads[1], p.heads[3], {LoopTag::seq, p.j, chunks.steps}}, std::move(body));
  }

  // --- slices ------------------------------------------------------------------------------------------------------

  Slices slices_of(const RowPart& part, int64_t rows) const {
    const int64_t count = chunks_of(part).count, sms = std::max(1, s_.target.sm_count);
    Slices s;
    s.chunks = std::clamp<int64_t>(floor_power(count * rows / (sms * kWarpsOfSm)), 1, kSliceChunks);
    s.warps = std::clamp<int64_t>(floor_power(count / s.chunks * rows / (2 * sms)), 1, kSliceWarps);
    s.count = ceil_div(count, s.warps * s.chunks);
    return s;
  }

  Block slices(int64_t rows) {
    if (suit_passes() && decide(s_, &ScheduleChoice::passes, want_passes())) return passes();
    Block grids;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].loop) {
        element_wise_launch(i, grids);
      } else {
        reduce_slices(i, rows, grids);
      }
    }
    Block result = memory_.take_allocations();
    append(result, std::move(grids));
    return result;
  }

  // --- both passes in one launch -----------------------------------------------------------------------------------

  // One pass reduces the rows and one makes the results of them; a thread holds the elements of a task.
  bool suit_passes() const {
    const bool two = parts_.size() == 2 && !parts_[0].reductions.empty() && !parts_[0].loop && parts_[1].loop;
    if (!two || has_store(parts_[0].before) || has_store(parts_[0].after)) return false;
    const PerfectNest loops = peel_loops(*parts_[1].loop);
    const Chunks results = find_chunks(k_, loops.heads, loops.body), reduced = chunks_of(parts_[0]);
    const bool alike = std::all_of(parts_[0].reductions.begin(), parts_[0].reductions.end(),
                                   [&](const Stmt& stmt) { return chunks_of(stmt) == reduced; });
    const bool held = reduced.steps == kMinSteps && results.lanes <= reduced.lanes * kMinSteps &&
                      reduced.lanes * kMinSteps <= results.lanes * kStepsUnrolled;
    return alike && held && results.length == reduced.length && s_.target.sm >= kTasksSm;
  }

  // Of the pass that reduces.
  int64_t narrowness() const { return narrowness_of(k_, std::get<ir::Reduce>(parts_[0].reductions[0].v)); }
  int64_t bytes_of_access() const { return kAccessBytes / narrowness(); }

  // Two passes in one launch read a row from memory once, if it fits in L2 beside what is under way. They are no faster
  // where L2 holds all rows. (Not measured where accesses are of less than 8 bytes.)
  bool want_passes() const {
    const Chunks chunks = chunks_of(parts_[0]);
    const int64_t row = chunks.length * bytes_of_access() / chunks.lanes, cache = s_.target.last_level_cache;
    if (2 * row > cache || shares_much(*parts_[1].loop) || narrowness() > 2) return false;
    return has_many(s_, memory_.rows(), cache / row + 1, false);
  }

  // The tasks of the passes have the same slices. The second pass begins with the slice that the first one has read
  // last.
  Block passes() {
    Slices slices{kSliceWarps, kTaskChunks * narrowness(), 1};
    slices.count = ceil_div(chunks_of(parts_[0]).count, slices.warps * slices.chunks);
    const VarId first = add_var(k_), second = add_var(k_);
    Block results = combine_slices(slices, first);
    Block statistics = std::move(known_);
    known_ = std::move(results);
    hoist_from_loop(parts_[1], known_);
    spread_folds(known_, slices.threads());
    Block elements = task_elements(*parts_[1].loop, slices, second, std::move(known_));
    substitute(elements, second, slices.count - 1 - IndexExpr::symbol(second));
    Block both;
    both.push_back(rebuild_loops({{LoopTag::grid, first, slices.count}}, clone(k_, statistics)));
    both.push_back(rebuild_loops({{LoopTag::grid, second, slices.count}}, clone(k_, elements)));
    const int64_t bytes = slices.warps * slices.chunks * chunks_of(parts_[0]).accesses() * bytes_of_access();
    const ir::TaskOrder order{memory_.allocate("counters", DType::i32, {memory_.rows() + 1}),
                              ceil_div(kAheadBytes, bytes)};
    Block grids;
    grids.push_back(clear(order.counters, memory_.rows() + 1));
    grids.push_back(rebuild_loops(heads_, std::move(both)));
    std::get<ir::Loop>(grids.back().v).tasks = order;
    Block result = memory_.take_allocations();
    append(result, std::move(grids));
    return result;
  }

  // Leaves in known_ what reduces a slice and keeps that, and returns what makes a row's values of all of its slices.
  Block combine_slices(const Slices& slices, VarId slice) {
    Block folds = parts_[0].before;
    known_ = parts_[0].before;
    for (const Stmt& stmt : parts_[0].reductions) {
      known_.push_back(reduce_share(k_, std::get<ir::Reduce>(stmt.v), slices, slice, false));
      folds.push_back(fold(stmt, slices, store_partials(stmt, slices, slice, known_)));
    }
    drop_unread(known_, {});
    append(folds, std::move(parts_[0].after));
    return folds;
  }

  // Stores a zero to each element.
  Stmt clear(BufferId buffer, const IndexExpr& count) {
    const VarId b = add_var(k_), t = add_var(k_);
    const IndexExpr at = IndexExpr::symbol(b) * kFoldThreads + IndexExpr::symbol(t);
    Block body;
    body.push_back({ir::Store{buffer, {at}, ir::int_constant(DType::i32, 0), {count - 1 - at}, ir::StoreHint::none}});
    return rebuild_loops(
        {{LoopTag::grid, b, floordiv(count + (kFoldThreads - 1), kFoldThreads)}, {LoopTag::block, t, kFoldThreads}},
        std::move(body));
  }

  // Makes the results of a slice. Each thread loads its elements before `row`, which makes values of the row, so that
  // they come while the task waits for these.
  Block task_elements(const Stmt& stmt, const Slices& slices, VarId slice, Block row) {
    PerfectNest loops = peel_loops(stmt);
    order_by_memory(loops, k_);
    Chunks chunks = find_chunks(k_, loops.heads, loops.body);
    const Chunks reduced = chunks_of(parts_[0]);
    chunks.steps = reduced.steps * reduced.lanes / chunks.lanes;
    const RowPlace p = place_of(k_, chunks, slices, slice);
    Block computed = accessed(k_, loops.heads, loops.body, chunks, p), body;
    Block loads = hold_loads(p, computed, body);
    const std::vector<LoopHead> around = {p.heads[1], p.heads[3], p.heads[2], p.heads[4]};
    Block first;
    if (!loads.empty()) first.push_back(rebuild_loops(around, std::move(loads)));
    append(body, clone(k_, first));
    append(body, std::move(row));
    body.push_back(rebuild_loops(around, std::move(computed)));
    return body;
  }

  // Lets `computed` take what it loads of each row from registers, which it appends to `declarations`. Returns what
  // puts it there.
  Block hold_loads(const RowPlace& p, Block& computed, Block& declarations) {
    Block loads;
    for (Stmt& stmt : computed) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      const bool of_data = load != nullptr && k_.buffers[load->buffer].space == ir::Space::in && load->clamp == 0;
      if (!of_data || !moves(load->index, p) || !uses_any(load->index, heads_)) continue;
      const ir::RegInfo info = k_.regs[load->dst];
      const IndexExpr warps = p.heads[1].extent, accesses = p.heads[2].extent * p.heads[4].extent;
      const BufferId held = add_buffer(k_, {"held" + std::to_string(k_.buffers.size()),
                                            ir::Space::reg,
                                            info.dtype,
                                            {warps, kWarp, accesses, info.width},
                                            {},
                                            0,
                                            ""});
      const std::vector<IndexExpr> at = {IndexExpr::symbol(p.w), IndexExpr::symbol(p.l),
                                         IndexExpr::symbol(p.c) * p.heads[4].extent + IndexExpr::symbol(p.j),
                                         info.width > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0)};
      loads.push_back(stmt);
      loads.push_back({ir::Store{held, at, load->dst, {}, ir::StoreHint::none}});
      declarations.push_back({ir::Alloc{held}});
      stmt = {ir::Load{load->dst, held, at, {}, ir::Constant{info.dtype}, 0}};
    }
    return loads;
  }

  // Ends with a grid phase over the rows only if something is stored there. Else later phases combine the slices.
  void reduce_slices(size_t i, int64_t rows, Block& grids) {
    RowPart& part = parts_[i];
    append(known_, std::move(part.before));
    if (!part.reductions.empty()) {
      const Slices slices = slices_of(part, rows);
      const VarId slice = add_var(k_);
      Block body = known_, folds;
      for (const Stmt& stmt : part.reductions) {
        body.push_back(reduce_share(k_, std::get<ir::Reduce>(stmt.v), slices, slice, false));
        const auto partials = store_partials(stmt, slices, slice, body);
        folds.push_back(fold(stmt, slices, partials));
      }
      drop_unread(body, {});
      spread_folds(body, slices.threads());
      std::vector<LoopHead> grid = heads_;
      grid.push_back({LoopTag::grid, slice, slices.count});
      if (passes_after(i) % 2 == 1) reverse(grid, body);
      grids.push_back(rebuild_loops(grid, clone(k_, body)));
      append(known_, std::move(folds));
    }
    append(known_, std::move(part.after));
    if (has_store(known_)) finish_rows(i + 1, grids);
  }

  int64_t passes_after(size_t i) const {
    return std::count_if(parts_.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts_.end(),
                         [](const RowPart& part) { return part.loop || !part.reductions.empty(); });
  }

  // Lets the last block do what the first would: what it reads is what the next pass, which runs the other way, reads
  // first, from the L2 cache.
  static void reverse(const std::vector<LoopHead>& grid, Block& body) {
    for (const LoopHead& head : grid) substitute(body, head.var, head.extent - 1 - IndexExpr::symbol(head.var));
  }

  std::vector<BufferId> store_partials(const Stmt& stmt, const Slices& slices, VarId slice, Block& body) {
    std::vector<BufferId> partials;
    for (const RegId dst : std::get<ir::Reduce>(stmt.v).dst) {
      partials.push_back(memory_.allocate("slices", k_.regs[dst].dtype, {memory_.rows(), slices.count}));
      body.push_back(
          {ir::Store{partials.back(), {memory_.row(), IndexExpr::symbol(slice)}, dst, {}, ir::StoreHint::none}});
    }
    return partials;
  }

  // Combines the slices of a row in one loop, which spread_folds distributes over the threads of a grid phase.
  Stmt fold(const Stmt& stmt, const Slices& slices, const std::vector<BufferId>& partials) {
    const auto& row = std::get<ir::Reduce>(stmt.v);
    const VarId t = add_var(k_);
    ir::Reduce all{row.dst, row.combiner, kFolds, {{LoopTag::block, t, slices.count}}, {}, {}, {}};
    for (size_t i = 0; i < partials.size(); ++i) {
      const DType dtype = k_.regs[row.dst[i]].dtype;
      const RegId part = add_reg(k_, dtype);
      all.body.push_back(
          {ir::Load{part, partials[i], {memory_.row(), IndexExpr::symbol(t)}, {}, ir::Constant{dtype}, 0}});
      all.yield.push_back(part);
    }
    return {std::move(all)};
  }

  // Gives each thread a run of slices.
  void spread_folds(Block& body, int64_t threads) {
    for (Stmt& stmt : body) {
      auto* all = std::get_if<ir::Reduce>(&stmt.v);
      if (all == nullptr || !(all->tree == kFolds)) continue;
      const VarId t = all->loops[0].var, w = add_var(k_), l = add_var(k_), u = add_var(k_);
      const int64_t count = all->loops[0].extent.value(), run = ceil_power(ceil_div(count, threads));
      const IndexExpr at =
          (IndexExpr::symbol(w) * kWarp + IndexExpr::symbol(l)) * run + (run > 1 ? IndexExpr::symbol(u) : IndexExpr(0));
      substitute(all->body, t, at);
      all->guard = {count - 1 - at};
      for (Stmt& load : all->body) std::get<ir::Load>(load.v).guard = all->guard;
      all->loops = {{LoopTag::block, w, threads / kWarp}, {LoopTag::block, l, kWarp}};
      if (run > 1) all->loops.push_back({LoopTag::unroll, u, run});
    }
  }

  // A grid phase over the rows: computes what is known, and keeps what parts from number `next` on read.
  void finish_rows(size_t next, Block& grids) {
    const int64_t slices = most_slices();
    Block body = std::move(known_);
    known_ = memory_.keep(body, find_reads_from(parts_, next));
    drop_unread(body, {});
    spread_folds(body, std::clamp<int64_t>(ceil_power(slices), kWarp, kFoldThreads));
    grids.push_back(rebuild_loops(heads_, clone(k_, body)));
  }

  void element_wise_launch(size_t i, Block& grids) {
    hoist_from_loop(parts_[i], known_);
    if (has_reduction(known_) && fold_in_blocks(i, grids)) return;
    if (has_reduction(known_)) finish_rows(i, grids);
    append(grids, schedule_loop(s_, heads_, parts_[i], known_));
  }

  int64_t most_slices() const {
    int64_t slices = 1;
    for (const Stmt& stmt : known_)
      if (const auto* all = std::get_if<ir::Reduce>(&stmt.v)) slices = std::max(slices, all->loops[0].extent.value());
    return slices;
  }

  // Lets each block of the loop's launch combine the slices of its row, where they are few: that takes less time than a
  // launch.
  bool fold_in_blocks(size_t i, Block& grids) {
    if (most_slices() > kFoldThreads) return false;
    Block launch = schedule_loop(s_, heads_, parts_[i], {}, true);
    if (launch.size() != 1) return false;
    PerfectNest blocks = peel_grid(std::move(launch[0]));
    const int64_t threads = count_threads(blocks.body);
    if (threads % kWarp != 0) return false;
    // More blocks combine the slices at the cost of a launch for them alone.
    if (known_value(s_, count_iterations(blocks.heads)).value_or(0) > kFoldBlocks * s_.target.sm_count)
      finish_rows(i, grids);
    const auto of_rows = static_cast<std::ptrdiff_t>(heads_.size());
    if (shares_much(*parts_[i].loop))
      std::rotate(blocks.heads.begin(), blocks.heads.begin() + of_rows, blocks.heads.end());
    Block body = std::move(known_);
    spread_folds(body, threads);
    append(body, std::move(blocks.body));
    grids.push_back(rebuild_loops(blocks.heads, std::move(body)));
    return true;
  }

  // Whether all rows read some operands, and these fill much of the L2 cache. Then blocks go from row to row first.
  bool shares_much(const Stmt& loop) const {
    const PerfectNest elements = peel_loops(loop);
    int64_t bytes = 0;
    for (const Stmt& stmt : elements.body) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || k_.buffers[load->buffer].space != ir::Space::in || uses_any(load->index, heads_)) continue;
      IndexExpr count = 1;
      for (const LoopHead& head : elements.heads)
        if (uses_any(load->index, {head})) count *= head.extent;
      bytes += known_value(s_, count).value_or(0) * static_cast<int64_t>(size_of(k_.buffers[load->buffer].dtype));
    }
    return 4 * bytes > s_.target.last_level_cache;
  }

  static int64_t count_threads(const Block& block) {
    int64_t most = 1;
    for (const Stmt& stmt : block) {
      const auto* loop = std::get_if<ir::Loop>(&stmt.v);
      if (loop == nullptr) continue;
      const int64_t own = loop->head.tag == LoopTag::block ? loop->head.extent.value() : 1;
      most = std::max(most, own * count_threads(loop->body));
    }
    return most;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  std::vector<LoopHead> heads_;  // over rows
  std::vector<RowPart> parts_;
  RowMemory memory_;
  Block known_;  // what makes the values of a row that earlier parts computed
};

}  // namespace

std::optional<Block> cuda_long_rows(const Scheduling& s, const PerfectNest& nest) {
  auto parts = take_apart(nest.body, true);
  if (!parts) return std::nullopt;
  return LongRows(s, nest, std::move(*parts)).run();
}

}  // namespace fusec::compiler
