// SPDX-License-Identifier: Apache-2.0
// Builds ONNX's messages of a drawing. Each text is a protobuf string of its own, so that what a model calls its nodes
// cannot become part of the structure.

#include "compiler/export/onnx/drawing.h"

#include <fmt/format.h>

#include "compiler/import/onnx/proto.h"

namespace fusec::exporter {
namespace {

namespace proto = ::fusec_onnx;

constexpr int64_t kIrVersion = 10, kOpset = 21;

// The bytes of the character that begins there; 0: none does (Unicode 16, table 3-7).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i, unsigned from = 0x80, unsigned to = 0xbf) {
    return byte(i) >= from && byte(i) <= to;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4) return 0;
  return follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }

template <class Message>
void add_metadata(Message& to, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    proto::StringStringEntryProto& entry = *to.add_metadata_props();
    entry.set_key(valid_utf8(key));
    entry.set_value(valid_utf8(value));
  }
}

void fill(proto::ValueInfoProto& to, const DrawnValue& value) {
  to.set_name(valid_utf8(value.name));
  proto::TypeProto::Tensor& tensor = *to.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(importer::from_dtype(value.type.dtype));
  tensor.mutable_shape();  // of rank 0, if there are no axes
  for (const Dim& extent : value.type.shape) {
    proto::TensorShapeProto::Dimension& dim = *tensor.mutable_shape()->add_dim();
    if (extent.is_const()) {
      dim.set_dim_value(extent.value());
    } else {
      dim.set_dim_param(valid_utf8(extent.str()));
    }
  }
}

struct FillAttribute {
  proto::AttributeProto& to;

  void operator()(int64_t value) const {
    to.set_type(proto::AttributeProto::INT);
    to.set_i(value);
  }
  void operator()(double value) const {
    to.set_type(proto::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    to.set_type(proto::AttributeProto::STRING);
    to.set_s(valid_utf8(value));
  }
  void operator()(const std::vector<int64_t>& values) const {
    to.set_type(proto::AttributeProto::INTS);
    for (const int64_t value : values) to.add_ints(value);
  }
  void operator()(const Shape& shape) const {
    to.set_type(proto::AttributeProto::STRINGS);
    for (const Dim& extent : shape) to.add_strings(valid_utf8(extent.str()));
  }
  void operator()(DType dtype) const { (*this)(std::string(to_string(dtype))); }
};

void fill(proto::NodeProto& to, const DrawnNode& node) {
  to.set_name(valid_utf8(node.name));
  to.set_op_type(valid_utf8(node.op));
  to.set_domain(node.domain);
  for (const std::string& input : node.inputs) to.add_input(valid_utf8(input));
  for (const std::string& output : node.outputs) to.add_output(valid_utf8(output));
  for (const auto& [name, value] : node.attrs.items()) {
    proto::AttributeProto& attribute = *to.add_attribute();
    attribute.set_name(name);
    std::visit(FillAttribute{attribute}, static_cast<const ir::AttrValue::Base&>(value));
  }
  add_metadata(to, node.metadata);
}

template <class Message>
void add_opset(Message& to, const char* domain, int64_t version) {
  proto::OperatorSetIdProto& opset = *to.add_opset_import();
  opset.set_domain(domain);
  opset.set_version(version);
}

void fill(proto::FunctionProto& to, const DrawnFunction& function) {
  to.set_name(valid_utf8(function.name));
  to.set_domain(kRegions);
  add_opset(to, kOps, 1);
  for (const std::string& input : function.inputs) to.add_input(valid_utf8(input));
  for (const std::string& output : function.outputs) to.add_output(valid_utf8(output));
  for (const DrawnNode& node : function.nodes) fill(*to.add_node(), node);
  for (const DrawnValue& value : function.values) fill(*to.add_value_info(), value);
  add_metadata(to, function.metadata);
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0 || is_control(text.front())) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return out;
}

std::string write_onnx(const Drawing& drawing) {
  proto::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("fusec");
  add_opset(model, "", kOpset);
  add_opset(model, kOps, 1);
  add_opset(model, kRegions, 1);
  add_metadata(model, drawing.metadata);
  proto::GraphProto& graph = *model.mutable_graph();
  graph.set_name(valid_utf8(drawing.name));
  for (const DrawnValue& value : drawing.inputs) fill(*graph.add_input(), value);
  for (const DrawnValue& value : drawing.outputs) fill(*graph.add_output(), value);
  for (const DrawnValue& value : drawing.values) fill(*graph.add_value_info(), value);
  for (const DrawnNode& node : drawing.nodes) fill(*graph.add_node(), node);
  for (const DrawnFunction& function : drawing.functions) fill(*model.add_functions(), function);
  return model.SerializeAsString();
}

}  // namespace fusec::exporter
