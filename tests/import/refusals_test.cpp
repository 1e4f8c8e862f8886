// SPDX-License-Identifier: Apache-2.0
// Which of the two codes a refused model gets: invalid_model where it breaks a rule of ONNX, unsupported where fusec
// lacks something.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/proto.h"
#include "onnx/defs/schema.h"
#include "tests/import/hostile_make.h"

namespace fusec::importer {
namespace {

struct Refusal {
  std::string inputs, nodes, message;
};

void expect_code(const std::vector<Refusal>& rows, StatusCode code) {
  for (const Refusal& row : rows) {
    const auto model = parse_hostile("(" + row.inputs + ") => (float y) { " + row.nodes + " }", "",
                                     R"(<ir_version: 10, opset_import: ["" : 21]>)");
    const Result<ir::Graph> graph = import_onnx(model);
    ASSERT_FALSE(graph.ok()) << row.nodes;
    EXPECT_EQ(graph.status().code(), code) << row.nodes << ": " << graph.status().str();
    EXPECT_NE(graph.status().message().find(row.message), std::string::npos) << graph.status().str();
  }
}

const std::string kImage = "float[1, 4, 8, 8] x, float[4, 4, 3, 3] w";
const std::string kFar = "4294967296";  // 2^32

// ONNX allows each of these.
TEST(Refusals, AreUnsupportedWhereTheModelIsValid) {
  expect_code(
      {
          {"float[N, 5] x", ints("2, 6", "y = Reshape(x, c)"), "must have one name"},
          {"float[N] x, float[N] z", "t = Concat <axis = 0> (x, z) y = Add(t, x)", "do not broadcast"},
          {"float[1, 4, 8, 8] x, float[K, 2, 3, 3] w", "y = Conv <group = 2> (x, w)", "K filters do not split"},
          {kImage, "y = Conv <strides = [1, " + kFar + "]> (x, w)", "strides with the entry " + kFar},
          {kImage, "y = Conv <dilations = [1, 2147483647]> (x, w)", "dilations that span"},
          {"float[C, 4, 8, 8] x, float[C, 4, 3, 3] w", "y = ConvTranspose <group = 3> (x, w)", "C channels"},
          {"float[2, C, 8] x, float[C] s", "y = GroupNormalization <num_groups = 2> (x, s, s)", "C channels"},
          {"int32[4] x", "y = Erf(x)", "integers, here i32"},
          {"uint8[4] x", "y = Shrink(x)", "integers, here u8"},
          {"float[1, 1, 65536, 65536] x", "y = SpaceToDepth <blocksize = 65536> (x)", "a blocksize of 65536"},
          {"float[4] x", "y = LRN <size = 2000> (x)", "a size of 2000"},
          {"float[3, 4] x, int64[2, D] z", "y = GatherND(x, z)", "indices, D, that is not known"},
      },
      StatusCode::unsupported);
}

TEST(Refusals, AreInvalidWhereARuleIsBroken) {
  expect_code(
      {
          {"float[4] x, float[5] z", "y = Add(x, z)", "do not broadcast"},
          {"float[1, 3, 8, 8] x, float[4, 4, 3, 3] w", "y = Conv(x, w)", "the operand has 3 channels"},
          {kImage, "y = Conv <strides = [1, 0]> (x, w)", "strides has the entry 0"},
          {"float[4, 4] x", "y = DepthToSpace <blocksize = 2> (x)", "4 axes"},
      },
      StatusCode::invalid_model);
}

TEST(Refusals, OfLimitsAreUnsupportedAndEndImport) {
  ImportOptions options;
  options.limits.nodes = 1;
  const auto two = parse_hostile("(float[4] x) => (float y) { z = Relu(x) y = Relu(z) }");
  EXPECT_EQ(import_onnx(two, options).status().str(), "unsupported: there are more nodes than the limit nodes = 1");
  options = {};
  options.limits.tensor_bytes = 15;
  const auto one = parse_hostile("(float[4] x) => (float y) { y = Bernoulli(x) z = Relu(x) }");
  EXPECT_EQ(import_onnx(one, options).status().code(), StatusCode::unsupported);
  options.limits.model_bytes = 10;
  const std::string bytes = one.SerializeAsString();
  const Status status = import_onnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("model_bytes = 10"), std::string::npos) << status.str();
}

TEST(Refusals, OfIrVersions) {
  const auto code = [](int version) {
    auto model = parse_hostile("(float[4] x) => (float y) { y = Relu(x) }");
    model.set_ir_version(version);
    const Result<ir::Graph> graph = import_onnx(model);
    return graph.ok() ? StatusCode::ok : graph.status().code();
  };
  EXPECT_EQ(code(0), StatusCode::invalid_model);
  EXPECT_EQ(code(1), StatusCode::unsupported);
  EXPECT_EQ(code(2), StatusCode::unsupported);
  EXPECT_EQ(code(3), StatusCode::ok);
  EXPECT_EQ(code(1000), StatusCode::unsupported);
}

std::string onnx_name(int type) {
  std::string name = proto::TensorProto::DataType_Name(static_cast<proto::TensorProto::DataType>(type));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

int type_named(const std::string& text) {
  for (int type = proto::TensorProto::FLOAT; type <= proto::TensorProto::BFLOAT16; ++type) {
    if (text == "tensor(" + onnx_name(type) + ")") return type;
  }
  return proto::TensorProto::INT64;
}

using Types = std::map<std::string, int>;  // of each type parameter: the number of an element type

// y = op(operands of [2, 3, 4, 4]) with what the schema asks for.
proto::ModelProto make_model(const proto::OpSchema& schema, const Types& types, int64_t opset) {
  auto model = parse_hostile("(float[4] x) => (float y) { y = Relu(x) }", "",
                             fmt::format(R"(<ir_version: 10, opset_import: ["" : {}]>)", opset));
  proto::GraphProto& graph = *model.mutable_graph();
  graph.clear_input(), graph.clear_node();
  graph.mutable_output(0)->clear_type();
  proto::NodeProto& node = *graph.add_node();
  node.set_op_type(schema.Name());
  node.add_output("y");
  for (const auto& formal : schema.inputs()) {
    if (formal.GetOption() == proto::OpSchema::Optional) break;
    const std::string name = "x" + std::to_string(graph.input_size());
    proto::ValueInfoProto& input = *graph.add_input();
    input.set_name(name);
    auto* tensor = input.mutable_type()->mutable_tensor_type();
    // A type parameter, or a type by its name.
    const auto type = types.find(formal.GetTypeStr());
    tensor->set_elem_type(type == types.end() ? type_named(formal.GetTypeStr()) : type->second);
    for (const int64_t extent : {2, 3, 4, 4}) tensor->mutable_shape()->add_dim()->set_dim_value(extent);
    node.add_input(name);
  }
  for (const auto& [name, attribute] : schema.attributes()) {
    if (!attribute.required) continue;
    proto::AttributeProto& value = *node.add_attribute();
    value.set_name(name);
    value.set_type(attribute.type);
    if (attribute.type == proto::AttributeProto::INT) value.set_i(1);
    if (attribute.type == proto::AttributeProto::INTS) value.add_ints(1), value.add_ints(1);
    if (attribute.type == proto::AttributeProto::STRING) value.set_s("LEFT");
  }
  return model;
}

// All choices of the element types that fusec has, one for each type parameter of the op's operands.
std::vector<Types> choices(const proto::OpSchema& schema) {
  std::vector<Types> all = {{}};
  for (const auto& parameter : schema.typeConstraintParams()) {
    std::vector<Types> longer;
    for (const std::string& text : parameter.allowed_type_strs) {
      for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32,
                                DType::i64, DType::u8, DType::u16, DType::u32, DType::u64, DType::bool_}) {
        const int type = from_dtype(dtype);
        if (text != "tensor(" + onnx_name(type) + ")") continue;
        for (Types types : all) {
          types[parameter.type_param_str] = type;
          longer.push_back(std::move(types));
        }
      }
    }
    if (!longer.empty() && longer.size() < 3000) all = std::move(longer);
  }
  return all;
}

