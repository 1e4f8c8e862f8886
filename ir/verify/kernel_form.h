// SPDX-License-Identifier: Apache-2.0
// The check of a kernel's form, as ir/verify/kernel.h states it, shared by the files that check declarations and loops
// (kernel_form.cpp) and other statements (kernel_form_statements.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Checks everything except ranges, races and phases.
class FormCheck {
 public:
  FormCheck(const Kernel& kernel, std::vector<std::string>& out)
      : k_(kernel), lowered_(is_lowered(kernel)), out_(out) {}

  void run();

 private:
  // The definitions that go out of scope with the innermost block.
  struct Scope {
    std::vector<RegId> regs;
    std::vector<BufferId> buffers;
  };

  // Declarations.

  void declarations();
  void declare(BufferId id);
  void alias(BufferId in, BufferId out);

  // Scopes.

  void find(std::string message) { out_.push_back(std::move(message)); }
  void find(const Stmt& s, std::string_view what);
  void block(const Block& body);
  void statements(const Block& body);
  void leave(const Scope& outer);
  void stmt(const Stmt& s);
  bool define(RegId r, const Stmt& s);
  bool usable(const Operand& o, const Stmt& s);
  DType dtype(const Operand& o) const;
  void width(const Operand& o, int width, const Stmt& s);
  // Checks the symbols of an index expression: extents, loop variables, lane, integer registers.
  void dim(const IndexExpr& d, int width, const Stmt& s);
  void dims(const std::vector<IndexExpr>& list, int width, const Stmt& s);
  bool is_extent(SymbolId id) const { return id.extent() && k_.extents.contains(*id.extent()); }
  void symbol(SymbolId id, int width, const Stmt& s);
  bool known(BufferId b, const Stmt& s);
  bool element(BufferId b, const std::vector<IndexExpr>& index, int width, const Stmt& s);

  // Loops.

  static bool is_grid(const Stmt& s);
  void enter(const LoopHead& head, const Stmt& s);
  void enter(VarId var, const Stmt& s);
  void exit(const LoopHead& head);
  bool inside(LoopTag tag) const { return std::find(tags_.begin(), tags_.end(), tag) != tags_.end(); }
  void check(const Loop& loop, const Stmt& s);
  // What no other loop has, and what lets a launch find the task that follows a number, and the counter of its row.
  void tasks(const Loop& loop, const Stmt& s);
  static bool is_pass(const Stmt& s);
  void cluster(const Loop& loop, const Stmt& s);
  void grid(const Loop& loop, const Stmt& s);

  // Statements.

  void check(const Alloc& a, const Stmt& s);
  void check(const Let& let, const Stmt& s);
  void typing(const Let& let, const Stmt& s);
  void check(const IndexValue& v, const Stmt& s);
  void check(const Load& load, const Stmt& s);
  void check(const Store& store, const Stmt& s);

  // The lowered form.

  void check(const If& branch, const Stmt& s);
  void check(const Choose& c, const Stmt& s);
  // The value depends on extents and grid loops alone.
  void uniform(const IndexExpr& e, const Stmt& s);
  void lowered(const Stmt& s);
  void mask(const Operand& o, const Stmt& s);
  void check(const Shuffle& shuffle, const Stmt& s);
  void check(const Ballot& ballot, const Stmt& s);
  void check(const Sync& sync, const Stmt& s);
  void check(const Prefetch& p, const Stmt& s) { element(p.buffer, p.index, 1, s); }

  // Reductions and scans.

  void check(const Reduce& r, const Stmt& s);
  void combination(const Reduce& r, int w, const Stmt& s);
  void combiner(Combiner c, const std::vector<RegId>& dst, const Stmt& s);
  void check(const Scan& scan, const Stmt& s);

  // Tiles.

  void check(const TransposeTile& t, const Stmt& s);
  void check(const CopyAsync& c, const Stmt& s);
  void check(const Mma& m, const Stmt& s);
  void check(const TileProduct& p, const Stmt& s);
  // Whether the statement stands in no loop that is not a grid.
  bool is_beside_grids() const;
  // Whether an access of 16 bytes could begin between its multiples.
  bool has_odd_start(const TileProduct& p) const;

  const Kernel& k_;
  const bool lowered_;
  std::vector<std::string>& out_;
  std::set<uint32_t> buffers_;  // declared so far
  std::set<std::string> buffer_names_, var_names_;
  std::set<VarId> vars_, loops_, grid_loops_;   // seen so far; of the enclosing loops; of grid loops
  IdVector<RegId, char> defined_, known_regs_;  // in scope; ever defined
  Scope scope_;
  std::vector<LoopTag> tags_;     // tags of the enclosing loops
  bool splits_warp_ = false;      // a condition or an extent differs between the threads of a warp
  int cluster_ = 1;               // the blocks of a cluster of the outermost loop
  int threads_ = 0;               // of a block, or of a cluster, of the outermost loop of the lowered form
  const Loop* passes_ = nullptr;  // around the passes of the outermost loop with tasks
};

}  // namespace fusec::ir
