// SPDX-License-Identifier: Apache-2.0
// What the parts of lower_to_threads share. Statements are appended to a block; loop variables that are gone stand for
// expressions over kThread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::compiler {

using ir::IndexExpr;

// A statement that threads cannot run. lower_to_threads turns it into a status.
struct UnsupportedSchedule : std::runtime_error {
  explicit UnsupportedSchedule(const std::string& why, bool names_statement = false)
      : std::runtime_error(why), is_named(names_statement) {}
  bool is_named;
};

// The threads that run a statement together. Block loops split them into smaller thread groups.
struct ThreadGroup {
  int64_t size = 1;
  int64_t alignment = 0;                              // divides the number of the group's first thread; 0: it is 0
  IndexExpr thread = IndexExpr::symbol(ir::kThread);  // the number of this thread in the group
  std::optional<ir::Operand> mask = ir::kAllThreads;  // the threads of the warp that come here; none: not known
};

struct ThreadLowering {
  ir::Kernel& kernel;
  int64_t block_threads = 1;  // of all blocks of a cluster together
  int64_t cluster = 1;        // blocks
  ThreadGroup group;
  std::map<ir::SymbolId, IndexExpr> values;  // of loop variables that are gone
  ir::IndexRanges ranges;
  ir::Block* out = nullptr;  // where statements are appended
  ir::Block shared;          // allocations of shared buffers
  int loops = 0;             // around the statement, in the block
};

// --- appending statements ---

// With the values of variables that are gone, simplified.
IndexExpr resolve(const ThreadLowering& l, const IndexExpr& e);
ir::Operand append_let(ThreadLowering& l, ir::ScalarOp op, ir::RegInfo result, std::vector<ir::Operand> args);
// Copies a value, or one value to all lanes.
ir::Operand append_copy(ThreadLowering& l, ir::RegInfo result, ir::Operand value);
// The value of `at` in a register of the given type.
ir::Operand append_index(ThreadLowering& l, DType dtype, const IndexExpr& at);
// `width` elements from `at` on.
ir::Operand append_load(ThreadLowering& l, ir::BufferId buffer, std::vector<IndexExpr> at, int width);
void append_store(ThreadLowering& l, ir::BufferId buffer, std::vector<IndexExpr> at, const ir::Operand& value,
                  const ir::Guard& guard = {});
// body() appends to the body of an If, or of a loop over `head`.
void append_if(ThreadLowering& l, const ir::Guard& condition, const std::function<void()>& body);
void append_loop(ThreadLowering& l, const ir::LoopHead& head, const std::function<void()>& body);
// A new local buffer of `count` elements.
ir::BufferId append_buffer(ThreadLowering& l, ir::Space space, DType dtype, int64_t count);

// --- threads.cpp ---

void lower_block(ThreadLowering& l, const ir::Block& block);
// The number of threads that the cluster and block loops of a block need.
int64_t count_threads(const ThreadLowering& l, const ir::Block& block);
// The number of thread blocks that its cluster loops need.
int64_t count_blocks(const ThreadLowering& l, const ir::Block& block);
int64_t constant_extent(const ThreadLowering& l, const ir::LoopHead& loop);
// Binds the variables of nested block loops by dividing the thread's number in its group; the innermost loop has one
// iteration for each `inner` threads. Returns the number of threads that take part.
int64_t bind_threads(ThreadLowering& l, const std::vector<ir::LoopHead>& loops, int64_t inner);

// --- combine.cpp: combinations of tuples as scalar ops ---

using Parts = std::vector<ir::Operand>;
struct CombineOp {
  ir::Combiner combiner;
  std::vector<DType> types;
  int width = 1;  // of every part

  ir::RegInfo part(size_t p) const { return {types[p], width}; }
};
Parts identity(const CombineOp& op);
// The operations and their order are those of ir/eval/combine.cpp.
Parts combine(ThreadLowering& l, const CombineOp& op, const Parts& a, const Parts& b);

// --- reduce.cpp ---

// Whether threads share its work.
bool has_block_loop(const ir::Reduce& reduce);
void lower_reduce(ThreadLowering& l, const ir::Reduce& reduce);
void lower_scan(ThreadLowering& l, const ir::Scan& scan);

// --- exchange.cpp: folds over threads ---

// Folds every `step`-th accumulator over `count` runs of `stride` threads each; inside a run the accumulators are
// equal. Afterwards the first count * stride threads of the group hold the result; if it returns true, the whole group
// does.
bool combine_threads(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t stride, int64_t count,
                     int64_t step);
// The parts of the group's first thread, in all its threads.
Parts broadcast(ThreadLowering& l, const CombineOp& op, const Parts& value);
// Combines neighbouring pairs, carrying an odd last one, over `count` values `stride` apart, for each such run.
void fold_values(ThreadLowering& l, const CombineOp& op, std::vector<Parts>& values, int64_t stride, int64_t count);

}  // namespace fusec::compiler
