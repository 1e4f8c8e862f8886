// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: rows that no 16-byte access divides. Their block loads them into shared memory as one range, the
// threads of each row take their elements from there, and results leave the same way. A row of any length is so read
// and written at the speed of a copy.
//
// A range that begins off a vector is as far off in shared memory, so that vectors inside of it are aligned on both
// sides. Element e of a block's range is element offset + e of its shared memory:
//
//   0      offset                    V*n       offset + size     V vectors' lanes
//   | ..... [ first end | vector 1 ... | last end ] .... |

#include "compiler/lower/cuda/staged_rows.h"

#include <algorithm>
#include <map>

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
  auto range = std::find_if(ranges_.begin(), ranges_.end(),
                            [&](const Range& r) { return r.buffer == access.buffer && r.stored == stored; });
  if (range == ranges_.end()) range = ranges_.insert(range, {access.buffer, stored, statements_, 0, {}});
  range->last_use = statements_;
}

void StagedRows::note(const std::vector<LoopHead>& loops, const Block& body) {
  IndexExpr length = 1;
  for (const LoopHead& loop : loops) length *= loop.extent;
  length_ = length.is_const() ? length.value() : 0;
  for (const Stmt& stmt : body) {
    ++statements_;
    if (const auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->clamp == 0)
      note_access(*load, false, loops);
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) note_access(*store, true, loops);
  }
}

bool StagedRows::only_loads() const {
  return std::none_of(ranges_.begin(), ranges_.end(), [](const Range& range) { return range.stored; });
}

std::vector<size_t> StagedRows::owners(bool in_place) const {
  std::vector<size_t> owners(ranges_.size());
  std::set<size_t> lent;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    owners[i] = i;
    const DType dtype = k_.buffers[ranges_[i].buffer].dtype;
    for (size_t j = 0; in_place && ranges_[i].stored && owners[i] == i && j < ranges_.size(); ++j) {
      const Range& other = ranges_[j];
      const bool is_read = other.stored || other.last_use >= ranges_[i].first_use;
      if (!is_read && k_.buffers[other.buffer].dtype == dtype && lent.insert(j).second) owners[i] = j;
    }
  }
  return owners;
}

int64_t StagedRows::bytes_of_element(bool in_place) const {
  const std::vector<size_t> owner = owners(in_place);
  int64_t bytes = 0;
  for (size_t i = 0; i < ranges_.size(); ++i)
    if (owner[i] == i) bytes += static_cast<int64_t>(size_of(k_.buffers[ranges_[i].buffer].dtype));
  return bytes;
}

bool StagedRows::are_many(const IndexExpr& all_rows, int rows) {
  return !all_rows.is_const() || all_rows.value() > int64_t{rows} * kAccessBytes;
}

void StagedRows::allocate(const RowShape& shape, VarId grid, VarId block, const IndexExpr& all_rows) {
  grid_ = grid, block_ = block, all_rows_ = all_rows;
  rows_ = shape.rows, blocks_ = shape.blocks, threads_ = shape.rows * shape.threads / shape.blocks;
  size_ = blocks_ > 1 ? int64_t{threads_} * shape.held * shape.lanes : rows_ * length_;
  if (shape.reduces) threads_ = std::max(threads_, kFillThreads);
  if (rows_ == 1 || shape.runs) rest_ = int64_t{shape.threads} * shape.held * shape.lanes - length_;
  goes_on_ = !shape.runs && rows_ == 1;
  const std::vector<size_t> owner = owners(!shape.runs);
  for (size_t i = 0; i < ranges_.size(); ++i) {
    Range& range = ranges_[i];
    const DType dtype = k_.buffers[range.buffer].dtype;
    range.lanes = kAccessBytes / static_cast<int>(size_of(dtype));
    range.has_ends = are_many(all_rows, rows_) && threads_ >= kWarp && rows_ * length_ % range.lanes != 0;
    while (!range.has_ends && size_ % range.lanes != 0) range.lanes /= 2;
    if (owner[i] != i) continue;
    std::vector<IndexExpr> extents{capacity(range)};
    if (blocks_ > 1) extents.insert(extents.begin(), blocks_);
    range.shared = add_buffer(
        k_, {"rows" + std::to_string(k_.buffers.size()), ir::Space::shared, dtype, std::move(extents), {}, 0, ""});
    shared_.insert(range.shared);
  }
  for (size_t i = 0; i < ranges_.size(); ++i) ranges_[i].shared = ranges_[owner[i]].shared;
}

