// SPDX-License-Identifier: Apache-2.0
// The partition stage: decides which nodes become one kernel, which nodes a library computes, and which cost nothing
// because they are strided windows of other values. The result is a side table; the graph does not change.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"
#include "ir/program/program.h"

namespace fusec::compiler {

enum class RegionKind : uint8_t {
  kernel,  // generated
  anchor,  // one conv, matmul or pool with its epilogues: a library step
};

// How a fused node enters an anchor's library call.
struct AnchorEpilogue {
  ir::NodeId node;
  ir::Epilogue epilogue;  // operand is filled by lower
  ir::ValueId operand;    // of binary epilogues; invalid otherwise
};

struct Region {
  RegionKind kind = RegionKind::kernel;
  std::vector<ir::NodeId> nodes;     // producers first; a node may be instanced in several regions
  std::vector<ir::ValueId> inputs;   // materialized values it reads, in order of first use
  std::vector<ir::ValueId> outputs;  // values it materializes
  std::vector<AnchorEpilogue> epilogues;
  ir::ValueId bias;  // of anchors: an addend of one value per output channel; invalid: none
};

// The storage of a materialized value: it lies in the allocation owned by `base` (itself, or a concat of which it is
// an operand), at `offset` with `strides`, in elements.
struct Storage {
  ir::ValueId base;
  Dim offset;
  Shape strides;
};

// A fusion boundary: an edge that crosses regions, with the reason why it was not fused.
struct FusionBoundary {
  ir::ValueId value;
  ir::NodeId user;
  std::string reason;
};

struct Partition {
  std::vector<Region> regions;  // in execution order
  std::map<ir::ValueId, Storage>
      storage;  // of every materialized value and of graph inputs and constants that are read
  std::vector<FusionBoundary> boundaries;
};

Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options);
// Returns one block per region, then the fusion boundaries, as `fusec partition` prints them.
std::string to_string(const ir::Graph& graph, const Partition& partition);

// A value as a view: the element at coordinates c lies at offset + sum c[i] * strides[i] of `base`'s allocation.
struct StridedView {
  ir::ValueId base;
  Dim offset;
  Shape shape, strides;
  std::vector<bool> backwards;  // axes with negative strides; an expression such as -n*n + n does not show its sign
};

// The view of the result of `node` (broadcast, reshape, transpose or slice) if `in` is the view of its input;
// nullopt when no strides can express it.
std::optional<StridedView> view_through(const ir::Graph& graph, const ir::Node& node, const StridedView& in);

// The view of `value`: its own storage, or a view of the value that it views; nullopt when that value is not
// materialized.
std::optional<StridedView> find_view(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                     ir::ValueId value);

// Whether the libraries of a target with such limits read operand `i` of the call, of type `dtype`, through the view.
bool reads_view(const ir::Node& anchor, size_t i, DType dtype, const StridedView& view, const ir::StrideLimits& limits);

}  // namespace fusec::compiler
