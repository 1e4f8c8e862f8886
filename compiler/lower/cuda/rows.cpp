// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules rows, each of which a group of threads shares. Thread l of warp w of a group holds the
// accesses j = 0 ... of `lanes` elements each that begin at element
//
//   ((w*held + j)*32 + l)*lanes      of a row that is held in registers: each warp has a stretch of its own,
//   ((j*warps + w)*32 + l)*lanes     of a longer row, which is read again in every phase.
//
// Rows that no access of 8 bytes divides take the lanes of an access 32 elements apart, so that a warp's threads reach
// neighbouring elements: lane i of access j is element ((w*held + j)*lanes + i)*32 + l.
//
// A reduction adds lane by lane over j, then combines lanes and threads by pairs. The order of additions depends on the
// row's length and type alone, for long odd rows also on whether the GPU has clusters.
//
// Where blocks can form clusters, these share the threads of a group that would fill a block, and hold longer rows
// (row_clusters.cpp). So every element is read from memory once, and while the threads of one group wait for each
// other, others of the same multiprocessor load or store.

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/cuda/row_shape.h"
#include "compiler/lower/cuda/staged_rows.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kNarrowBytes = 4;          // of an access: longer rows of wider ones need no shared memory
constexpr int64_t kStagedBytes = 32768;  // of shared memory: several such blocks fit on a multiprocessor

// Schedules all phases of a row: reductions, and loops that store full outputs.
class RowSchedule {
 public:
  RowSchedule(const Scheduling& s, const PerfectNest& nest)
      : s_(s), k_(s.kernel), nest_(nest), staged_(s, nest.heads), padding_(s.kernel) {}

