// SPDX-License-Identifier: Apache-2.0
// Functions of the host between the kernels of a model, against the evaluator, which calls the same functions.
#include "fusec/custom_call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "ir/text/graph_text.h"
#include "runtime/plan/state.h"

namespace fusec {
namespace {

std::atomic<int> calls = 0;

// output[i][j] = a[i][j] * factor + b[j]
Status scale_rows(std::span<const CallTensor> inputs, const CallTensor& output, const std::string& attributes,
                  void* stream) {
  ++calls;
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(inputs.size(), 2u);
  if (attributes == "fail") return Status(StatusCode::device, "the function failed, as asked");
  const float factor = std::stof(attributes);
  const auto *a = static_cast<const float*>(inputs[0].data), *b = static_cast<const float*>(inputs[1].data);
  auto* const out = static_cast<float*>(output.data);
  const int64_t rows = output.shape[0], columns = output.shape[1];
  EXPECT_EQ(inputs[0].shape[0], rows);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = a[i * columns + j] * factor + b[j];
  return {};
}

Tensor numbers(std::vector<int64_t> shape) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = static_cast<float>(i % 11) - 5;
  return t;
}

// The call reads a transposed value, which is copied for it, and is read by a kernel.
Model model(const std::string& name, const std::string& attributes = "3") {
  GraphBuilder b;
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", DType::f32, {4, n});
  const Var rows = b.transpose(b.relu(x), {1, 0});
  const Var scaled = b.custom_call(name, {rows, b.constant(numbers({4}))}, DType::f32, {n, 4}, attributes);
  b.output("y", b.exp(scaled * 0.125) + 1);
  return *b.finish();
}

Options quiet(bool library = true) {
  Options options;
  options.use_cache = false;
  options.threads = 2;
  options.use_library = library;
  return options;
}

class CustomCallTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(register_call("test.scale", "cpu", scale_rows).ok()); }
  void TearDown() override { ASSERT_TRUE(register_call("test.scale", "cpu", nullptr).ok()); }
};

TEST_F(CustomCallTest, has_the_values_of_the_evaluator) {
  const Model m = model("test.scale");
  const std::vector<Tensor> inputs{numbers({4, 9})};
  const std::vector<Tensor> want = *ir::evaluate(*m.graph, inputs);
  for (const bool fuse : {true, false}) {
    Options options = quiet();
    options.fuse = fuse;
    options.verify_each_pass = true;
    Result<Engine> engine = Engine::compile(m, options);
    ASSERT_TRUE(engine.ok()) << engine.status().str();
    Session session = *Session::create(*engine);
    const Result<std::vector<Tensor>> got = session.run(inputs);
    ASSERT_TRUE(got.ok()) << got.status().str();
    ASSERT_EQ((*got)[0].shape(), want[0].shape());
    for (int64_t i = 0; i < want[0].num_elements(); ++i)
      EXPECT_NEAR((*got)[0].as<float>()[i], want[0].as<float>()[i], 1e-5) << i;
  }
  EXPECT_EQ(calls, 3);
}

// A concat that a library reads is a view, whose parts are written in place: not those of a function of the host, and
// not those that such a function reads. Results that a product reads transposed stay dense, too.
TEST_F(CustomCallTest, operands_and_results_are_dense) {
  GraphBuilder b;
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", DType::f32, {n, 4}), bias = b.constant(numbers({4}));
  const Var part = b.exp(x * 0.125);
  const Var called = b.custom_call("test.scale", {part, bias}, DType::f32, {n, 4}, "2");
  const Var again =
      b.custom_call("test.scale", {b.slice(b.concat({x, x}, 1), {0, 2}, {n, 4}), bias}, DType::f32, {n, 4}, "1");
  const Var all = b.concat({called, part, again}, 1);
  b.output("y", b.matmul(all, b.constant(numbers({12, 5}))));
  b.output("z", b.matmul(b.transpose(called, {1, 0}), again));
  const Model m = *b.finish();
  const std::vector<Tensor> inputs{numbers({6, 4})};
  const std::vector<Tensor> want = *ir::evaluate(*m.graph, inputs);
  for (const bool library : {true, false}) {
    Result<Engine> engine = Engine::compile(m, quiet(library));
    ASSERT_TRUE(engine.ok()) << engine.status().str();
    Session session = *Session::create(*engine);
    const Result<std::vector<Tensor>> got = session.run(inputs);
    ASSERT_TRUE(got.ok()) << got.status().str();
    for (std::size_t o = 0; o < want.size(); ++o)
      for (int64_t i = 0; i < want[o].num_elements(); ++i)
        EXPECT_NEAR((*got)[o].as<float>()[i], want[o].as<float>()[i], 1e-3) << o << " " << i;
  }
}

