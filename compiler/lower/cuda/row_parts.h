// SPDX-License-Identifier: Apache-2.0
// A nest with reductions taken apart, so that each part becomes grid phases of its own: values that the rows of one
// part compute pass to later parts through scratch memory.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

// Reductions none of which needs the result of another, between what each row computes before and after them; or an
// element-wise loop alone.
struct RowPart {
  ir::Block before, reductions, after;
  std::optional<ir::Stmt> loop;
};

// Returns nullopt where the body has what parts do not pass on: local buffers, scans, indices computed from data once
// per row. `together`: reductions that do not need each other share a part.
std::optional<std::vector<RowPart>> take_apart(const ir::Block& body, bool together);

// The registers that statements of the block, or nested in it, read.
std::set<ir::RegId> find_reads(const ir::Block& block);
// Drops the statements of the block, not those nested in others, that only define registers which neither the block nor
// `readers` read.
void drop_unread(ir::Block& block, std::set<ir::RegId> readers);
bool has_store(const ir::Block& block);

// Where a part's reduction of long rows needs the result of the part before, and both can be one reduction over tuples:
// makes one part of the two (joint_reductions.cpp).
void join_reductions(ir::Kernel& kernel, std::vector<RowPart>& parts);

// Keeps values of rows in scratch memory, an element for each iteration of the heads.
class RowMemory {
 public:
  RowMemory(ir::Kernel& kernel, const std::vector<ir::LoopHead>& heads);
  // Appends stores of the registers that `block` defines and `needed` has. Returns what makes the same registers in
  // another nest over the heads: loads, and index values.
  ir::Block keep(ir::Block& block, const std::set<ir::RegId>& needed);
  // The allocations of all buffers so far.
  ir::Block take_allocations();
  const IndexExpr& row() const { return row_; }
  const IndexExpr& rows() const { return rows_; }
  ir::BufferId allocate(const std::string& name, DType dtype, const ir::IndexShape& shape);

 private:
  ir::Kernel& kernel_;
  IndexExpr row_, rows_ = 1;
  ir::Block allocations_;
};

// The registers that parts from number `first` on read.
std::set<ir::RegId> find_reads_from(const std::vector<RowPart>& parts, size_t first);
// Moves what an element-wise loop computes from values of the row alone behind `known`, which makes these values, and
// drops what the loop does not read from there.
void hoist_from_loop(RowPart& part, ir::Block& known);
// Schedules the part's loop over `heads`, where each element is computed after `known`. `rows_apart`: each row has
// thread blocks of its own, so that the heads are the outermost grid loops.
ir::Block schedule_loop(const Scheduling& s, const std::vector<ir::LoopHead>& heads, const RowPart& part,
                        const ir::Block& known, bool rows_apart = false);

// The grid loops of a nest, and what is inside of them.
PerfectNest peel_grid(ir::Stmt stmt);
IndexExpr count_iterations(const std::vector<ir::LoopHead>& heads);

// --- thread_tuples.cpp ---

// A thread's elements of a chunk of a long row. `body`: those of one access; its last statement carries them as yields.
struct ThreadElements {
  ir::Block body;
  ir::LoopHead steps;  // over the accesses
  int lanes = 1;       // of an access
  ir::Guard inside;    // where an access lies in the row
};
// Whether a thread reduces its elements value by value before their tuples are combined.
bool makes_tuples(const ir::Kernel& kernel, const ir::Reduce& row);
// Appends what makes one tuple of the elements, which it returns.
std::vector<ir::Operand> reduce_to_tuple(ir::Kernel& kernel, ir::Combiner combiner, const ThreadElements& elements,
                                         ir::Block& out);

// --- row_ahead.cpp ---

// The threads that share a row: evenly those of some blocks.
struct RowTeam {
  int threads = 0, blocks = 1;
  int held_registers = 0;  // 4-byte registers of elements, in each thread
};
// A phase of the row `row` of the nest in which its team brings a later row's loads of the first reduction into L2.
// Returns nullopt where there are none.
std::optional<ir::Stmt> prefetch_row_ahead(const Scheduling& s, const RowTeam& team, const PerfectNest& nest,
                                           const ir::IndexExpr& row);

// --- row_padding.cpp ---

// Guards what a block of several rows accesses of inputs and outputs by `condition`, which holds for the rows that
// there are. `rows`: the variables of the row's number; loads that none of them moves stay as they are.
void guard_rows(ir::Kernel& kernel, ir::Block& row, const IndexExpr& condition, const std::set<ir::SymbolId>& rows);

// What threads compute past the end of a row: loads give a value there with which reductions need no guard.
class RowPadding {
 public:
  explicit RowPadding(ir::Kernel& kernel) : kernel_(kernel) {}
  // Chooses the value for the loads of `own`, which has the body of the reduction for one access, with guards that hold
  // inside of the row. Returns whether what it yields past the end changes no result.
  bool fill(const ir::Reduce& whole, ir::Reduce& own);
  // Later phases hold what this one loads.
  void note(const ir::Block& body);

 private:
  std::optional<double> value_of(const ir::Block& body, const ir::Guard& inside, const ir::Operand& operand) const;

  ir::Kernel& kernel_;
  std::map<ir::BufferId, double> values_;  // past the end, of buffers that earlier phases load, too
  std::set<ir::RegId> most_;               // the largest elements of rows that are padded with -infinity
};

// --- row_results.cpp ---

// Buffers of the elements that each thread holds, which all phases load at `at`.
struct HeldElements {
  ir::Kernel& kernel;
  const std::set<ir::BufferId>& buffers;
  std::vector<IndexExpr> at;
};
bool loads_any(const ir::Block& block, const std::set<ir::BufferId>& buffers);
// Where the phase `to` computes of the elements of one buffer what the phase `from` did, at some cost, and needs
// nothing else of them: keeps the result in the buffer, and takes it from there.
bool take_result(const HeldElements& held, ir::Block& from, ir::Block& to);

// --- held_values.cpp ---

// A reduction of a row or a loop over its elements; `body`: the statements for some of them.
struct RowPhase {
  ir::Block* body;
  const ir::Stmt* stmt;
};
// A value of an element that several phases load, or make of what they load alone.
struct SharedValue {
  ir::Load load;                     // or one of them
  std::map<size_t, ir::RegId> regs;  // by the number of the phase
};
DType dtype_of(const ir::Kernel& kernel, const SharedValue& value);
// `may_grow`: a half may become an f32. `is_held`: whether the load is one of the row's elements.
std::vector<SharedValue> find_shared_values(const ir::Kernel& kernel, const std::vector<RowPhase>& phases,
                                            bool may_grow, const std::function<bool(const ir::Load&)>& is_held);
// Those that fit in the registers of a thread, which has so many elements of the row, beside what it keeps already.
// `prefers_f32`: halves are held as f32 where these fit, and not only where more fits so.
std::vector<SharedValue> choose_values(const HeldElements& held, const std::vector<RowPhase>& phases, int64_t elements,
                                       bool prefers_f32, const std::function<bool(const ir::Load&)>& is_held);
// Lets the first of the phases store the value to the buffer, and the others load it from there.
void hold_value(const ir::Kernel& kernel, const SharedValue& value, const std::vector<RowPhase>& phases,
                ir::BufferId buffer, const std::vector<IndexExpr>& at);

}  // namespace fusec::compiler