  bool suits() {
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Scan>(stmt.v)) return false;
      if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
        if (!note_phase(reduce->loops, reduce->body)) return false;
      } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
        const PerfectNest loops = peel_loops(stmt);
        if (!note_phase(loops.heads, loops.body)) return false;
      }
    }
    if (length_) choose_shape();
    return length_.has_value();
  }

  // Whether the row has a constant length and does not fit in registers.
  bool is_long() const { return length_->is_const() && shape_.held == 0; }

  // Lets a cluster hold a long row, if it can.
  bool hold_in_cluster() {
    const auto shape = shape_of_cluster(s_, nest_);
    if (shape) shape_ = *shape;
    return shape.has_value();
  }

  Block run() {
    const IndexExpr index = name_loops();
    if (shape_.staged) staged_.allocate(shape_, grid_, b_, count_iterations(nest_.heads));
    Block row = phases();
    const bool reads_again = inner_.size() > 1;
    if (shape_.held > 0 && reads_again && (shape_.blocks > 1 || s_.choice.holds != Decision::no)) hold_values(row);
    if (shape_.blocks > 1 || shape_.lane_stride > 1) keep_results(row);
    if (shape_.staged) staged_.drop_guards(row, inside());
    if (shape_.blocks > 1) prefetch(row, index);
    Block group = wrap_rows(std::move(row), index);
    if (shape_.staged) staged_.wrap(group);
    Block result;
    result.push_back(rebuild_loops({{LoopTag::grid, grid_, ceildiv(linear_.total, shape_.rows)}}, std::move(group)));
    return result;
  }

 private:
  // --- what the nest is --------------------------------------------------------------------------------------------

  // Every phase must have the row's length, but may merge its loops differently.
  bool note_phase(const std::vector<LoopHead>& loops, const Block& body) {
    if (loops.empty()) return false;
    IndexExpr length = 1;
    for (const LoopHead& head : loops) {
      if (head.extent.uses(ir::kLane)) return false;
      length *= head.extent;
    }
    if (length_ && !(*length_ == length)) return false;
    for (const Stmt& stmt : body)
      if (std::holds_alternative<ir::Loop>(stmt.v) && has_reduction(body)) return false;
    length_ = length;
    has_single_loops_ &= loops.size() == 1;
    inner_.push_back(loops.back().extent);
    max_lanes_ = std::min(max_lanes_, lanes_of_access(k_, body, loops.back().var));
    staged_.note(loops, body);
    return true;
  }

  void choose_shape() {
    int lanes = max_lanes_;
    const auto divides = [&](const IndexExpr& d) { return divisible_by(k_, d, lanes); };
    while (lanes > 1 && !std::all_of(inner_.begin(), inner_.end(), divides)) lanes /= 2;
    const auto length = length_->is_const() ? std::optional(length_->value()) : std::nullopt;
    shape_ = odd_shape(length, lanes).value_or(shape_of_row(length, lanes));
    if (has_local_buffers() && shape_.held == 0) shape_.held = held_at_least();
    const bool fills_block = shape_.threads == kMaxBlockThreads && shape_.held > 0 && inner_.size() > 1;
    if (fills_block && s_.target.sm >= kClusterSm) shape_.blocks = kMaxBlockThreads / kClusterThreads;
    choose_rows();
  }

  // The shape of short rows whose accesses could be wider, and of others that have accesses of at most 4 bytes, where
  // rows lie side by side. They pass through shared memory, unless there is only one row, which has the same bits.
  // Longer rows do so only where that is faster: not if there is one phase, which reads each element once anyway, and
  // the row needs a cluster; and not if there are several, elements have 4 bytes, and few threads share the row.
  std::optional<RowShape> odd_shape(std::optional<int64_t> length, int lanes) const {
    const int element = kAccessBytes / max_lanes_;
    const bool is_short = length && *length <= kMaxStagedLength;
    if (!length || lanes == max_lanes_ || !has_single_loops_ || staged_.empty()) return std::nullopt;
    if (!is_short && lanes * element > kNarrowBytes) return std::nullopt;
    std::optional<RowShape> shape = is_short ? shape_of_short_odd_row(*length, element)
                                             : shape_of_long_odd_row(*length, element, s_.target.sm >= kClusterSm);
    if (!shape || !fits_in_shared(*shape, *length, staged_.bytes_of_element(!shape->runs))) return std::nullopt;
    const bool reads_once = inner_.size() == 1, is_small = shape->threads < kClusterThreads;
    if (!is_short && (reads_once ? shape->blocks > 1 : is_small && element >= 4)) return std::nullopt;
    shape->staged = !staged_.is_single();
    shape->reduces = is_short && shape->staged && staged_.only_loads();
    return shape;
  }

  void choose_rows() {
    const IndexExpr rows = count_iterations(nest_.heads);
    if (shape_.threads < kMaxBlockThreads && shape_.blocks == 1) {
      const int wanted = choose_rows_of_block(s_, shape_, staged_.moved_bytes(), rows) * shape_.threads;
      shape_.rows = std::max(1, decide(s_, &ScheduleChoice::threads, wanted) / shape_.threads);
    }
    while (shape_.rows > 1 && rows.is_const() && 2 * rows.value() <= shape_.rows) shape_.rows /= 2;
    const int64_t of_row = staged_.bytes_of_element(!shape_.runs);
    const auto holds = [&] { return shape_.rows * length_->value() * of_row <= kStagedBytes; };
    while (shape_.staged && shape_.rows > 1 && !holds()) shape_.rows /= 2;
    shape_.staged &= shape_.runs || StagedRows::are_many(rows, shape_.rows);
  }

  bool has_local_buffers() const {
    return std::any_of(nest_.body.begin(), nest_.body.end(),
                       [](const Stmt& stmt) { return std::holds_alternative<ir::Alloc>(stmt.v); });
  }

  // The lower stage keeps values of a row only where longest_held_row() allows it.
  int held_at_least() const {
    const int64_t accesses = (length_->value() + shape_.lanes - 1) / shape_.lanes;
    return static_cast<int>((accesses + shape_.threads - 1) / shape_.threads);
  }

  // --- names and indices -------------------------------------------------------------------------------------------

  // Creates the loop variables; returns the row's number.
  IndexExpr name_loops() {
    grid_ = add_var(k_), r_ = add_var(k_), w_ = add_var(k_), l_ = add_var(k_), j_ = add_var(k_);
    if (shape_.blocks > 1) b_ = add_var(k_);
    if (shape_.chunks > 1) c_ = add_var(k_);
    const IndexExpr row = shape_.rows > 1 ? IndexExpr(shape_.rows) * IndexExpr::symbol(grid_) + IndexExpr::symbol(r_)
                                          : IndexExpr::symbol(grid_);
    linear_ = linearize(nest_.heads, row);
    return row;
  }

  IndexExpr warp() const {
    if (shape_.blocks > 1) return IndexExpr::symbol(b_) * (shape_.warps() / shape_.blocks) + IndexExpr::symbol(w_);
    return shape_.warps() > 1 ? IndexExpr::symbol(w_) : IndexExpr(0);
  }
  IndexExpr in_warp() const { return shape_.warp_threads() > 1 ? IndexExpr::symbol(l_) : IndexExpr(0); }
  IndexExpr step() const {
    if (shape_.held == 1) return 0;
    if (shape_.chunks > 1) return IndexExpr::symbol(c_) * shape_.steps() + IndexExpr::symbol(j_);
    return backward_ ? steps() - 1 - IndexExpr::symbol(j_) : IndexExpr::symbol(j_);
  }

  // The number within the row of this thread's access j, and its first element.
  IndexExpr access_number() const { return stretch() * shape_.warp_threads() + in_warp(); }
  IndexExpr stretch() const {
    return shape_.held > 0 ? warp() * shape_.held + step() : step() * shape_.warps() + warp();
  }
  IndexExpr start() const {
    if (shape_.lane_stride > 1) return stretch() * (shape_.lanes * shape_.lane_stride) + in_warp();
    return access_number() * shape_.lanes;
  }

  IndexExpr steps() const {
    return shape_.held > 0 ? IndexExpr(shape_.held) : ceildiv(*length_, int64_t{shape_.lanes} * shape_.threads);
  }
  LoopHead step_loop() const {
    if (shape_.chunks > 1) return {LoopTag::unroll, j_, shape_.steps()};
    return {shape_.held > 0 ? LoopTag::unroll : LoopTag::seq, j_, steps()};
  }
  LoopHead chunk_loop() const { return {LoopTag::unroll, c_, shape_.chunks}; }

  bool always_inside() const {
    const int64_t all = int64_t{shape_.lanes} * shape_.threads * std::max(1, shape_.held);
    return shape_.held > 0 ? *length_ == IndexExpr(all) : divisible_by(k_, *length_, all);
  }
  // Lanes divide a row that is not staged, so an access is inside or outside as a whole.
  ir::Guard inside() const {
    if (always_inside()) return {};
    if (shape_.runs || shape_.lane_stride > 1)
      return {*length_ - 1 - start() - IndexExpr::symbol(ir::kLane) * shape_.lane_stride};
    return {*length_ - shape_.lanes - start()};
  }

  // The ranges of the loop variables that name_loops creates.
  ir::IndexRanges ranges() const {
    std::vector<LoopHead> heads = thread_loops();
    heads.push_back(step_loop());
    if (shape_.chunks > 1) heads.push_back(chunk_loop());
    return ir::compute_ranges(heads, shape_.lanes);
  }

  std::vector<LoopHead> thread_loops() const {
    std::vector<LoopHead> heads;
    if (shape_.blocks > 1) heads.push_back({LoopTag::cluster, b_, shape_.blocks});
    if (shape_.warps() > 1) heads.push_back({LoopTag::block, w_, shape_.warps() / shape_.blocks});
    if (shape_.warp_threads() > 1) heads.push_back({LoopTag::block, l_, shape_.warp_threads()});
    return heads;
  }

  // --- phases ------------------------------------------------------------------------------------------------------

  // Whether a phase may read its row in any order.
  bool is_free(const Stmt& stmt) const {
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr) return true;
    const bool chooses = reduce->combiner == ir::Combiner::max || reduce->combiner == ir::Combiner::min;
    return chooses || (reduce->dst.size() == 1 && !is_float(k_.regs[reduce->dst[0]].dtype));
  }

  // A phase reads a row that is not held from the end at which the previous phase stopped, if the order of sums allows
  // it. That part is still in the L2 cache even if the rows of all blocks do not fit there.
  void turn(const Stmt& phase) {
    if (shape_.held == 0) backward_ = is_free(phase) && !backward_;
  }

  Block phases() {
    Block row;
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v) || std::holds_alternative<ir::Loop>(stmt.v)) turn(stmt);
      if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) {
        keep_in_registers(alloc->buffer, row);
      } else if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
        row.push_back(reduction(*reduce));
      } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
        row.push_back(element_wise(stmt));
      } else {
        row.push_back(stmt);
      }
    }
    return row;
  }

  // Replaces a buffer of the row's elements by one of each thread's part of the row.
  void keep_in_registers(BufferId id, Block& out) {
    ir::Buffer& buffer = k_.buffers[id];
    buffer.shape.clear();
    for (const LoopHead& head : thread_loops()) buffer.shape.push_back(head.extent);
    buffer.shape.push_back(shape_.held);
    buffer.shape.push_back(shape_.lanes);
    kept_.insert(id);
    out.push_back({ir::Alloc{id}});
  }

  std::vector<IndexExpr> kept_at() const {
    std::vector<IndexExpr> index;
    for (const LoopHead& head : thread_loops()) index.push_back(IndexExpr::symbol(head.var));
    index.push_back(step());
    index.push_back(shape_.lanes > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0));
    return index;
  }

  // The body of a phase for one access.
  Block accessed(const std::vector<LoopHead>& loops, const Block& body) {
    Block block = clone(k_, body);
    if (shape_.staged) staged_.redirect(block, loops, shape_.rows > 1 ? IndexExpr::symbol(r_) : IndexExpr(0));
    if (shape_.lane_stride > 1) {
      vectorize(k_, block, loops[0].var, shape_.lanes, start());
      const IndexExpr lane = IndexExpr::symbol(ir::kLane) * shape_.lane_stride;
      for_each_stmt(block, [&](Stmt& stmt) {
        for_each_index(stmt, [&](IndexExpr& d) { d = d.substitute({{ir::kLane, lane}}); });
      });
    } else {
      take_accesses(loops, block);
    }
    for_each_stmt(block, [&](Stmt& stmt) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) access(*load);
      if (auto* store = std::get_if<ir::Store>(&stmt.v)) access(*store);
    });
    return block;
  }

  // Replaces the loops over elements by the number of this thread's access.
  void take_accesses(const std::vector<LoopHead>& loops, Block& block) {
    std::vector<LoopHead> accesses = loops;
    LoopHead& inner = accesses.back();
    inner.extent = floordiv(inner.extent, shape_.lanes);
    const Linear where = linearize(accesses, access_number());
    const IndexExpr at = where.values.at(inner.var) * shape_.lanes;
    vectorize(k_, block, inner.var, shape_.lanes, at);
    for (size_t i = 0; i + 1 < loops.size(); ++i) substitute(block, loops[i].var, where.values.at(loops[i].var));
  }

  // Whether the access has an index from data. The index may depend on the position in the row; past the end of the row
  // it could be out of range, which would be an error.
  static bool takes_data(const ir::Load& load) { return load.clamp != 0; }
  static bool takes_data(const ir::Store&) { return false; }

  template <class Access>
  void access(Access& a) {
    for (IndexExpr& d : a.index) d = simplify(d, ranges());
    if (kept_.contains(a.buffer)) {
      a.index = kept_at();
      a.guard.clear();
      return;
    }
    // Past the end of the row a guard that depends on the position says nothing of the index.
    if (!uses_thread(a.index) && !uses_thread(a.guard) && !takes_data(a)) return;
    // Shared memory goes on behind the end of a row.
    if (std::is_same_v<Access, ir::Load> && shape_.runs && staged_.contains(a.buffer)) return;
    for (const IndexExpr& g : inside()) a.guard.push_back(g);
  }

  Stmt element_wise(const Stmt& stmt) {
    const PerfectNest loops = peel_loops(stmt);
    Block body = accessed(loops.heads, loops.body);
    padding_.note(body);
    std::vector<LoopHead> heads = thread_loops();
    if (shape_.chunks > 1) heads.push_back(chunk_loop());
    if (shape_.held != 1) heads.push_back(step_loop());
    return heads.empty() ? rebuild_loops({{LoopTag::seq, add_var(k_), 1}}, std::move(body))
                         : rebuild_loops(heads, std::move(body));
  }

  // Whether the row's only phase finds the place of an element, for which any order gives the same bits, by narrow
  // accesses: then instructions take longer than memory.
  bool finds_place(const ir::Reduce& whole) const {
    const bool is_place = whole.dst.size() == 2 && whole.combiner != ir::Combiner::max_sum;
    const bool holds_some = shape_.held > 1 && (shape_.lanes < max_lanes_ || shape_.lane_stride > 1);
    return is_place && inner_.size() == 1 && holds_some && makes_tuples(k_, whole);
  }

  // Finds the best of the thread's own elements, then compares it with those of other threads.
  Stmt place_reduction(const ir::Reduce& whole) {
    ir::Reduce group = whole;
    group.loops = thread_loops();
    group.tree = {shape_.warp_threads(), shape_.warps() > 1 ? shape_.warp_threads() : 0};
    group.body.clear();
    group.yield =
        reduce_to_tuple(k_, whole.combiner, {build_yields(whole), step_loop(), shape_.lanes, inside()}, group.body);
    return {std::move(group)};
  }

  // Reduces the thread's own elements lane by lane, then lanes, threads and warps by pairs.
  Stmt reduction(const ir::Reduce& whole) {
    if (finds_place(whole)) return place_reduction(whole);
    ir::Reduce own = whole;
    own.loops = shape_.held == 1 ? std::vector<LoopHead>() : std::vector<LoopHead>{step_loop()};
    own.tree = {};
    own.guard = inside();
    own.body = build_yields(whole);
    own.yield = std::get<ir::Reduce>(own.body.back().v).yield;
    own.body.pop_back();
    if (!shape_.runs && padding_.fill(whole, own)) own.guard.clear();
    ir::Reduce group = whole;
    group.loops = thread_loops();
    if (shape_.chunks > 1) {
      const bool in_order = !is_free({whole});
      auto& loops = in_order ? group.loops : own.loops;
      loops.insert(in_order ? loops.end() - 1 : loops.begin(), chunk_loop());
    }
    const int64_t of_warp = int64_t{shape_.lanes} * shape_.warp_threads();
    group.tree = {of_warp, shape_.warps() > 1 ? of_warp : 0};
    if (shape_.runs) {
      group.tree = {shape_.lanes, shape_.threads > 1 ? shape_.lanes : 0};
      group.guard = own.guard, group.body = std::move(own.body), group.yield = own.yield;
      return {std::move(group)};
    }
    for (RegId& dst : own.dst) dst = add_reg(k_, k_.regs[dst].dtype, shape_.lanes);
    group.guard.clear();
    group.yield.assign(own.dst.begin(), own.dst.end());
    group.body.clear();
    group.body.push_back({std::move(own)});
    return {std::move(group)};
  }

  // The body for one access, followed by a statement that carries its yields, as wide as an access.
  Block build_yields(const ir::Reduce& whole) {
    Block body = whole.body;
    body.push_back({ir::Reduce{{}, whole.combiner, {}, {}, {}, whole.yield, {}}});
    body = accessed(whole.loops, body);
    Stmt carrier = std::move(body.back());
    body.pop_back();
    for (size_t i = 0; i < whole.dst.size(); ++i) {
      Operand& yield = std::get<ir::Reduce>(carrier.v).yield[i];
      if (width_of(k_, yield) == shape_.lanes) continue;
      const RegId wide = add_reg(k_, k_.regs[whole.dst[i]].dtype, shape_.lanes);
      body.push_back({ir::Let{wide, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), yield, yield}}});
      yield = wide;
    }
    body.push_back(std::move(carrier));
    return body;
  }

  // --- values held over phases -------------------------------------------------------------------------------------

  // The statements of each thread in a phase.
  Block* find_body(Stmt& phase) const {
    if (auto* reduce = std::get_if<ir::Reduce>(&phase.v))
      return shape_.runs ? &reduce->body : &std::get<ir::Reduce>(reduce->body[0].v).body;
    auto* loop = std::get_if<ir::Loop>(&phase.v);
    while (loop != nullptr && loop->body.size() == 1 && std::holds_alternative<ir::Loop>(loop->body[0].v))
      loop = &std::get<ir::Loop>(loop->body[0].v);
    return loop == nullptr ? nullptr : &loop->body;
  }

  bool can_hold(const ir::Load& load) const {
    const bool is_input = k_.buffers[load.buffer].space == ir::Space::in || staged_.contains(load.buffer);
    const bool of_input = is_input && load.clamp == 0;
    const bool moves = width_of(k_, {load}) == shape_.lanes && uses_thread(load.index);
    return of_input && moves;
  }
  bool uses_thread(const std::vector<IndexExpr>& index) const {
    return std::any_of(index.begin(), index.end(), [&](const IndexExpr& d) {
      return d.uses(l_) || d.uses(w_) || d.uses(j_) || d.uses(ir::kLane) || (shape_.blocks > 1 && d.uses(b_)) ||
             (shape_.chunks > 1 && d.uses(c_));
    });
  }

  // Lets the first of several phases load what all of them need, and holds it in registers.
  void hold_values(Block& row) {
    std::vector<RowPhase> phases;
    for (Stmt& stmt : row)
      if (Block* body = find_body(stmt)) phases.push_back({body, &stmt});
    const HeldElements elements{k_, kept_, kept_at()};
    const auto is_held = [&](const ir::Load& load) { return can_hold(load); };
    for (const SharedValue& value :
         choose_values(elements, phases, shape_.held * shape_.lanes, shape_.lane_stride > 1, is_held)) {
      const DType dtype = dtype_of(k_, value);
      held_registers_ += shape_.held * shape_.lanes * static_cast<int>(size_of(dtype)) / 4;
      decide(s_, &ScheduleChoice::holds, true);
      const BufferId buffer =
          add_buffer(k_, {"held" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, {}, {}, 0, ""});
      keep_in_registers(buffer, first_);
      hold_value(k_, value, phases, buffer, kept_at());
    }
  }

  // Lets the last phase take from the registers what an earlier one computed of held values at some cost, such as the
  // exponentials of a softmax.
  void keep_results(Block& row) {
    Block* last = find_body(row.back());
    if (last == nullptr || !std::holds_alternative<ir::Loop>(row.back().v)) return;
    for (size_t p = row.size() - 1; p-- > 0;) {
      Block* body = find_body(row[p]);
      if (body == nullptr) continue;
      if (take_result({k_, kept_, kept_at()}, *body, *last) || loads_any(*body, kept_)) return;
    }
  }

  // Puts it behind the first reduction: the row itself is loaded first.
  void prefetch(Block& row, const IndexExpr& index) {
    auto stmt = prefetch_row_ahead(s_, {shape_.threads, shape_.blocks, held_registers_}, nest_, index);
    const auto first =
        std::find_if(row.begin(), row.end(), [](const Stmt& s) { return std::holds_alternative<ir::Reduce>(s.v); });
    if (stmt) row.insert(first + 1, std::move(*stmt));
  }

  // --- rows --------------------------------------------------------------------------------------------------------

  // Replaces the loops over rows by the row's number. The last block may have fewer rows.
  Block wrap_rows(Block row, const IndexExpr& index) {
    row.insert(row.begin(), std::make_move_iterator(first_.begin()), std::make_move_iterator(first_.end()));
    for (const LoopHead& head : nest_.heads) substitute(row, head.var, linear_.values.at(head.var));
    if (shape_.rows == 1) return row;
    if (!divisible_by(k_, linear_.total, shape_.rows)) guard_rows(k_, row, linear_.total - 1 - index, {grid_, r_});
    Block result;
    result.push_back({ir::Loop{{LoopTag::block, r_, shape_.rows}, std::move(row), ir::PhaseBoundary::launches}});
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  std::optional<IndexExpr> length_;
  std::vector<IndexExpr> inner_;  // innermost extents of the phases
  bool has_single_loops_ = true;  // all phases
  int max_lanes_ = kAccessBytes;
  RowShape shape_;
  StagedRows staged_;
  VarId grid_, r_, b_, w_, c_, l_, j_;
  bool backward_ = false;  // whether the current phase reads its accesses in reverse
  Linear linear_;
  std::set<BufferId> kept_;
  RowPadding padding_;
  Block first_;  // allocations of held loads
  int held_registers_ = 0;
};

}  // namespace

std::optional<Block> cuda_rows(const Scheduling& s, const PerfectNest& nest) {
  RowSchedule rows(s, nest);
  if (!rows.suits()) return std::nullopt;
  if (rows.is_long() && !rows.hold_in_cluster()) {
    if (auto long_rows = cuda_long_rows(s, nest)) return long_rows;
  }
  return rows.run();
}

}  // namespace fusec::compiler
