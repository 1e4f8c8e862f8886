// SPDX-License-Identifier: Apache-2.0
// Rows that pass through shared memory. A block loads all elements of its rows as one range, whole vectors wherever a
// row begins, and stores results the same way.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "compiler/lower/cuda/row_shape.h"

namespace fusec::compiler {

class StagedRows {
 public:
  StagedRows(const Scheduling& s, const std::vector<ir::LoopHead>& heads) : s_(s), k_(s.kernel), heads_(heads) {}

  // Notes what a phase, which runs over the elements of a row, loads and stores.
  void note(const std::vector<ir::LoopHead>& loops, const ir::Block& body);
  bool empty() const { return ranges_.empty(); }
  bool is_single() const;  // whether there is one row
  bool only_loads() const;
  // What global memory moves for one row, and what shared memory holds of it.
  int64_t moved_bytes() const { return length_ * moved_bytes_; }
  int64_t held_bytes() const;

  // Allocates shared memory. A block has the rows from shape.rows * grid on, of `all_rows`.
  void allocate(const RowShape& shape, const IndexExpr& grid, const IndexExpr& all_rows);
  // Turns accesses of a phase, as `note` had them, into accesses to row number `row` of the block.
  void redirect(ir::Block& body, const std::vector<ir::LoopHead>& loops, const IndexExpr& row) const;
  // Whether the buffer has rows in shared memory. All lanes of a row's accesses are inside of it.
  bool contains(ir::BufferId buffer) const { return shared_.contains(buffer); }
  // Puts what the block loads and allocates in front of the work on rows, and what it stores behind it.
  void wrap(ir::Block& work) const;

 private:
  // Consecutive rows in a buffer.
  struct Range {
    ir::BufferId buffer;
    bool stored = false;
    ir::BufferId shared;
    int lanes = 1;         // of an access of the block
    int64_t accesses = 0;  // of the block

    int64_t size() const { return accesses * lanes; }
  };

  bool is_row(const std::vector<IndexExpr>& index, const std::vector<ir::LoopHead>& loops) const;
  const Range* find(ir::BufferId buffer, const std::vector<IndexExpr>& index, bool stored,
                    const std::vector<ir::LoopHead>& loops) const;
  template <class Access>
  void note_access(const Access& access, bool stored, const std::vector<ir::LoopHead>& loops);
  IndexExpr blocks_left() const;
  ir::Block whole_or_guarded(const Range& range, const std::function<ir::Block(const ir::Guard&)>& make,
                             const IndexExpr& at) const;
  ir::Block fill(const Range& range) const;
  ir::Stmt fill_rest(const Range& range) const;
  ir::Block drain(const Range& range) const;

  const Scheduling& s_;
  ir::Kernel& k_;
  const std::vector<ir::LoopHead>& heads_;
  int64_t length_ = 0, moved_bytes_ = 0;
  std::set<ir::BufferId> moved_, shared_;
  std::vector<Range> ranges_;
  int rows_ = 1, threads_ = 1;  // of a block
  int64_t rest_ = 0;            // lanes of a row's last access behind its end
  IndexExpr grid_, all_rows_;
};

}  // namespace fusec::compiler
