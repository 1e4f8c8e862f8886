// SPDX-License-Identifier: Apache-2.0
// Graph: typed tensor SSA. Nodes and values are addressed by ids into vectors; there are no pointers and no virtual
// functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/shape.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/ops/attr.h"
#include "ir/ops/op.h"
#include "ir/support/id_vector.h"

namespace fusec::ir {

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;

inline Shape to_shape(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end()}; }

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);  // "f32[N, 3]"

struct Value {
  Type type;
  NodeId producer;   // invalid for graph inputs
  std::string name;  // name of an input or output; else empty
};

// Scalar nodes broadcast their operands by numpy's rule, and all value operands have one dtype. Every node has one
// output (ops with several outputs are imported as several nodes).
struct Node {
  Op op = TensorOp::constant;
  std::vector<ValueId> inputs;
  ValueId output;
  Attrs attrs;
  std::string origin;  // where the node came from, e.g. "/fc1/Add (Add)"; used only in messages
};

// The values that symbols, and sums of them, may have: S at most 512, past + seq at most 128. A run whose shapes give
// others is refused.
using Limits = std::map<Dim, ExtentRange>;
// What the limits say of the symbols, for proofs.
DimRanges symbol_ranges(const Limits& limits);

struct Graph {
  std::string name = "main";
  IdVector<NodeId, Node> nodes;
  IdVector<ValueId, Value> values;
  std::vector<NodeId> order;     // live nodes, each after its producers
  std::vector<ValueId> inputs;   // in declaration order
  std::vector<ValueId> outputs;  // have names; a value may appear more than once
  std::vector<std::string> output_names;
  std::map<NodeId, Tensor> constants;          // data of `constant` nodes; row-major
  std::map<NodeId, std::string> weight_names;  // of constants that the model names
  std::vector<std::string> symbols;            // free symbols of the input shapes, in order of first use
  Limits limits;
  int64_t imported_ops = 0;  // tensor operations after import, as `fusec inspect` counts them

  const Type& type(ValueId v) const { return values[v].type; }
  const Node* producer(ValueId v) const { return values[v].producer.valid() ? &nodes[values[v].producer] : nullptr; }
  bool is_constant(ValueId v) const;
  const Tensor* constant(ValueId v) const;  // null unless produced by a constant node
};

// Building. add_node infers the result type (FUSEC_CHECK on misuse; importers call infer_type first to get a Status).
ValueId add_input(Graph& graph, std::string name, Type type);
ValueId add_constant(Graph& graph, Tensor data, std::string origin = {});
ValueId add_scalar_constant(Graph& graph, DType dtype, double value);  // rank 0
ValueId add_node(Graph& graph, Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string origin = {});
void add_output(Graph& graph, ValueId value, std::string name);

// The result type of `op` on operands of these types. invalid_model if there is none; unsupported if a run might have
// one.
Result<Type> infer_type(Op op, const std::vector<Type>& inputs, const Attrs& attrs);
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);

// users[v]: the nodes that use v, in order, once per use.
IdVector<ValueId, std::vector<NodeId>> users(const Graph& graph);
// Replaces every use of `from`, including output slots, by `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
// Rebuilds `order`: live nodes only, producers first, stable. False if there is a cycle.
bool rebuild_order(Graph& graph);
// Renumbers the ids so that dead nodes, values and constants are gone.
Graph compact(const Graph& graph);

// Equal up to the numbering of ids; constants compare by bytes, origins are ignored.
bool same_graph(const Graph& a, const Graph& b);

}  // namespace fusec::ir
