// SPDX-License-Identifier: Apache-2.0
// Real models: how many ops are left, and that no shape arithmetic is.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/proto.h"
#include "ir/verify/graph.h"

namespace fusec::importer {
namespace {

struct Expected {
  const char* name;
  int64_t ops;  // of the file, by hand: its nodes less identities, constants, shape arithmetic and work on constants
  const char* output;
};

// mobilenet_v3_large_ifx: 607 nodes - 168 Identity - 116 Constant - 58 Cast of constants. The others of the first block
// likewise. densenet121: 617 nodes - 245 Identity - 4 Concat of one operand. mixer_b16: 422 - 49 Identity - 76 Constant
// - 3 of a shape. poolformer_s12: 500 - 82 Identity - 108 Constant - 24 Shape. edgenext_small: 382 - 6 of the 51 that
// depend on a shape; 45 make its encoding of positions. swin_t: 6285 - 91 Identity - 2654 Constant - 2959 that depend
// on shapes - 15 Pad by nothing - 24 Slice of a whole. bert_base, gpt2, llama_4l and vit_b_16 hold shape arithmetic;
// their counts are what is left of it. With weights as constants bert_base and gpt2 count one less: the gather of
// position embeddings.
constexpr Expected kModels[] = {
    {"mobilenet_v3_large_ifx", 265, "[N, 1000]"},
    {"mobilenet_v3_large", 140, "[N, 1000]"},
    {"mobilenet_v3_small", 122, "[N, 1000]"},
    {"efficientnet_b0", 239, "[N, 1000]"},
    {"convnext_tiny", 292, "[N, 1000]"},
    {"resnet18", 49, "[N, 1000]"},
    {"resnet18_dynamo", 49, "[batch, 1000]"},
    {"resnet50", 122, "[N, 1000]"},
    {"squeezenet1_1", 65, "[N, 1000]"},
    {"bert_base", 417, "[N, 128, 768]"},
    {"gpt2", 477, "[N, 128, 768]"},
    {"vit_b_16", 525, "[N, 1000]"},
    {"densenet121", 368, "[N, 1000]"},
    {"edgenext_small", 376, "[batch, 1000]"},
    {"llama_4l", 277, "[N, 128, 1024]"},
    {"mixer_b16", 294, "[N, 1000]"},
    {"poolformer_s12", 286, "[N, 1000]"},
    {"swin_t", 542, "[N, 1000]"},
};

// Weights without data become inputs: filling them takes time and changes nothing here.
Result<proto::ModelProto> read_model(const std::string& name) {
  FUSEC_ASSIGN(auto bytes, read_file(std::string(FUSEC_SOURCE_DIR) + "/tests/models/" + name + ".onnx", 1 << 30));
  FUSEC_ASSIGN(proto::ModelProto model, parse_model(bytes, ImportLimits()));
  proto::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<proto::TensorProto> kept;
  for (const auto& tensor : graph.initializer()) {
    if (tensor.data_location() != proto::TensorProto::EXTERNAL) {
      *kept.Add() = tensor;
      continue;
    }
    auto* input = graph.add_input();
    input->set_name(tensor.name());
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    for (int64_t extent : tensor.dims()) type->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  graph.mutable_initializer()->Swap(&kept);
  return model;
}

TEST(Models, OpsAreCountedAndShapeArithmeticIsGone) {
  for (const Expected& expected : kModels) {
    auto model = read_model(expected.name);
    ASSERT_TRUE(model.ok()) << model.status().str();
    auto graph = import_onnx(*model);
    ASSERT_TRUE(graph.ok()) << expected.name << ": " << graph.status().str();
    EXPECT_TRUE(ir::verify(*graph, ir::GraphForm::imported).ok()) << expected.name;
    EXPECT_EQ(graph->imported_ops, expected.ops) << expected.name;
    EXPECT_EQ(to_string(graph->type(graph->outputs[0]).shape), expected.output) << expected.name;
    for (ir::NodeId id : graph->order) {
      EXPECT_FALSE(graph->nodes[id].op == ir::Op(ir::TensorOp::dim))
          << expected.name << ": " << graph->nodes[id].origin;
    }
  }
}

TEST(Models, AMissingWeightIsNamed) {
  auto bytes = read_file(std::string(FUSEC_SOURCE_DIR) + "/tests/models/squeezenet1_1.onnx", 1 << 30);
  ASSERT_TRUE(bytes.ok());
  std::string text = import_onnx(*bytes).status().str();
  EXPECT_NE(text.find("squeezenet1_1.weights"), std::string::npos) << text;
  EXPECT_NE(text.find("in tensor '"), std::string::npos) << text;
}

TEST(Models, SymbolsCanBeFixed) {
  auto model = read_model("squeezenet1_1");
  ASSERT_TRUE(model.ok());
  ImportOptions options;
  options.symbols = {{"N", 7}};
  auto graph = import_onnx(*model, options);
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  EXPECT_EQ(to_string(graph->type(graph->outputs[0]).shape), "[7, 1000]");
  options.symbols = {{"M", 7}};
  EXPECT_EQ(import_onnx(*model, options).status().code(), StatusCode::invalid_argument);
  options.symbols = {{"N", -7}};
  EXPECT_EQ(import_onnx(*model, options).status().message(), "the extent of 'N' is negative");
}

TEST(Models, AreNotLargerThanProtobufReads) {
  const uint8_t byte = 8;  // of three GiB none is read
  EXPECT_EQ(parse_model({&byte, std::size_t{3} << 30}, ImportLimits()).status().message(),
            "the file is larger than 2 GiB, which protobuf cannot read");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take address space themselves
TEST(Models, NeedMemoryThatThereIs) {
  const std::string path = ::testing::TempDir() + "fusec_sparse.onnx";
  ASSERT_EQ(std::fclose(std::fopen(path.c_str(), "w")), 0);
  std::filesystem::resize_file(path, uint64_t{8} << 30);
  const auto read = [&] {
    const rlimit limit = {rlim_t{4} << 30, rlim_t{4} << 30};
    setrlimit(RLIMIT_AS, &limit);
    std::fputs(read_file(path, int64_t{1} << 40).status().str().c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(read(), ::testing::ExitedWithCode(0), "out_of_memory: no memory for the 8589934592 bytes of");
  std::filesystem::remove(path);
}
#endif

TEST(Models, ConstantsAreInputsOfTheModel) {
  auto model = read_model("squeezenet1_1");
  ASSERT_TRUE(model.ok());
  ImportOptions options;
  options.constants.emplace("nowhere", *Tensor::make(DType::f32, {1}));
  EXPECT_EQ(import_onnx(*model, options).status().message(), "the model has no input 'nowhere'");
}

// Strings have no type in a graph: a model that import refuses can be cut, but what is a string does not become an
// input.
TEST(SubmodelExtractor, FreesOnlyWhatHasAType) {
  proto::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  proto::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  proto::TensorProto& words = *graph.add_initializer();
  words.set_name("words");
  words.set_data_type(proto::TensorProto::STRING);
  words.add_dims(1);
  words.add_string_data("a");
  proto::NodeProto& node = *graph.add_node();
  node.set_op_type("StringNormalizer");
  node.add_input("words");
  node.add_output("y");
  graph.add_output()->set_name("y");
  const std::string path = ::testing::TempDir() + "fusec_strings.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  const Result<SubmodelExtractor> cutter = SubmodelExtractor::read(path, ImportOptions());
  std::filesystem::remove(path);
  ASSERT_TRUE(cutter.ok()) << cutter.status().str();
  EXPECT_TRUE(cutter->cut({{1}, {}, {}}).ok());
  EXPECT_EQ(cutter->cut({{1}, {}, {"words"}}).status().str(), "unsupported: 'words' has no known type");
  EXPECT_EQ(cutter->cut({{0}, {}, {}}).status().str(), "invalid_argument: no node is left");
}

}  // namespace
}  // namespace fusec::importer
