// SPDX-License-Identifier: Apache-2.0
// Builds and rewrites graphs: adding nodes with inferred types, replacing uses, rebuilding the order, compacting and
// comparing. Used by import, by every pass and by the parsers.

#include "ir/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ir/ops/cast.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace {

ValueId new_value(Graph& graph, Type type, NodeId producer, std::string name = {}) {
  return graph.values.push_back(Value{std::move(type), producer, std::move(name)});
}

NodeId append(Graph& graph, Node node, Type type) {
  const NodeId id = graph.nodes.push_back(std::move(node));
  graph.nodes[id].output = new_value(graph, std::move(type), id);
  graph.order.push_back(id);
  return id;
}

}  // namespace

std::string to_string(const Type& type) { return fusec::to_string(type.dtype) + fusec::to_string(type.shape); }

bool Graph::is_constant(ValueId v) const {
  const Node* node = producer(v);
  return node != nullptr && node->op == Op(TensorOp::constant);
}

const Tensor* Graph::constant(ValueId v) const {
  if (!is_constant(v)) return nullptr;
  const auto it = constants.find(values[v].producer);
  return it == constants.end() ? nullptr : &it->second;
}

ValueId add_input(Graph& graph, std::string name, Type type) {
  for (const Dim& d : type.shape) {
    std::set<std::string> used;
    d.collect_symbols(used);
    for (const std::string& s : used) {
      if (std::find(graph.symbols.begin(), graph.symbols.end(), s) == graph.symbols.end()) graph.symbols.push_back(s);
    }
  }
  const ValueId v = new_value(graph, std::move(type), NodeId{}, std::move(name));
  graph.inputs.push_back(v);
  return v;
}

ValueId add_constant(Graph& graph, Tensor data, std::string origin) {
  FUSEC_CHECK(data.is_contiguous()) << "constants are row-major";
  Node node;
  node.origin = std::move(origin);
  const NodeId id = append(graph, std::move(node), Type{data.dtype(), to_shape(data.shape())});
  graph.constants.emplace(id, std::move(data));
  return graph.nodes[id].output;
}

ValueId add_scalar_constant(Graph& graph, DType dtype, double value) {
  Tensor data = Tensor::make(dtype, {}).value();
  store_double(dtype, data.data(), value);
  return add_constant(graph, std::move(data));
}

ValueId add_node(Graph& graph, Op op, std::vector<ValueId> inputs, Attrs attrs, std::string origin) {
  std::vector<Type> types;
  for (ValueId v : inputs) {
    FUSEC_CHECK(graph.values.contains(v)) << op.name() << " reads an unknown value";
    types.push_back(graph.type(v));
  }
  Result<Type> type = infer_type(op, types, attrs);
  FUSEC_CHECK(type.ok()) << type.status().str() << (origin.empty() ? "" : " in ") << origin;
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.origin = std::move(origin);
  return graph.nodes[append(graph, std::move(node), std::move(*type))].output;
}

void add_output(Graph& graph, ValueId value, std::string name) {
  FUSEC_CHECK(graph.values.contains(value)) << "output '" << name << "' is an unknown value";
  graph.outputs.push_back(value);
  graph.output_names.push_back(std::move(name));
}

IdVector<ValueId, std::vector<NodeId>> users(const Graph& graph) {
  IdVector<ValueId, std::vector<NodeId>> out(graph.values.size());
  for (NodeId n : graph.order) {
    for (ValueId v : graph.nodes[n].inputs) out[v].push_back(n);
  }
  return out;
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
}

namespace {

enum class Visit : uint8_t { none, open, done };

// Appends `root` and its transitive producers to `order`, producers first; false if there is a cycle. Iterative,
// because graphs are deep.
bool visit(const Graph& graph, NodeId root, IdVector<NodeId, Visit>& state, std::vector<NodeId>& order) {
  std::vector<std::pair<NodeId, std::size_t>> stack;  // node, next input
  if (state[root] == Visit::none) stack.emplace_back(root, 0);
  state[root] = state[root] == Visit::none ? Visit::open : state[root];
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == graph.nodes[node].inputs.size()) {
      state[node] = Visit::done;
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const NodeId producer = graph.values[graph.nodes[node].inputs[next++]].producer;
    if (!producer.valid() || state[producer] == Visit::done) continue;
    if (state[producer] == Visit::open) return false;
    state[producer] = Visit::open;
    stack.emplace_back(producer, 0);
  }
  return true;
}

