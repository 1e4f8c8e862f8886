// SPDX-License-Identifier: Apache-2.0
// Rows that pass through shared memory. A block loads all elements of its rows, or of its part of one row, as one
// range: whole vectors inside, single elements at ends that lie off a vector. Results leave the same way.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "compiler/lower/cuda/row_shape.h"

namespace fusec::compiler {

class StagedRows {
 public:
  StagedRows(const Scheduling& s, const std::vector<ir::LoopHead>& heads) : s_(s), k_(s.kernel), heads_(heads) {}

  // Notes what a phase, which runs over the elements of a row, loads and stores. Phases come in their order.
  void note(const std::vector<ir::LoopHead>& loops, const ir::Block& body);
  bool empty() const { return ranges_.empty(); }
  bool is_single() const;  // whether there is one row
  bool only_loads() const;
  // What global memory moves for one row.
  int64_t moved_bytes() const { return length_ * moved_bytes_; }
  // What shared memory holds of an element in all ranges. `in_place`: results take the place of what was loaded.
  int64_t bytes_of_element(bool in_place) const;

  // Whether the blocks of so many rows begin off vectors in as many ways as there are. Few blocks have no need of
  // vectors.
  static bool are_many(const IndexExpr& all_rows, int rows);
  // Allocates shared memory. A block has the rows from shape.rows * grid on, of `all_rows`; in a cluster, block number
  // `block` has the elements of its threads.
  void allocate(const RowShape& shape, ir::VarId grid, ir::VarId block, const IndexExpr& all_rows);
  // Turns accesses of a phase, as `note` had them, into accesses to row number `row` of the block.
  void redirect(ir::Block& body, const std::vector<ir::LoopHead>& loops, const IndexExpr& row) const;
  // Lets accesses to shared memory go on behind the end of the row, guarded by `inside` so far, where no other row is.
  void drop_guards(ir::Block& row, const ir::Guard& inside);
  // Whether the buffer has rows in shared memory.
  bool contains(ir::BufferId buffer) const { return shared_.contains(buffer); }
  // Puts what the block loads and allocates in front of the work on rows, and what it stores behind it.
  void wrap(ir::Block& work) const;

 private:
  // Consecutive rows in a buffer, or a part of one.
  struct Range {
    ir::BufferId buffer;
    bool stored = false;
    size_t first_use = 0, last_use = 0;  // in the order of all statements
    ir::BufferId shared;
    int lanes = 1;          // of an access of the block
    bool has_ends = false;  // it may begin and end off a vector
    double padding = 0;     // behind the end of the row
  };

  bool is_row(const std::vector<IndexExpr>& index, const std::vector<ir::LoopHead>& loops) const;
  const Range* find(ir::BufferId buffer, const std::vector<IndexExpr>& index, bool stored,
                    const std::vector<ir::LoopHead>& loops) const;
  template <class Access>
  void note_access(const Access& access, bool stored, const std::vector<ir::LoopHead>& loops);
  // For each range the one whose memory it takes: its own, or that of a range which is no longer read.
  std::vector<size_t> owners(bool in_place) const;
  int64_t capacity(const Range& range) const;
  // The block's first element in the buffer, and how far that is off a vector, as far as it is in shared memory.
  IndexExpr begin() const;
  IndexExpr offset(const Range& range) const;
  std::vector<IndexExpr> place(const IndexExpr& at) const;
  ir::Block transfer(const Range& range) const;
  ir::Block transfer(const Range& range, const ir::LoopHead& threads, int64_t size, bool is_whole) const;
  ir::Stmt fill_rest(const Range& range) const;

  const Scheduling& s_;
  ir::Kernel& k_;
  const std::vector<ir::LoopHead>& heads_;
  int64_t length_ = 0, moved_bytes_ = 0;
  size_t statements_ = 0;
  std::set<ir::BufferId> moved_, shared_;
  std::vector<Range> ranges_;
  int rows_ = 1, threads_ = 1;  // of a block
  int blocks_ = 1;              // of a row
  int64_t size_ = 0;            // elements of a block
  int64_t rest_ = 0;            // those of a row's last accesses that lie behind its end
  bool goes_on_ = false;        // shared memory goes on behind the end of the row, up to the last access
  bool pads_ = false;           // and has the padding there
  ir::VarId grid_, block_;
  IndexExpr all_rows_;
};

}  // namespace fusec::compiler
