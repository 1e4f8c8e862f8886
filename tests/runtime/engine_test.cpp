// SPDX-License-Identifier: Apache-2.0
// The whole line on small graphs, against the evaluator.
#include "fusec/engine.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "fusec/graph_builder.h"
#include "fusec/jit.h"
#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "runtime/plan/state.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

// relu(2x + 1), and exp of its negative, on f32[n, 24].
Model small_model() {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {Dim::symbol("n"), 24});
  const Var y = b.apply("relu", {x * 2 + 1});
  b.output("y", y);
  b.output("p", b.exp(b.neg(y)));
  return *b.finish();
}

Model sum_model() {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {Dim::symbol("n"), Dim::symbol("m")});
  const Var y = b.input("y", DType::f32, {Dim::symbol("n"), Dim::symbol("m")});
  b.output("z", x * 3 + y);
  return *b.finish();
}

Tensor random(std::vector<int64_t> shape, unsigned seed) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = normal(generator);
  return t;
}

void expect_near(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  for (int64_t i = 0; i < actual.num_elements(); ++i) {
    const float want = expected.as<float>()[i];
    ASSERT_NEAR(actual.as<float>()[i], want, 1e-5f * (1 + std::abs(want))) << i;
  }
}

class EngineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-engine-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    options_.cache_dir = name;
    options_.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
  }
  void TearDown() override { fs::remove_all(*options_.cache_dir); }
  Engine must_compile(const Model& model) {
    Result<Engine> engine = Engine::compile(model, options_);
    if (!engine.ok()) throw std::runtime_error(engine.status().str());
    return std::move(engine).value();
  }
  Options options_;
  std::vector<std::string> warnings_;
};

TEST_F(EngineTest, ComputesWhatTheEvaluatorDoesForEveryBatch) {
  const Model model = small_model();
  Session session = *Session::create(must_compile(model));
  for (int64_t batch : {1, 7, 64, 1000}) {
    const std::vector<Tensor> in = {random({batch, 24}, static_cast<unsigned>(batch))};
    const auto out = session.run(in);
    ASSERT_TRUE(out.ok()) << out.status().str();
    const auto expected = ir::evaluate(*model.graph, in);
    ASSERT_TRUE(expected.ok());
    for (std::size_t i = 0; i < 2; ++i) expect_near((*out)[i], (*expected)[i]);
  }
}

TEST_F(EngineTest, ResultsDoNotDependOnThreads) {
  const std::vector<Tensor> in = {random({4000, 24}, 1)};
  std::vector<Tensor> first;
  for (int threads : {1, 2, 3, 8}) {
    options_.threads = threads;
    const auto out = Session::create(must_compile(small_model()))->run(in);
    ASSERT_TRUE(out.ok());
    if (first.empty()) first = *out;
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(std::memcmp((*out)[i].data(), first[i].data(), first[i].bytes()), 0);
  }
}

