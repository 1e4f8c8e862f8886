// SPDX-License-Identifier: Apache-2.0
// Verifies the invariants of a graph in one walk over `order`: of a graph read from text and, if verify_each_pass is
// set, after each pass. It changes nothing; a finding after a pass means a bug in fusec.

#include "ir/verify/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

namespace fusec::ir {
namespace {

template <class... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::internal, fmt::format(format, std::forward<Args>(args)...));
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  Status check() {
    FUSEC_TRY(check_inputs());
    for (std::size_t i = 0; i < graph_.order.size(); ++i) {
      const NodeId id = graph_.order[i];
      if (!graph_.nodes.contains(id)) return broken("order[{}] is node {} of {}", i, id.index, graph_.nodes.size());
      Status status = check_node(id);
      const std::string origin = graph_.nodes[id].origin;
      if (!status.ok()) return std::move(status).with_note(fmt::format("in node {} '{}'", i, origin));
    }
    FUSEC_TRY(check_outputs());
    return check_symbols();
  }

 private:
  Status check_inputs() {
    std::set<std::string> names;
    for (const ValueId v : graph_.inputs) {
      if (!graph_.values.contains(v)) return broken("an input is value {} of {}", v.index, graph_.values.size());
      const Value& value = graph_.values[v];
      if (defined_[v]) return broken("input '{}' is listed twice", value.name);
      if (value.producer.valid()) return broken("input '{}' has a producer", value.name);
      if (!names.insert(value.name).second) return broken("two inputs are named '{}'", value.name);
      defined_[v] = true;
    }
    return {};
  }

  Status check_node(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (!graph_.values.contains(node.output)) return broken("its output is value {}", node.output.index);
    const Value& output = graph_.values[node.output];
    if (output.producer != id) return broken("its output names another producer");
    if (defined_[node.output]) return broken("its output is defined twice");
    std::vector<Type> types;
    for (const ValueId v : node.inputs) {
      if (!graph_.values.contains(v)) return broken("it reads value {} of {}", v.index, graph_.values.size());
      if (!defined_[v]) return broken("it reads value {} before its definition", v.index);
      types.push_back(graph_.type(v));
    }
    defined_[node.output] = true;
    if (node.op == Op(TensorOp::constant)) return check_constant(id, output.type);
    if (graph_.constants.contains(id)) return broken("{} has constant data", node.op.name());
    const auto type = infer_type(node.op, types, node.attrs);
    if (!type.ok()) return broken("{}", type.status().message());
    if (*type != output.type) return broken("its type is {}, not {}", to_string(*type), to_string(output.type));
    return {};
  }

  Status check_constant(NodeId id, const Type& type) const {
    const Node& node = graph_.nodes[id];
    if (!node.inputs.empty() || !node.attrs.items().empty()) return broken("a constant has operands or attributes");
    const auto it = graph_.constants.find(id);
    if (it == graph_.constants.end()) return broken("a constant has no data");
    const Tensor& data = it->second;
    if (!data.is_contiguous()) return broken("the data of a constant is not row-major");
    if (data.data() == nullptr && data.num_elements() > 0) return broken("the data of a constant has no memory");
    const Type found{data.dtype(), Shape(data.shape().begin(), data.shape().end())};
    if (found != type) return broken("the data of a constant is {}, not {}", to_string(found), to_string(type));
    return {};
  }

  Status check_outputs() const {
    if (graph_.outputs.size() != graph_.output_names.size()) {
      return broken("{} outputs have {} names", graph_.outputs.size(), graph_.output_names.size());
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId v = graph_.outputs[i];
      const std::string& name = graph_.output_names[i];
      if (!graph_.values.contains(v) || !defined_[v]) return broken("output '{}' is not defined", name);
      if (!names.insert(name).second) return broken("two outputs are named '{}'", name);
    }
    return {};
  }

  // `symbols` must be those of the input shapes.
  Status check_symbols() const {
    std::set<std::string> used;
    for (const ValueId v : graph_.inputs) {
      for (const Dim& d : graph_.type(v).shape) d.collect_symbols(used);
    }
    const std::set<std::string> listed(graph_.symbols.begin(), graph_.symbols.end());
    if (listed.size() != graph_.symbols.size()) return broken("a symbol is listed twice");
    if (listed != used) return broken("the list of symbols is not that of the input shapes");
    return {};
  }

  const Graph& graph_;
  IdVector<ValueId, uint8_t> defined_;
};

}  // namespace

Status verify(const Graph& graph, GraphForm) { return Verifier(graph).check(); }

}  // namespace fusec::ir
