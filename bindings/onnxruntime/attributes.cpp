// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/attributes.h"

#include <vector>

#include "bindings/onnxruntime/graph.h"
#include "bindings/onnxruntime/onnx_model.h"

namespace fusec::ort {
namespace {

// Fields and numbers of ONNX's AttributeProto.
enum { kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5, kFloats = 7, kInts = 8, kStrings = 9, kType = 20 };
enum { kNodeAttribute = 5 };

struct Attribute {
  const OrtOpAttr* handle;
  std::string name;
  AttributeKind kind;
};

std::vector<Attribute> attributes_of(const Api& api, const OrtNode* node) {
  std::vector<const OrtOpAttr*> handles(api.get<api::NodeGetNumAttributes, Size>(node));
  if (!handles.empty()) api.call<api::NodeGetAttributes>(node, handles.data(), handles.size());
  std::vector<Attribute> attributes;
  for (const OrtOpAttr* handle : handles) {
    if (handle == nullptr) continue;
    attributes.push_back({handle, api.get<api::OpAttrGetName, const char*>(handle),
                          static_cast<AttributeKind>(api.get<api::OpAttrGetType, int>(handle))});
  }
  return attributes;
}

// The contents of an attribute: a first call tells how many bytes there are.
template <class Element>
std::vector<Element> read(const Api& api, const Attribute& attribute) {
  const int kind = static_cast<int>(attribute.kind);
  std::vector<Element> data(16);
  Size bytes = 0;
  OrtStatus* const status = api.plain<api::ReadOpAttr>(attribute.handle, kind, static_cast<void*>(data.data()),
                                                       data.size() * sizeof(Element), &bytes);
  if (status != nullptr) {
    api.plain<api::ReleaseStatus>(status);
    data.resize(bytes / sizeof(Element) + 1);
    api.call<api::ReadOpAttr>(attribute.handle, kind, static_cast<void*>(data.data()), data.size() * sizeof(Element),
                              &bytes);
  }
  data.resize(bytes / sizeof(Element));
  return data;
}

std::string read_string(const Api& api, const Attribute& attribute) {
  const std::vector<char> text = read<char>(api, attribute);
  return {text.begin(), text.end()};
}

// ONNX Runtime puts a NUL behind each string.
void write_strings(const std::vector<char>& text, Message& message) {
  std::string_view rest(text.data(), text.size());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    message.text(kStrings, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// Answers why the tensor cannot be written, or "".
std::string write_tensor(const Api& api, const Attribute& attribute, Message& message) {
  auto* const tensor = api.get<api::OpAttrGetTensorAttributeAsOrtValue, OrtValue*>(attribute.handle);
  if (tensor == nullptr) return "its attribute '" + attribute.name + "' is no dense tensor";
  auto* const info = api.get<api::GetTensorTypeAndShape, OrtTensorTypeAndShapeInfo*>(tensor);
  Value value;
  value.type.element = api.get<api::GetTensorElementType, int>(info);
  api.plain<api::ReleaseTensorTypeAndShapeInfo>(info);
  value.type.dims = dims_of(api, tensor);
  std::size_t bytes = element_bytes(value.type.element);
  const bool known = bytes > 0;
  for (const int64_t dim : value.type.dims) bytes *= static_cast<std::size_t>(dim);
  value.data = {static_cast<const std::byte*>(api.get<api::GetTensorData, const void*>(tensor)), bytes};
  if (known) message.message(kTensor, tensor_message(value));
  api.plain<api::ReleaseValue>(tensor);
  return known ? "" : "the elements of its attribute '" + attribute.name + "' are no numbers";
}

std::string write(const Api& api, const Attribute& attribute, Message& message) {
  // The same kinds by ONNX's numbers: FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS.
  switch (attribute.kind) {
    case AttributeKind::integer:
      message.integer(kType, 2).integer(kInt, read<int64_t>(api, attribute).at(0));
      return "";
    case AttributeKind::integers:
      message.integer(kType, 7);
      for (const int64_t value : read<int64_t>(api, attribute)) message.integer(kInts, value);
      return "";
    case AttributeKind::number:
      message.integer(kType, 1).number(kFloat, read<float>(api, attribute).at(0));
      return "";
    case AttributeKind::numbers:
      message.integer(kType, 6);
      for (const float value : read<float>(api, attribute)) message.number(kFloats, value);
      return "";
    case AttributeKind::string:
      message.integer(kType, 3).text(kString, read_string(api, attribute));
      return "";
    case AttributeKind::strings:
      message.integer(kType, 8);
      write_strings(read<char>(api, attribute), message);
      return "";
    case AttributeKind::tensor:
      message.integer(kType, 4);
      return write_tensor(api, attribute, message);
    case AttributeKind::graph:
    case AttributeKind::undefined:
      break;
  }
  return "its attribute '" + attribute.name + "' is of a kind that ONNX Runtime does not hand out";
}

}  // namespace

WrittenAttributes write_attributes(const Api& api, const OrtNode* node) {
  WrittenAttributes all;
  Message fields;
  for (const Attribute& attribute : attributes_of(api, node)) {
    Message message;
    message.text(kName, attribute.name);
    all.refused = write(api, attribute, message);
    if (!all.refused.empty()) return all;
    fields.message(kNodeAttribute, message);
  }
  all.fields = fields.bytes();
  return all;
}

std::string string_attribute(const Api& api, const OrtNode* node, std::string_view name) {
  for (const Attribute& attribute : attributes_of(api, node)) {
    if (attribute.name == name && attribute.kind == AttributeKind::string) return read_string(api, attribute);
  }
  return "";
}

int64_t integer_attribute(const Api& api, const OrtNode* node, std::string_view name, int64_t otherwise) {
  for (const Attribute& attribute : attributes_of(api, node)) {
    if (attribute.name == name && attribute.kind == AttributeKind::integer) return read<int64_t>(api, attribute).at(0);
  }
  return otherwise;
}

}  // namespace fusec::ort
