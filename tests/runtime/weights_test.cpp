// SPDX-License-Identifier: Apache-2.0
// Weights that are replaced after compiling: results are those of a compile with the new ones.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "runtime/plan/state.h"

namespace fusec {
namespace {

Tensor random(std::vector<int64_t> shape, unsigned seed) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = normal(generator);
  return t;
}

struct NamedWeights {
  Tensor filter, scale, shift, matrix;
};

NamedWeights make_weights(unsigned seed) {
  return {random({8, 3, 3, 3}, seed), random({8}, seed + 1), random({8}, seed + 2), random({8, 5}, seed + 3)};
}

// A convolution whose scale and shift are folded into it where they are constants, a pool and a product.
Model model(const NamedWeights& w) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {Dim::symbol("n"), 3, 9, 9});
  const Var per_channel = b.reshape(b.weight("scale", w.scale), {8, 1, 1});
  const Var c =
      b.conv(x, b.weight("filter", w.filter)) * per_channel + b.reshape(b.weight("shift", w.shift), {8, 1, 1});
  const Var features = b.reduce_mean(b.relu(c), {2, 3});
  b.output("y", b.matmul(features, b.weight("matrix", w.matrix)));
  b.output("w", b.weight("echo", w.shift));
  return *b.finish();
}

Options quiet() {
  Options options;
  options.use_cache = false;
  options.threads = 2;
  return options;
}

Options replaceable() {
  Options options = quiet();
  options.replaceable_weights = {"*"};
  return options;
}

std::vector<Tensor> run(Session& session, int64_t n = 2) {
  const std::vector<Tensor> inputs{random({n, 3, 9, 9}, 99)};
  Result<std::vector<Tensor>> outputs = session.run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().str();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

std::vector<Tensor> compiled_with(const NamedWeights& w, const Options& options) {
  Session session = *Session::create(*Engine::compile(model(w), options));
  return run(session);
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].bytes()), 0) << i;
}

void expect_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (int64_t j = 0; j < a[i].num_elements(); ++j)
      EXPECT_NEAR(a[i].as<float>()[j], b[i].as<float>()[j], 1e-4) << i << " " << j;
}

void set_all(Engine& engine, const NamedWeights& w) {
  for (const auto& [name, data] :
       {std::pair{"filter", w.filter}, {"scale", w.scale}, {"shift", w.shift}, {"matrix", w.matrix}, {"echo", w.shift}})
    ASSERT_TRUE(engine.set_weight(name, data).ok());
}

TEST(Weights, replaced_are_as_compiled) {
  const NamedWeights first = make_weights(1), second = make_weights(50), third = make_weights(90);
  Engine engine = *Engine::compile(model(first), replaceable());
  Session session = *Session::create(engine), other = *Session::create(engine);
  expect_same(run(session), compiled_with(first, replaceable()));
  expect_near(run(session), compiled_with(first, quiet()));
  set_all(engine, second);
  const int64_t kernels = engine.stats().compiled_kernels;
  expect_same(run(session), compiled_with(second, replaceable()));
  expect_near(run(session), compiled_with(second, quiet()));
  expect_same(run(other), compiled_with(second, replaceable()));
  set_all(engine, third);
  expect_same(run(session), compiled_with(third, replaceable()));
  Session later = *Session::create(engine);
  expect_same(run(later), compiled_with(third, replaceable()));
  EXPECT_EQ(engine.stats().compiled_kernels, kernels);
}

TEST(Weights, one_of_them_is_replaced_often) {
  NamedWeights w = make_weights(1);
  Engine engine = *Engine::compile(model(w), replaceable());
  Session session = *Session::create(engine);
  run(session);
  for (unsigned i = 0; i < 20; ++i) {
    w.filter = random({8, 3, 3, 3}, 200 + i);
    ASSERT_TRUE(engine.set_weight("filter", w.filter).ok());
    expect_same(run(session), compiled_with(w, replaceable()));
  }
}

TEST(Weights, are_copied_and_may_be_strided) {
  NamedWeights w = make_weights(1);
  Engine engine = *Engine::compile(model(w), replaceable());
  Session session = *Session::create(engine);
  Tensor columns = random({5, 8}, 7);
  w.matrix = *Tensor::make(DType::f32, {8, 5});
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 5; ++j) w.matrix.as<float>()[5 * i + j] = columns.as<float>()[8 * j + i];
  ASSERT_TRUE(engine.set_weight("matrix", Tensor::borrow(DType::f32, {8, 5}, columns.data(), {1, 8})).ok());
  std::memset(columns.data(), 0, columns.bytes());
  expect_same(run(session), compiled_with(w, replaceable()));
}