// Visits the live nodes; false if there is a cycle among them.
bool mark_live(const Graph& graph, IdVector<NodeId, Visit>& state, std::vector<NodeId>& order) {
  for (ValueId v : graph.outputs) {
    const NodeId producer = graph.values[v].producer;
    if (producer.valid() && !visit(graph, producer, state, order)) return false;
  }
  return true;
}

}  // namespace

// Stable: nodes keep their relative order as far as their inputs allow. New nodes are placed where they are first
// needed.
bool rebuild_order(Graph& graph) {
  IdVector<NodeId, Visit> live(graph.nodes.size(), Visit::none);
  std::vector<NodeId> any;
  if (!mark_live(graph, live, any)) return false;
  IdVector<NodeId, Visit> state(graph.nodes.size(), Visit::none);
  std::vector<NodeId> order;
  order.reserve(any.size());
  for (NodeId n : graph.order) {
    if (live[n] == Visit::done) visit(graph, n, state, order);
  }
  for (NodeId n : any) visit(graph, n, state, order);
  graph.order = std::move(order);
  return true;
}

Graph compact(const Graph& graph) {
  Graph source = graph;
  FUSEC_CHECK(rebuild_order(source)) << "the graph has a cycle";
  Graph out;
  out.name = source.name;
  out.symbols = source.symbols;
  out.limits = source.limits;
  out.imported_ops = source.imported_ops;
  IdVector<ValueId, ValueId> map(source.values.size());
  for (ValueId v : source.inputs) {
    map[v] = out.values.push_back(source.values[v]);
    out.inputs.push_back(map[v]);
  }
  for (NodeId n : source.order) {
    Node node = std::move(source.nodes[n]);
    for (ValueId& v : node.inputs) v = map[v];
    const ValueId old = node.output;
    const NodeId id = out.nodes.push_back(std::move(node));
    source.values[old].producer = id;
    map[old] = out.values.push_back(std::move(source.values[old]));
    out.nodes[id].output = map[old];
    out.order.push_back(id);
    if (const auto it = source.constants.find(n); it != source.constants.end()) out.constants.emplace(id, it->second);
    if (const auto it = source.weight_names.find(n); it != source.weight_names.end())
      out.weight_names.emplace(id, it->second);
  }
  for (ValueId v : source.outputs) out.outputs.push_back(map[v]);
  out.output_names = source.output_names;
  return out;
}

namespace {

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool same_constant(const Graph& a, NodeId x, const Graph& b, NodeId y) {
  const auto i = a.constants.find(x), j = b.constants.find(y);
  if (i == a.constants.end() || j == b.constants.end()) return i == a.constants.end() && j == b.constants.end();
  return same_tensor(i->second, j->second);
}

// Maps values of one graph to the other, in both directions, so that the map is one-to-one.
class Matching {
 public:
  Matching(const Graph& a, const Graph& b) : to_b_(a.values.size()), to_a_(b.values.size()) {}
  void pair(ValueId a, ValueId b) {
    to_b_[a] = b;
    to_a_[b] = a;
  }
  bool matches(ValueId a, ValueId b) const { return to_b_[a] == b && to_a_[b] == a; }
  bool match_all(const std::vector<ValueId>& a, const std::vector<ValueId>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](ValueId x, ValueId y) { return matches(x, y); });
  }

 private:
  IdVector<ValueId, ValueId> to_b_, to_a_;
};

bool same_value(const Value& a, const Value& b) { return a.type == b.type && a.name == b.name; }

}  // namespace

bool same_graph(const Graph& a, const Graph& b) {
  if (a.name != b.name || a.output_names != b.output_names || a.symbols != b.symbols || a.limits != b.limits)
    return false;
  if (a.inputs.size() != b.inputs.size() || a.order.size() != b.order.size()) return false;
  Matching matching(a, b);
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    if (!same_value(a.values[a.inputs[i]], b.values[b.inputs[i]])) return false;
    matching.pair(a.inputs[i], b.inputs[i]);
  }
  for (std::size_t i = 0; i < a.order.size(); ++i) {
    const Node &x = a.nodes[a.order[i]], &y = b.nodes[b.order[i]];
    if (!(x.op == y.op) || !(x.attrs == y.attrs) || !matching.match_all(x.inputs, y.inputs)) return false;
    if (!same_value(a.values[x.output], b.values[y.output])) return false;
    if (!same_constant(a, a.order[i], b, b.order[i])) return false;
    matching.pair(x.output, y.output);
  }
  return matching.match_all(a.outputs, b.outputs);
}

}  // namespace fusec::ir