TEST_F(CustomCallTest, is_printed_and_parsed) {
  const Model m = model("test.scale", "a \"quoted\" text");
  const std::string text = ir::print(*m.graph);
  const Result<ir::Graph> again = ir::parse_graph(text);
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_TRUE(ir::same_graph(*m.graph, *again)) << text;
}

TEST_F(CustomCallTest, of_constants_alone_is_made_once) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {5, 4});
  const Var table =
      b.custom_call("test.scale", {b.constant(numbers({5, 4})), b.constant(numbers({4}))}, DType::f32, {5, 4}, "2");
  b.output("y", x + table);
  const Engine engine = *Engine::compile(*b.finish(), quiet());
  Session session = *Session::create(engine);
  calls = 0;
  const std::vector<Tensor> inputs{numbers({5, 4})};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run(inputs).ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(CustomCallTest, an_error_of_the_function_is_that_of_the_run) {
  Session session = *Session::create(*Engine::compile(model("test.scale", "fail"), quiet()));
  const Status failed = session.run(std::vector<Tensor>{numbers({4, 2})}).status();
  EXPECT_EQ(failed.code(), StatusCode::device);
  EXPECT_NE(failed.str().find("as asked"), std::string::npos);
  EXPECT_NE(failed.str().find("test.scale"), std::string::npos);
}

TEST_F(CustomCallTest, that_is_not_registered_is_refused_by_name) {
  const Status refused = Engine::compile(model("test.absent"), quiet()).status();
  EXPECT_EQ(refused.code(), StatusCode::unsupported);
  EXPECT_NE(refused.message().find("'test.absent' on cpu"), std::string::npos) << refused.str();
  EXPECT_EQ(register_call("", "cpu", scale_rows).code(), StatusCode::invalid_argument);
  EXPECT_EQ(register_call("x", "tpu", scale_rows).code(), StatusCode::invalid_argument);
}

TEST_F(CustomCallTest, is_named_by_packages) {
  const std::vector<std::string> targets{"cpu:native"};
  // Writing one needs no function.
  ASSERT_TRUE(package_bytes(model("test.absent"), targets, quiet()).ok());
  const Result<std::vector<std::byte>> bytes = package_bytes(model("test.scale"), targets, quiet());
  ASSERT_TRUE(bytes.ok()) << bytes.status().str();
  PackageOptions trust;
  trust.trust = true;
  const Package package = *Package::read(*bytes, trust);
  Session session = *Session::create(*Engine::load(package, quiet()));
  const std::vector<Tensor> inputs{numbers({4, 9})};
  const std::vector<Tensor> want = *ir::evaluate(*model("test.scale").graph, inputs);
  const std::vector<Tensor> got = *session.run(inputs);
  for (int64_t i = 0; i < want[0].num_elements(); ++i) EXPECT_NEAR(got[0].as<float>()[i], want[0].as<float>()[i], 1e-5);
  ASSERT_TRUE(register_call("test.scale", "cpu", nullptr).ok());
  const Status refused = Engine::load(package, quiet()).status();
  EXPECT_EQ(refused.code(), StatusCode::unsupported);
  EXPECT_NE(refused.str().find("'test.scale'"), std::string::npos) << refused.str();
  // The Engine keeps what it was made with.
  EXPECT_TRUE(session.run(inputs).ok());
}

TEST_F(CustomCallTest, keeps_its_types_in_another_precision) {
  Options options = quiet();
  options.precision = DType::bf16;
  Session session = *Session::create(*Engine::compile(model("test.scale"), options));
  const std::vector<Tensor> inputs{numbers({4, 9})};
  const std::vector<Tensor> want = *ir::evaluate(*model("test.scale").graph, inputs);
  const Result<std::vector<Tensor>> got = session.run(inputs);
  ASSERT_TRUE(got.ok()) << got.status().str();
  for (int64_t i = 0; i < want[0].num_elements(); ++i)
    EXPECT_NEAR((*got)[0].as<float>()[i], want[0].as<float>()[i], 0.02 * (1 + want[0].as<float>()[i]));
}

}  // namespace
}  // namespace fusec