// What the text of an error says where an element type is refused.
bool blames_a_type(const std::string& text) {
  for (const char* reason : {"are not accepted", "a number type", "a float type", "must have one type", "must be bool",
                             "i32 or i64", "type i8 or u8", "operand's type"}) {
    if (text.find(reason) != std::string::npos) return true;
  }
  return false;
}

TEST(Refusals, NeverCallATypeInvalidThatOnnxAllows) {
  int64_t models = 0;
  for (const OpRow& row : all_onnx_ops()) {
    for (const int64_t opset : {kWholeOpset, int64_t{9}, int64_t{13}, int64_t{18}, int64_t{21}, kMaxOpset}) {
      const auto* schema = proto::OpSchemaRegistry::Schema(std::string(row.name), static_cast<int>(opset), "");
      if (schema == nullptr || schema->deprecated()) continue;
      std::set<std::string> told;
      for (const Types& types : choices(*schema)) {
        const Result<ir::Graph> graph = import_onnx(make_model(*schema, types, opset));
        ++models;
        if (graph.ok() || graph.status().code() != StatusCode::invalid_model) continue;
        if (!blames_a_type(graph.status().message()) || !told.insert(graph.status().message()).second) continue;
        ADD_FAILURE() << row.name << " of opset " << opset << ": " << graph.status().str();
      }
    }
  }
  EXPECT_GT(models, 3000);
}

}  // namespace
}  // namespace fusec::importer
