// SPDX-License-Identifier: Apache-2.0
// The accesses of a kernel to its buffers, with everything that range and race checks need to know of each.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ir/base/index_expr.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/value_range.h"

namespace fusec::ir {

struct EnclosingLoop {
  const void* id = nullptr;  // equal for the same loop
  LoopTag tag = LoopTag::seq;
  VarId var;
  IndexExpr extent;
  bool is_parallel() const { return tag >= LoopTag::block; }
};
using LoopStack = std::vector<EnclosingLoop>;

struct Access {
  BufferId buffer;
  bool write = false;
  // Registers that hold index expressions are replaced by these expressions, and facts are applied (with_facts). In the
  // lowered form, kThread is an expression over variables of extra block loops in `loops`. Boxes
  // and whole tiles are indexed by extra seq loops at the end of `loops`.
  std::vector<IndexExpr> index;
  Guard guard;
  uint32_t clamp = 0;
  int width = 1;
  LoopStack loops;        // outermost first
  std::size_t order = 0;  // position of the statement in the text
  std::size_t phase = 0;  // index of the outermost statement
  const Stmt* stmt = nullptr;
};

struct AccessTable {
  std::vector<Access> accesses;                 // in text order
  std::map<uint32_t, std::size_t> alloc_depth;  // by buffer: number of loops that enclose its allocation
  std::map<SymbolId, std::size_t> value_depth;  // by register: loops around a data value's definition
  std::map<SymbolId, ValueRange> value_range;   // of those whose range is known
};

AccessTable collect_accesses(const Kernel& kernel);

// The ranges of the loops, of kLane, and of values taken from data (unbounded unless computed by min, max and their
// like).
IndexRanges compute_ranges(const AccessTable& table, const Access& access);

// Proves e >= 0 from ranges and guards: e, e - g or e - g - h is proven for some guards g, h that share symbols with e.
bool proves_nonneg(const IndexExpr& e, const IndexRanges& ranges, const Guard& guards);
// The same, or e is proven after a guard narrows the range of a symbol.
bool proves_nonneg_narrowed(const IndexExpr& e, const IndexRanges& ranges, const Guard& guards);

// Each appends findings of one kind.
void check_ranges(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out);
void check_races(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out);
void check_phases(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out);

}  // namespace fusec::ir
