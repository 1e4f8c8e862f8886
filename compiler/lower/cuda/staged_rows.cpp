// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: short rows that no 16-byte access divides. Their block loads them into shared memory as one range,
// the threads of each row take their elements from there, and results leave the same way. A row of any length is so
// read and written at the speed of a copy.

#include "compiler/lower/cuda/staged_rows.h"

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kFillThreads = 256;  // that load rows which are only reduced

IndexExpr lane_of(int lanes) { return lanes > 1 ? IndexExpr::symbol(ir::kLane) : IndexExpr(0); }

// The number of an element within its row.
IndexExpr position(const std::vector<LoopHead>& loops) {
  IndexExpr at = 0;
  for (const LoopHead& loop : loops) at = at * loop.extent + IndexExpr::symbol(loop.var);
  return at;
}

bool mentions_any(const std::vector<IndexExpr>& index, const std::vector<LoopHead>& loops) {
  return std::any_of(index.begin(), index.end(), [&](const IndexExpr& d) {
    return std::any_of(loops.begin(), loops.end(), [&](const LoopHead& loop) { return d.uses(loop.var); });
  });
}

}  // namespace

bool StagedRows::is_single() const {
  return std::all_of(heads_.begin(), heads_.end(), [](const LoopHead& head) { return head.extent.is(1); });
}

// Whether row r begins at element r * length.
bool StagedRows::is_row(const std::vector<IndexExpr>& index, const std::vector<LoopHead>& loops) const {
  if (index.size() != 1) return false;
  std::vector<LoopHead> all = heads_;
  all.insert(all.end(), loops.begin(), loops.end());
  const auto affine = affine_in(index[0], collect_vars(all));
  if (!affine || !affine->rest.is(0)) return false;
  IndexExpr stride = 1;
  for (size_t i = all.size(); i-- > 0; stride *= all[i].extent)
    if (!all[i].extent.is(1) && !(affine->coefficient(all[i].var) == stride)) return false;
  return true;
}

const StagedRows::Range* StagedRows::find(BufferId buffer, const std::vector<IndexExpr>& index, bool stored,
                                          const std::vector<LoopHead>& loops) const {
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.buffer == buffer && range.stored == stored && is_row(index, loops);
  });
  return found == ranges_.end() ? nullptr : &*found;
}

template <class Access>
void StagedRows::note_access(const Access& access, bool stored, const std::vector<LoopHead>& loops) {
  const ir::Buffer& buffer = k_.buffers[access.buffer];
  if (buffer.space != (stored ? ir::Space::out : ir::Space::in)) return;
  if (!mentions_any(access.index, loops) || (!is_single() && !mentions_any(access.index, heads_))) return;
  if (moved_.insert(access.buffer).second) moved_bytes_ += static_cast<int64_t>(size_of(buffer.dtype));
  if (!is_row(access.index, loops) || !access.guard.empty()) return;
  if (find(access.buffer, access.index, stored, loops) == nullptr) ranges_.push_back({access.buffer, stored, {}, 1, 0});
}

void StagedRows::note(const std::vector<LoopHead>& loops, const Block& body) {
  IndexExpr length = 1;
  for (const LoopHead& loop : loops) length *= loop.extent;
  length_ = length.is_const() ? length.value() : 0;
  for (const Stmt& stmt : body) {
    if (const auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->clamp == 0)
      note_access(*load, false, loops);
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) note_access(*store, true, loops);
  }
}

bool StagedRows::only_loads() const {
  return std::none_of(ranges_.begin(), ranges_.end(), [](const Range& range) { return range.stored; });
}

int64_t StagedRows::held_bytes() const {
  int64_t bytes = 0;
  for (const Range& range : ranges_) bytes += length_ * static_cast<int64_t>(size_of(k_.buffers[range.buffer].dtype));
  return bytes;
}

void StagedRows::allocate(const RowShape& shape, const IndexExpr& grid, const IndexExpr& all_rows) {
  rows_ = shape.rows, threads_ = shape.rows * shape.threads, grid_ = grid, all_rows_ = all_rows;
  if (shape.reduces) threads_ = std::max(threads_, kFillThreads);
  rest_ = int64_t{shape.threads} * shape.lanes - length_;
  for (Range& range : ranges_) {
    const DType dtype = k_.buffers[range.buffer].dtype;
    range.lanes = kAccessBytes / static_cast<int>(size_of(dtype));
    while (rows_ * length_ % range.lanes != 0) range.lanes /= 2;
    range.accesses = rows_ * length_ / range.lanes;
    const std::string name = "rows" + std::to_string(k_.buffers.size());
    range.shared =
        add_buffer(k_, {name, ir::Space::shared, dtype, {range.size() + (range.stored ? 0 : rest_)}, {}, 0, ""});
    shared_.insert(range.shared);
  }
}

void StagedRows::redirect(Block& body, const std::vector<LoopHead>& loops, const IndexExpr& row) const {
  const auto turn = [&](auto& access, bool stored) {
    const Range* range = access.guard.empty() ? find(access.buffer, access.index, stored, loops) : nullptr;
    if (range == nullptr) return;
    access.buffer = range->shared;
    access.index = {row * length_ + position(loops)};
  };
  for (Stmt& stmt : body) {
    if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->clamp == 0) turn(*load, false);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) turn(*store, true);
  }
}