TEST_F(EngineTest, ASecondCompileTakesItsKernelsFromTheCache) {
  int64_t kernels = 0;
  {
    const Engine engine = must_compile(small_model());
    kernels = engine.stats().distinct_kernels;
    EXPECT_EQ(engine.stats().compiled_kernels, kernels);
    EXPECT_GT(kernels, 0);
  }
  {
    const Engine engine = must_compile(small_model());
    EXPECT_EQ(engine.stats().compiled_kernels, 0);
    EXPECT_EQ(engine.stats().cached_kernels, kernels);
    const std::vector<Tensor> in = {random({5, 24}, 2)};
    expect_near((*Session::create(engine)->run(in))[0], (*ir::evaluate(*small_model().graph, in))[0]);
  }
  options_.use_cache = false;
  EXPECT_EQ(must_compile(small_model()).stats().compiled_kernels, kernels);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(EngineTest, AnUnusableCacheIsOneWarning) {
  ASSERT_EQ(fs::status(*options_.cache_dir).permissions(), fs::perms::owner_all);
  fs::permissions(*options_.cache_dir, fs::perms::all);
  EXPECT_GT(must_compile(small_model()).stats().compiled_kernels, 0);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(EngineTest, ACompileEndsAtItsLimitAndTheNextOneWorks) {
  Options options;
  options.compile_seconds = 0;
  const Result<Engine> ended = Engine::compile(small_model(), options);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(ended.status().str().find("compile_seconds"), std::string::npos) << ended.status().str();
  options.compile_seconds = 1e9;
  EXPECT_TRUE(Engine::compile(small_model(), options).ok());
}

TEST_F(EngineTest, ThreadsThatCompileAtOnceAgree) {
  constexpr int kThreads = 8;
  const std::vector<Tensor> in = {random({5, 24}, 2)};
  std::vector<std::optional<Engine>> engines(kThreads);
  std::vector<std::vector<Tensor>> outputs(kThreads);
  std::barrier start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        Result<Engine> engine = Engine::compile(small_model(), options_);
        if (!engine.ok()) return;
        engines[t] = *engine;
        if (Result<Session> session = Session::create(*engine); session.ok()) outputs[t] = *session->run(in);
      });
    }
  }
  ASSERT_TRUE(engines[0]);
  const int64_t kernels = engines[0]->stats().distinct_kernels;
  for (std::size_t t = 0; t < kThreads; ++t) {
    ASSERT_TRUE(engines[t]) << t;
    ASSERT_EQ(outputs[t].size(), outputs[0].size()) << t;
    for (std::size_t i = 0; i < outputs[t].size(); ++i)
      EXPECT_EQ(std::memcmp(outputs[t][i].data(), outputs[0][i].data(), outputs[0][i].bytes()), 0) << t;
    EXPECT_EQ(engines[t]->stats().compiled_kernels + engines[t]->stats().cached_kernels, kernels);
  }
  expect_near(outputs[0][0], (*ir::evaluate(*small_model().graph, in))[0]);
  // A kernel that was compiled twice would be two artifacts.
  std::set<const codegen::Artifact*> made;
  for (const std::optional<Engine>& engine : engines) {
    for (const auto& artifact : engine->state()->loaded->artifacts) made.insert(artifact.get());
  }
  EXPECT_EQ(made.size(), static_cast<std::size_t>(kernels));
}

TEST_F(EngineTest, MistakesAreStatuses) {
  EXPECT_EQ(Engine::compile(Model(), options_).status().code(), StatusCode::invalid_argument);
  options_.target = "pdp-11";
  EXPECT_EQ(Engine::compile(small_model(), options_).status().code(), StatusCode::invalid_argument);
}

TEST_F(EngineTest, LowerTargetsAgreeWithTheHost) {
  const std::vector<Tensor> in = {random({33, 24}, 3)};
  const auto expected = ir::evaluate(*small_model().graph, in);
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    options_.target = target;
    const auto engine = Engine::compile(small_model(), options_);
    if (!engine.ok() && engine.status().code() == StatusCode::invalid_argument) continue;  // not this machine
    ASSERT_TRUE(engine.ok()) << engine.status().str();
    expect_near((*Session::create(*engine)->run(in))[1], (*expected)[1]);
  }
}

TEST_F(EngineTest, JitReadsTransposedAndBroadcastInputsWhereTheyLie) {
  const Model model = sum_model();
  const auto f = jit(model, options_);
  ASSERT_TRUE(f.ok()) << f.status().str();
  const Tensor a = random({6, 5}, 4), b = random({5, 6}, 5), row = random({6}, 6), gaps = random({5, 12}, 7);
  Tensor memory_a = a, memory_row = row, memory_gaps = gaps;
  const Tensor transposed = Tensor::borrow(DType::f32, {5, 6}, memory_a.data(), {1, 5});
  const Tensor repeated = Tensor::borrow(DType::f32, {5, 6}, memory_row.data(), {0, 1});
  const Tensor strided = Tensor::borrow(DType::f32, {5, 6}, memory_gaps.data(), {12, 2});
  int variants = 1;
  const auto check = [&](const Tensor& x, const Tensor& y, int new_variants) {
    const std::vector<Tensor> in = {x, y};
    for (int i = 0; i < 2; ++i) {
      Tensor out;
      const Status status = (*f)(in, std::span(&out, 1));
      ASSERT_TRUE(status.ok()) << status.str();
      expect_near(out, (*ir::evaluate(*model.graph, in))[0]);
    }
    EXPECT_EQ(f->variants(), variants += new_variants);
  };
  check(b, b, 0);
  check(transposed, b, 1);
  check(b, transposed, 1);
  check(transposed, repeated, 1);
  check(strided, b, 0);  // has gaps: copied
}

}  // namespace
}  // namespace fusec
