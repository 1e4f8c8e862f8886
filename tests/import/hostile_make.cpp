// SPDX-License-Identifier: Apache-2.0
#include "tests/import/hostile_make.h"

#include <stdexcept>

#include "onnx/defs/parser.h"

namespace fusec::importer {

using proto::ModelProto;
using proto::TensorProto;

namespace {

// "(Conv)" of "... y = Conv <group = 0> (x, w)": as errors name a node.
std::string maker_of_y(const std::string& nodes) {
  const std::string text = " " + nodes;
  const std::size_t begin = text.rfind(" y = ") + 5;
  return "(" + text.substr(begin, text.find_first_of(" (<", begin) - begin) + ")";
}

}  // namespace

ModelProto parse_hostile(const std::string& graph, const std::string& functions, const std::string& header) {
  ModelProto model;
  const std::string text = header + " g " + graph + " " + functions;
  proto::OnnxParser parser(text.c_str());
  auto status = parser.Parse(model);
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage() + " in " + text.substr(0, 2000));
  return model;
}

void add_graphs(HostileList& list, const std::vector<HostileGraph>& rows) {
  for (const HostileGraph& row : rows) {
    const ModelProto model = parse_hostile("(" + row.inputs + ") => (float y) { " + row.nodes + " }");
    list.push_back(
        {row.name, model.SerializeAsString(), row.message, row.where.empty() ? maker_of_y(row.nodes) : row.where});
  }
}

void add_spoiled(HostileList& list, const std::vector<SpoiledModel>& rows) {
  for (const SpoiledModel& row : rows) {
    ModelProto model = parse_hostile("(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }");
    row.edit(model);
    list.push_back({row.name, model.SerializeAsString(), row.message, ""});
  }
}

void add_spoiled(HostileList& list, const std::vector<SpoiledTensor>& rows) {
  for (const SpoiledTensor& row : rows) {
    ModelProto model = parse_hostile("(float[2, 4] x) => (float[2, 4] y) { y = Add(x, w) }");
    TensorProto& w = *model.mutable_graph()->add_initializer();
    w.set_name("w");
    w.set_data_type(TensorProto::FLOAT);
    w.add_dims(4);
    w.set_raw_data(std::string(16, '\0'));
    row.edit(w);
    list.push_back({row.name, model.SerializeAsString(), row.message, "in tensor 'w"});
  }
}

std::string wire_field(char tag, const std::string& content) {
  std::string out(1, tag);
  std::size_t n = content.size();
  for (; n > 127; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n) + content;
}

}  // namespace fusec::importer
