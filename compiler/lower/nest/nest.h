// SPDX-License-Identifier: Apache-2.0
// The semantic form of a region: one plain sequential loop per axis of its domain, index maps as index arithmetic,
// `reduce` where the graph reduces. Every schedule starts from it. Regions that lower to the same kernel have the same
// key, because a network repeats its blocks; aliases and rebased inputs are found on the semantic nest, before loops
// are scheduled.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

using ir::IndexExpr;
using ir::VarId;

// The memory of a kernel parameter: `elements` elements from `offset` on, in the allocation of `base`.
struct ParamSource {
  ir::ValueId base;
  Dim offset;
  Dim elements;
};

// Whether a launch has at least `least` of what `count` counts, such as rows. A schedule asks where the answer decides
// something and only a run knows it.
struct CountQuestion {
  IndexExpr count;  // over the kernel's launch arguments
  int64_t least = 0;
};

// Until abstract_extents, the extents of the kernel are the symbols of the model.
struct LoopNest {
  ir::Kernel kernel;
  std::vector<ParamSource> params;  // in the order of kernel.params
  Domain domain;
  std::map<std::string, ir::SymbolId> symbols;  // of the kernel, by their names in Dims
  // The loop variables of each axis of the domain: one, or one per phase if the axis is reduced.
  std::vector<std::vector<VarId>> axis_vars;
  // What holds for the shapes that the kernel is made for: these are multiples of the number.
  std::vector<Dim> multiples;
  int64_t multiple_of = 1;
  // What schedules go by where symbols leave counts open, without relying on it: the symbols' values where they are
  // known or typical, or else whether there are many of all that is counted.
  std::map<std::string, int64_t> typical;
  std::optional<bool> has_many;
  std::vector<CountQuestion> questions;  // that schedules asked
  bool multiplies = false;               // whether it is a matrix product that no library would compute
  bool splits_sums = false;              // whether the order of a product's sums may depend on how many rows there are
};

// The greatest number that is known to divide `d`, a Dim over symbols of the model, for these shapes.
int64_t known_divisor(const LoopNest& nest, const Dim& d);

// The only place where names become ids: `d` is over symbols of the model, variables of the domain and registers.
IndexExpr index_expr(const LoopNest& nest, const Dim& d);

struct LoopNestOptions {
  Numerics numerics = Numerics::precise;
  // A value needed in several phases of a row is kept in a local buffer when recomputing it costs at least this many
  // cycles per 16 elements (the unit of ScalarOpInfo::cost).
  int stage_cost = 6;
  // What converting 16 values of 16 bits to f32, or rounding to 16 bits, costs in this unit where it takes an
  // instruction of its own.
  int conversion_cost = 0;
  // Outputs are stored while the scan runs, so that no row is kept. The scan must be the region's only reduction.
  bool stores_in_scan = false;
};

Result<LoopNest> build_loop_nest(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                 const Region& region, const LoopNestOptions& options);
// Of a region that is an attention. Its loops are over samples, heads, queries and channels of the values, in this
// order.
LoopNest build_attention_nest(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                              const Region& region, const LoopNestOptions& options);

// Fills Kernel::may_alias of a semantic nest: pairs of parameters where every element of the input is read only by the
// iteration that overwrites it in the output, before the write.
void find_aliases(LoopNest& nest);

// Makes inputs whose owner is one of `owners` begin at the first element that the kernel reads, not at the start of the
// allocation. Regions that take different slices of one value then become one kernel. It must run after find_aliases,
// and it leaves inputs that may alias an output as they are.
void rebase_inputs(LoopNest& nest, const std::function<bool(ir::ValueId)>& bases);

// `text` contains all that lower reads of a region except the names and numbers of its values. Regions of one graph
// with equal texts become equal steps on `values`, which correspond by position.
struct RegionKey {
  std::string text;
  std::vector<ir::ValueId> values;  // the values that the region computes and reads, by rising id
};

RegionKey region_key(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage, const Region& region);

}  // namespace fusec::compiler