namespace {

// The accesses of the block in equal turns of its threads, if possible. Element `at` is the first of an access in
// shared memory.
struct Turns {
  VarId thread, turn;
  int64_t threads = 1, count = 1;
  IndexExpr at;
  ir::Guard inside;  // the access is one of the block's

  LoopHead threads_head() const { return {LoopTag::block, thread, threads}; }
  LoopHead head() const { return {LoopTag::unroll, turn, count}; }
};

Turns take_turns(ir::Kernel& k, int64_t threads, int64_t accesses, int lanes) {
  Turns t{add_var(k), add_var(k), threads, (accesses + threads - 1) / threads, {}, {}};
  t.threads = (accesses + t.count - 1) / t.count;
  const IndexExpr number = IndexExpr::symbol(t.turn) * t.threads + IndexExpr::symbol(t.thread);
  t.at = number * lanes;
  if (t.threads * t.count != accesses) t.inside.push_back(accesses - 1 - number);
  return t;
}

Block over_threads(const Turns& t, Block body) {
  Block result;
  result.push_back(rebuild_loops({t.threads_head()}, std::move(body)));
  return result;
}

}  // namespace

IndexExpr StagedRows::blocks_left() const { return whole_tiles_left(all_rows_, rows_, grid_); }

// Most blocks have all of their rows, and guard no access.
Block StagedRows::whole_or_guarded(const Range& range, const std::function<Block(const ir::Guard&)>& make,
                                   const IndexExpr& at) const {
  const IndexExpr end = all_rows_ * length_;
  const bool is_aligned = divisible_by(k_, end, range.lanes);
  const ir::Guard guard{is_aligned ? end - range.lanes - at : end - 1 - at - lane_of(range.lanes)};
  if (divisible_by(k_, all_rows_, rows_)) return make({});
  return whole_or_partial(k_, {blocks_left()}, make({}), make(guard));
}

Block StagedRows::fill(const Range& range) const {
  const Turns t = take_turns(k_, threads_, range.accesses, range.lanes);
  const DType dtype = k_.buffers[range.buffer].dtype;
  const IndexExpr from = grid_ * (rows_ * length_) + t.at;
  const std::vector<IndexExpr> held_at{IndexExpr::symbol(t.turn), lane_of(range.lanes)};
  const auto make = [&](const ir::Guard& in_rows) {
    const BufferId held = add_buffer(
        k_, {"held" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, {t.count, range.lanes}, {}, 0, ""});
    const RegId value = add_reg(k_, dtype, range.lanes), again = add_reg(k_, dtype, range.lanes);
    ir::Guard guard = t.inside;
    guard.insert(guard.end(), in_rows.begin(), in_rows.end());
    Block loads, stores, body;
    loads.push_back({ir::Load{value, range.buffer, {from + lane_of(range.lanes)}, guard, ir::Constant{dtype}, 0}});
    loads.push_back({ir::Store{held, held_at, value, {}, ir::StoreHint::none}});
    stores.push_back({ir::Load{again, held, held_at, {}, ir::Constant{dtype}, 0}});
    stores.push_back({ir::Store{range.shared, {t.at + lane_of(range.lanes)}, again, t.inside, ir::StoreHint::none}});
    body.push_back({ir::Alloc{held}});
    body.push_back(rebuild_loops({t.head()}, std::move(loads)));
    body.push_back(rebuild_loops({t.head()}, std::move(stores)));
    return body;
  };
  return over_threads(t, whole_or_guarded(range, make, from));
}

// What lanes behind the end of the last row read.
Stmt StagedRows::fill_rest(const Range& range) const {
  const VarId t = add_var(k_);
  Block body;
  body.push_back({ir::Store{range.shared,
                            {IndexExpr::symbol(t) + range.size()},
                            ir::Constant{k_.buffers[range.buffer].dtype},
                            {},
                            ir::StoreHint::none}});
  return rebuild_loops({{LoopTag::block, t, rest_}}, std::move(body));
}

Block StagedRows::drain(const Range& range) const {
  const Turns t = take_turns(k_, threads_, range.accesses, range.lanes);
  const DType dtype = k_.buffers[range.buffer].dtype;
  const IndexExpr to = grid_ * (rows_ * length_) + t.at;
  const auto make = [&](const ir::Guard& in_rows) {
    const RegId value = add_reg(k_, dtype, range.lanes);
    ir::Guard guard = t.inside;
    guard.insert(guard.end(), in_rows.begin(), in_rows.end());
    Block body, turns;
    body.push_back({ir::Load{value, range.shared, {t.at + lane_of(range.lanes)}, t.inside, ir::Constant{dtype}, 0}});
    body.push_back({ir::Store{range.buffer, {to + lane_of(range.lanes)}, value, guard, ir::StoreHint::none}});
    turns.push_back(rebuild_loops({t.head()}, std::move(body)));
    return turns;
  };
  return over_threads(t, whole_or_guarded(range, make, to));
}

void StagedRows::wrap(Block& work) const {
  Block all;
  for (const Range& range : ranges_) all.push_back({ir::Alloc{range.shared}});
  for (const Range& range : ranges_)
    if (!range.stored) {
      append(all, fill(range));
      if (rest_ > 0) all.push_back(fill_rest(range));
    }
  append(all, std::move(work));
  for (const Range& range : ranges_)
    if (range.stored) append(all, drain(range));
  work = std::move(all);
}

}  // namespace fusec::compiler
