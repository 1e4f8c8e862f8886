// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/onnx_model.h"

#include <set>

namespace fusec::ort {
namespace {

// Shapes, axes and scales are inside the model, where the importer of any question sees them. Weights are not copied.
constexpr std::size_t kInlineBytes = 4096;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A ValueInfoProto.
Message value_message(const Value& value) {
  Message shape;
  for (std::size_t i = 0; i < value.type.dims.size(); ++i) {
    Message dim;
    if (value.type.dims[i] >= 0) {
      dim.integer(1, value.type.dims[i]);
    } else if (!value.type.symbols[i].empty()) {
      dim.text(2, value.type.symbols[i]);
    }
    shape.message(1, dim);
  }
  Message tensor, type, message;
  tensor.integer(1, value.type.element);
  if (value.type.ranked) tensor.message(2, shape);
  return message.text(1, value.name).message(2, type.message(1, tensor));
}

Message node_message(const Graph& graph, const Node& node) {
  Message message;
  const auto name = [&](int value) { return value == kAbsent ? std::string_view() : graph.values[at(value)].name; };
  for (const int input : node.inputs) message.text(1, name(input));
  for (const int output : node.outputs) message.text(2, name(output));
  message.text(3, node.name).text(4, node.op).fields(node.attributes);
  if (!node.domain.empty()) message.text(7, node.domain);
  return message;
}

// Which values nodes outside of `inside` read, or the graph gives out.
std::vector<bool> values_read_outside(const Graph& graph, const std::vector<bool>& inside) {
  std::vector<bool> read(graph.values.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int value : graph.nodes[i].outer_inputs) read[at(value)] = true;
    if (inside[i]) continue;
    for (const int value : graph.nodes[i].inputs) {
      if (value != kAbsent) read[at(value)] = true;
    }
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].is_graph_output) read[i] = true;
  }
  return read;
}

class Writer {
 public:
  Writer(const Graph& graph, const std::vector<int>& nodes) : graph_(graph), nodes_(nodes) {}

  OnnxModel write() {
    std::vector<bool> inside(graph_.nodes.size());
    made_.resize(graph_.values.size());
    for (const int node : nodes_) {
      inside[at(node)] = true;
      for (const int output : graph_.nodes[at(node)].outputs) {
        if (output != kAbsent) made_[at(output)] = true;
      }
    }
    const std::vector<bool> read_outside = values_read_outside(graph_, inside);
    std::set<std::string> domains = {""};
    for (const int index : nodes_) {
      const Node& node = graph_.nodes[at(index)];
      domains.insert(node.domain);
      message_.message(1, node_message(graph_, node));
      for (const int input : node.inputs) {
        if (input != kAbsent && !made_[at(input)]) add_input(input);
      }
      for (const int output : node.outputs) {
        if (output != kAbsent) add_output(output, read_outside[at(output)]);
      }
    }
    message_.text(2, "subgraph");
    Message model;
    model.integer(1, graph_.ir_version).message(7, message_);
    for (const auto& [domain, version] : graph_.opsets) {
      if (domains.count(domain) > 0) model.message(8, Message().text(1, domain).integer(2, version));
    }
    out_.bytes = model.bytes();
    return std::move(out_);
  }

 private:
  void add_input(int index) {
    if (!seen_.insert(index).second) return;
    const Value& value = graph_.values[at(index)];
    if (value.is_constant && !goes_beside_model(value)) {
      message_.message(5, tensor_message(value).text(8, value.name));
      return;
    }
    message_.message(11, value_message(value));
    (value.is_constant ? out_.constants : out_.inputs).push_back(index);
  }

  void add_output(int index, bool read_outside) {
    const Value& value = graph_.values[at(index)];
    if (read_outside) {
      out_.outputs.push_back(index);
      message_.message(12, value_message(value));
    } else if (value.type.element != 0) {
      message_.message(13, value_message(value));
    }
  }

  const Graph& graph_;
  const std::vector<int>& nodes_;
  std::vector<bool> made_;
  std::set<int> seen_;
  Message message_;
  OnnxModel out_;
};

}  // namespace

bool goes_beside_model(const Value& value) { return value.is_constant && value.data.size() > kInlineBytes; }

Message tensor_message(const Value& value) {
  Message message;
  for (const int64_t dim : value.type.dims) message.integer(1, dim);
  message.integer(2, value.type.element);
  return message.text(9, {reinterpret_cast<const char*>(value.data.data()), value.data.size()});
}

OnnxModel write_model(const Graph& graph, const std::vector<int>& nodes) { return Writer(graph, nodes).write(); }

}  // namespace fusec::ort