int64_t StagedRows::capacity(const Range& range) const {
  const int64_t ends = range.has_ends ? 2 * range.lanes - 1 : 0;
  const int64_t rest = blocks_ > 1 || (range.stored && !goes_on_) ? 0 : rest_;
  return (size_ + ends) / range.lanes * range.lanes + rest;
}

IndexExpr StagedRows::offset(const Range& range) const {
  return range.has_ends ? mod(IndexExpr::symbol(grid_) * (rows_ * length_), range.lanes) : IndexExpr(0);
}

IndexExpr StagedRows::begin() const {
  const IndexExpr first = IndexExpr::symbol(grid_) * (rows_ * length_);
  return blocks_ > 1 ? first + IndexExpr::symbol(block_) * size_ : first;
}

std::vector<IndexExpr> StagedRows::place(const IndexExpr& at) const {
  if (blocks_ > 1) return {IndexExpr::symbol(block_), at};
  return {at};
}

void StagedRows::redirect(Block& body, const std::vector<LoopHead>& loops, const IndexExpr& row) const {
  const auto turn = [&](auto& access, bool stored) {
    const Range* range = access.guard.empty() ? find(access.buffer, access.index, stored, loops) : nullptr;
    if (range == nullptr) return;
    IndexExpr at = offset(*range) + row * length_ + position(loops);
    if (blocks_ > 1) at = at - IndexExpr::symbol(block_) * size_;
    access.buffer = range->shared;
    access.index = place(at);
  };
  for (Stmt& stmt : body) {
    if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->clamp == 0) turn(*load, false);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) turn(*store, true);
  }
}

void StagedRows::drop_guards(Block& row, const ir::Guard& inside) {
  if (!goes_on_) return;
  std::map<BufferId, double> padding;
  bool same = true;
  for_each_stmt(row, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || !contains(load->buffer)) return;
    const double value = padding.try_emplace(load->buffer, load->otherwise.f).first->second;
    same &= load->guard == inside && value == load->otherwise.f;
  });
  if (!same) return;
  for_each_stmt(row, [&](Stmt& stmt) {
    const auto drop = [&](auto& access) {
      if (contains(access.buffer) && access.guard == inside) access.guard.clear();
    };
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) drop(*load);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) drop(*store);
  });
  for (Range& range : ranges_)
    if (const auto value = padding.find(range.shared); value != padding.end()) range.padding = value->second;
  pads_ = true;
}

// Between the buffer and shared memory. Most blocks have all of their rows, and guard no access. The last block of a
// cluster may have fewer elements than the others.
Block StagedRows::transfer(const Range& range) const {
  const int64_t accesses = size_ / range.lanes, turns = (accesses + threads_ - 1) / threads_;
  const LoopHead threads{LoopTag::block, add_var(k_), range.has_ends ? threads_ : (accesses + turns - 1) / turns};
  Block result;
  if (blocks_ > 1) {
    const IndexExpr left = blocks_ - 1 - IndexExpr::symbol(block_);
    const int64_t last = length_ - (blocks_ - 1) * size_;
    for (const auto& [condition, size] : {std::pair(left, size_), std::pair(1 - left, last)}) {
      const LoopHead own{LoopTag::block, add_var(k_), threads.extent};
      Block body;
      body.push_back(only_if(k_, condition, transfer(range, own, size, true)));
      result.push_back(rebuild_loops({{LoopTag::cluster, block_, blocks_}, own}, std::move(body)));
    }
    return result;
  }
  Block body = transfer(range, threads, size_, true);
  if (!divisible_by(k_, all_rows_, rows_)) {
    const IndexExpr left = whole_tiles_left(all_rows_, rows_, IndexExpr::symbol(grid_));
    body = whole_or_partial(k_, {left}, std::move(body), transfer(range, threads, size_, false));
  }
  result.push_back(rebuild_loops({threads}, std::move(body)));
  return result;
}