TEST(Weights, only_those_that_are_named_stay_replaceable) {
  Options options = quiet();
  options.replaceable_weights = {"filter"};
  NamedWeights w = make_weights(1);
  Engine engine = *Engine::compile(model(w), options);
  ASSERT_EQ(engine.weights().size(), 1u);
  EXPECT_EQ(engine.weights()[0].name, "filter");
  EXPECT_EQ(engine.weights()[0].shape, (Shape{8, 3, 3, 3}));
  const Status refused = engine.set_weight("scale", w.scale);
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.message().find("no weight 'scale'"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("'filter'"), std::string::npos) << refused.message();
  w.filter = random({8, 3, 3, 3}, 77);
  ASSERT_TRUE(engine.set_weight("filter", w.filter).ok());
  Session session = *Session::create(engine);
  expect_same(run(session), compiled_with(w, options));

  options.replaceable_weights = {"filtre"};
  const Result<Engine> unknown = Engine::compile(model(w), options);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(unknown.status().message().find("'filtre'"), std::string::npos);
}

TEST(Weights, refusals_say_why) {
  const NamedWeights w = make_weights(1);
  Engine folded = *Engine::compile(model(w), quiet());
  EXPECT_TRUE(folded.weights().empty());
  const Status refused = folded.set_weight("filter", w.filter);
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.message().find("'filter'"), std::string::npos);
  EXPECT_NE(refused.message().find("replaceable_weights"), std::string::npos);
  Engine engine = *Engine::compile(model(w), replaceable());
  const Status shape = engine.set_weight("scale", random({7}, 1));
  EXPECT_EQ(shape.code(), StatusCode::invalid_argument);
  EXPECT_NE(shape.message().find("must be f32[8], given is f32[7]"), std::string::npos) << shape.message();
  EXPECT_EQ(engine.set_weight("scale", *Tensor::make(DType::f64, {8})).code(), StatusCode::invalid_argument);
}

TEST(Weights, of_a_package_are_replaced) {
  const NamedWeights first = make_weights(1), second = make_weights(50);
  const std::vector<std::string> targets{"cpu:native"};
  const Result<std::vector<std::byte>> bytes = package_bytes(model(first), targets, replaceable());
  ASSERT_TRUE(bytes.ok()) << bytes.status().str();
  PackageOptions trust;
  trust.trust = true;
  Engine engine = *Engine::load(*Package::read(*bytes, trust), quiet());
  EXPECT_EQ(engine.weights().size(), 5u);
  Session session = *Session::create(engine);
  expect_same(run(session), compiled_with(first, replaceable()));
  set_all(engine, second);
  expect_same(run(session), compiled_with(second, replaceable()));
}

TEST(Weights, in_another_precision_are_converted_when_they_are_replaced) {
  Options options = replaceable();
  options.precision = DType::bf16;
  const NamedWeights first = make_weights(1), second = make_weights(50);
  Engine engine = *Engine::compile(model(first), options);
  Session session = *Session::create(engine);
  expect_same(run(session), compiled_with(first, options));
  set_all(engine, second);
  expect_same(run(session), compiled_with(second, options));
}

// Each run has all weights of one set.
TEST(Weights, are_replaced_while_others_run) {
  const NamedWeights first = make_weights(1), second = make_weights(50);
  NamedWeights mixed = first;
  mixed.matrix = second.matrix;
  Engine engine = *Engine::compile(model(first), replaceable());
  const std::vector<Tensor> a = compiled_with(first, replaceable()), b = compiled_with(mixed, replaceable());
  std::atomic<bool> over = false;
  std::vector<std::jthread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      Session session = *Session::create(engine);
      while (!over) {
        const std::vector<Tensor> got = run(session);
        const bool is_a = std::memcmp(got[0].data(), a[0].data(), a[0].bytes()) == 0;
        const bool is_b = std::memcmp(got[0].data(), b[0].data(), b[0].bytes()) == 0;
        ASSERT_TRUE(is_a || is_b);
      }
    });
  }
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(engine.set_weight("matrix", (i % 2 ? first : second).matrix).ok());
  over = true;
}

}  // namespace
}  // namespace fusec
