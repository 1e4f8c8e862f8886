// SPDX-License-Identifier: Apache-2.0
// Emits the statements that compute a graph value at given coordinates.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "compiler/lower/nest/nest.h"
#include "compiler/partition/partition.h"

namespace fusec::compiler {

// A computed value. A float narrower than its compute type is `exact` when it has been rounded to its own type.
struct Lowered {
  ir::Operand operand;
  bool exact = true;
};

class RegionEval {
 public:
  RegionEval(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage, const std::set<ir::NodeId>& nodes,
             const Domain& domain, const LoopNestOptions& options, LoopNest& nest)
      : graph_(graph), storage_(storage), nodes_(nodes), options_(options), nest_(nest), ranges_(domain.ranges) {}

  // Opens a block. Statements go to the innermost open block, and values computed there are reused until it is closed.
  void open(ir::Block& block);
  void close();

  Lowered eval(ir::ValueId value, const Coords& coords);
  // The value in the compute type, as reductions take it.
  ir::Operand compute(ir::ValueId value, const Coords& coords) { return eval(value, coords).operand; }
  // Stores the value to the parameter in which its storage lies, rounding it to its dtype.
  void store(ir::ValueId value, const Coords& coords);
  // Makes `value` at `coords` known as `lowered` in the innermost open block.
  void define(ir::ValueId value, const Coords& coords, Lowered lowered);
  // Makes later reads of `value` at `coords` load the local buffer at `index`.
  void stage(ir::ValueId value, const Coords& coords, ir::BufferId buffer, const std::vector<IndexExpr>& index);
  // The value rounded to its dtype, in the compute type.
  ir::Operand rounded(const Lowered& value, DType dtype);
  // Wraps a result of this dtype that was computed in its compute type; in exact numerics it is rounded.
  Lowered finish(ir::Operand operand, DType dtype);
  ir::RegId emit(ir::ScalarOp op, DType dtype, std::vector<ir::Operand> args);
  void append(ir::Stmt stmt) { blocks_.back()->push_back(std::move(stmt)); }
  // The ranges of the loop variables; the caller narrows them for parts of the domain.
  DimRanges& ranges() { return ranges_; }

 private:
  using Conditions = std::vector<Dim>;  // each is >= 0
  using Key = std::pair<ir::ValueId, Coords>;
  struct Staged {
    ir::BufferId buffer;
    std::vector<IndexExpr> index;
  };

  const Lowered* find_known(const Key& key) const;
  Lowered make(ir::ValueId value, const Coords& coords);
  Lowered scalar(const ir::Node& node, const Coords& coords);
  Lowered load(const StridedView& view, const Coords& coords, DType dtype);
  Lowered concat(const ir::Node& node, const Coords& coords);
  Lowered pad(const ir::Node& node, const Coords& coords);
  Lowered largest(const ir::Node& max_pool, const Coords& coords);
  Lowered gather(const ir::Node& node, const Coords& coords);
  Lowered index_value(const Dim& value, DType dtype);
  Lowered select_in_range(const Conditions& guard, const Lowered& inside, const Lowered& outside, DType dtype);
  ir::Operand in_range(const Conditions& guard);
  bool is_guarded_load(const ir::Operand& operand) const;
  Dim mirrored(const Dim& index, const Dim& extent);
  void flip_negative(StridedView& view, Coords& coords);
  ir::BufferId parameter(const StridedView& view, ir::Space space, bool flat);
  // The parameter for a view that reads some of the elements of others, and where in it the view begins. find_shared
  // takes one that is there, shared_parameter may make it.
  std::optional<std::pair<ir::BufferId, Dim>> shared_parameter(const StridedView& view);
  std::optional<std::pair<ir::BufferId, Dim>> find_shared(const StridedView& view, const std::set<int64_t>& pitches);
  IndexExpr index(const Dim& d) const { return index_expr(nest_, d); }
  std::vector<IndexExpr> indices(const std::vector<Dim>& list) const;
  Dim symbol(ir::RegId reg);
  bool reads_register(const Dim& d) const;
  Dim clean(const Dim& d) const;
  Coords clean(const Coords& coords) const;

  const ir::Graph& graph_;
  const std::map<ir::ValueId, Storage>& storage_;
  const std::set<ir::NodeId>& nodes_;
  const LoopNestOptions& options_;
  LoopNest& nest_;
  DimRanges ranges_;
  std::vector<ir::Block*> blocks_;
  // Of each open block: the values that are known under these conditions. They hold under more conditions, too.
  std::vector<std::map<Conditions, std::map<Key, Lowered>>> known_;
  std::map<Key, Staged> staged_;
  std::map<std::string, ir::BufferId> parameters_;
  // Of parameters that several views share: the number of indices that are read, by strides.
  std::map<size_t, std::map<int64_t, int64_t>> read_;
  Conditions guard_;  // the condition under which loads are emitted
};

}  // namespace fusec::compiler