// `size`: elements. Where the range has ends, vector 0 and those that may not lie wholly inside of it are taken element
// by element: less than two vectors at the end.
Block StagedRows::transfer(const Range& range, const LoopHead& threads, int64_t size, bool is_whole) const {
  const DType dtype = k_.buffers[range.buffer].dtype;
  const int64_t lanes = range.lanes, first = range.has_ends ? 1 : 0, end = std::max(first, size / lanes);
  const int64_t threads_count = threads.extent.value(), turns = (end - first + threads_count - 1) / threads_count;
  const IndexExpr t = IndexExpr::symbol(threads.var), off = offset(range), all = all_rows_ * length_;
  const bool whole_vectors = !range.has_ends && divisible_by(k_, all, range.lanes);
  Block early, late;

  // Copies one access of `width` lanes from place `at` of shared memory on, or to it. The load happens early, and what
  // is loaded of a range is stored late. `beyond`: places behind the range get the padding.
  const auto copy = [&](const IndexExpr& at, int width, const ir::Guard& inside, const LoopHead* turn,
                        const ir::Guard* beyond = nullptr) {
    const IndexExpr lane = lane_of(width), from = begin() + at - off;
    const std::vector<IndexExpr> outer{from + lane}, inner = place(at + lane);
    ir::Guard in_rows = inside;
    if (!is_whole) in_rows.push_back(whole_vectors ? all - width - from : all - 1 - (from + lane));
    const RegId value = add_reg(k_, dtype, width);
    const auto repeat = [&](Block block, Block& out) {
      if (turn == nullptr) return append(out, std::move(block));
      out.push_back(rebuild_loops({*turn}, std::move(block)));
    };
    Block loads, stores;
    if (range.stored) {
      loads.push_back({ir::Load{value, range.shared, inner, inside, ir::Constant{dtype}, 0}});
      loads.push_back({ir::Store{range.buffer, outer, value, in_rows, ir::StoreHint::none}});
      return repeat(std::move(loads), early);
    }
    ir::Constant otherwise{dtype};
    if (beyond != nullptr) otherwise.f = range.padding;
    loads.push_back({ir::Load{value, range.buffer, outer, in_rows, otherwise, 0}});
    RegId again = value;
    if (turn != nullptr) {
      const BufferId held = add_buffer(
          k_, {"held" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, {turn->extent, width}, {}, 0, ""});
      const std::vector<IndexExpr> held_at{IndexExpr::symbol(turn->var), lane};
      early.push_back({ir::Alloc{held}});
      loads.push_back({ir::Store{held, held_at, value, {}, ir::StoreHint::none}});
      again = add_reg(k_, dtype, width);
      stores.push_back({ir::Load{again, held, held_at, {}, ir::Constant{dtype}, 0}});
    }
    stores.push_back(
        {ir::Store{range.shared, inner, again, beyond == nullptr ? inside : *beyond, ir::StoreHint::none}});
    repeat(std::move(loads), early), repeat(std::move(stores), late);
  };

  if (range.has_ends) {
    const IndexExpr last = off + size - 1;
    ir::Guard inside{lanes - 1 - t, t - off};
    if (size < lanes) inside.push_back(last - t);
    copy(t, 1, inside, nullptr);
    const int64_t behind = end * lanes, count = lanes - 1 + size - behind;
    const int64_t places = pads_ && !range.stored ? capacity(range) - behind : count;
    const LoopHead turn{LoopTag::unroll, add_var(k_), (places + threads_count - 1) / threads_count};
    const bool one_turn = turn.extent.is(1);
    const IndexExpr n = one_turn ? t : IndexExpr::symbol(turn.var) * threads_count + t;
    const ir::Guard beyond{places - 1 - n};
    copy(behind + n, 1, {count - 1 - n, last - behind - n}, one_turn ? nullptr : &turn,
         places > count ? &beyond : nullptr);
  }
  if (turns > 0) {
    const LoopHead turn{LoopTag::unroll, add_var(k_), turns};
    const IndexExpr n = IndexExpr::symbol(turn.var) * threads_count + t, at = (n + first) * lanes;
    ir::Guard inside;
    if (turns * threads_count != end - first) inside.push_back(end - first - 1 - n);
    copy(at, range.lanes, inside, &turn);
  }
  append(early, std::move(late));
  return early;
}

// What lanes behind the end of the last row read.
Stmt StagedRows::fill_rest(const Range& range) const {
  const VarId t = add_var(k_);
  Block body;
  body.push_back({ir::Store{range.shared,
                            place(offset(range) + size_ + IndexExpr::symbol(t)),
                            ir::Constant{k_.buffers[range.buffer].dtype},
                            {},
                            ir::StoreHint::none}});
  return rebuild_loops({{LoopTag::block, t, rest_}}, std::move(body));
}

void StagedRows::wrap(Block& work) const {
  Block all;
  for (const BufferId id : shared_) all.push_back({ir::Alloc{id}});
  for (const Range& range : ranges_)
    if (!range.stored) {
      append(all, transfer(range));
      if (rest_ > 0 && !goes_on_) all.push_back(fill_rest(range));
    }
  append(all, std::move(work));
  for (const Range& range : ranges_)
    if (range.stored) append(all, transfer(range));
  work = std::move(all);
}

}  // namespace fusec::compiler
