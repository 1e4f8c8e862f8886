// SPDX-License-Identifier: Apache-2.0
// Steps of gradient descent by compiled graphs: a network of two layers against loops in double, and a convolutional
// one against finite differences of the evaluator.
#include <gtest/gtest.h>

#include <cmath>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "ir/ops/random.h"
#include "runtime/plan/state.h"

namespace fusec {
namespace {

Tensor scaled(std::vector<int64_t> shape, uint64_t seed, float scale) {
  Tensor t = *ir::random_tensor(DType::f32, std::move(shape), seed);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] *= scale;
  return t;
}

Engine compile(const Model& model) {
  Options options;
  options.use_cache = false;
  Result<Engine> engine = Engine::compile(model, options);
  EXPECT_TRUE(engine.ok()) << engine.status().str();
  return *engine;
}

// The loss and, as further outputs, weights - rate * gradient.
Model step_model(GraphBuilder& b, Var loss, const std::vector<Var>& weights, double rate) {
  b.output("loss", loss);
  const std::vector<Var> gradients = b.gradients(loss, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    b.output("w" + std::to_string(i), weights[i] - rate * gradients[i]);
    b.output("g" + std::to_string(i), gradients[i]);
  }
  Result<Model> model = b.finish();
  EXPECT_TRUE(model.ok()) << model.status().str();
  return *model;
}

// The mean of -log softmax(scores)[label] over the batch; labels are i64[n].
Var cross_entropy(GraphBuilder& b, Var scores, Var labels) {
  const Dim n = scores.shape()[0];
  const Var picked = b.gather_elements(b.log_softmax(scores, 1), b.reshape(labels, {n, 1}), 1);
  return -b.reduce_mean(picked, {0, 1});
}

Tensor labels(int64_t n, int64_t classes) {
  Tensor t = *Tensor::make(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) t.as<int64_t>()[i] = (i * i + 1) % classes;
  return t;
}

constexpr int64_t kIn = 6, kHidden = 16, kOut = 3, kRows = 10;
constexpr double kRate = 0.2;

// --- Two layers ----------------------------------------------------------------------------------------------------

struct Layers {
  std::vector<double> w1 = std::vector<double>(kHidden * kIn), b1 = std::vector<double>(kHidden),
                      w2 = std::vector<double>(kOut * kHidden), b2 = std::vector<double>(kOut);
};

double gelu(double a) { return 0.5 * a * (1 + std::erf(a / std::sqrt(2.0))); }
double gelu_slope(double a) {
  return 0.5 * (1 + std::erf(a / std::sqrt(2.0))) + a * std::exp(-0.5 * a * a) / std::sqrt(2 * 3.14159265358979323846);
}

// One step of gradient descent on the mean cross entropy, written out; answers the loss before it.
double plain_step(Layers& l, const Tensor& x, const Tensor& label) {
  const auto at = [](std::vector<double>& m, int64_t i, int64_t j, int64_t n) -> double& {
    return m[static_cast<std::size_t>(i * n + j)];
  };
  Layers g;
  double loss = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    const float* row = x.as<float>() + r * kIn;
    std::vector<double> a(kHidden), h(kHidden), s(kOut);
    for (int64_t i = 0; i < kHidden; ++i) {
      a[static_cast<std::size_t>(i)] = l.b1[static_cast<std::size_t>(i)];
      for (int64_t k = 0; k < kIn; ++k) a[static_cast<std::size_t>(i)] += at(l.w1, i, k, kIn) * row[k];
      h[static_cast<std::size_t>(i)] = gelu(a[static_cast<std::size_t>(i)]);
    }
    double sum = 0;
    for (int64_t o = 0; o < kOut; ++o) {
      s[static_cast<std::size_t>(o)] = l.b2[static_cast<std::size_t>(o)];
      for (int64_t i = 0; i < kHidden; ++i)
        s[static_cast<std::size_t>(o)] += at(l.w2, o, i, kHidden) * h[static_cast<std::size_t>(i)];
      sum += std::exp(s[static_cast<std::size_t>(o)]);
    }
    const int64_t right = label.as<int64_t>()[r];
    loss -= (s[static_cast<std::size_t>(right)] - std::log(sum)) / kRows;
    std::vector<double> dh(kHidden);
    for (int64_t o = 0; o < kOut; ++o) {
      const double ds = (std::exp(s[static_cast<std::size_t>(o)]) / sum - (o == right ? 1 : 0)) / kRows;
      g.b2[static_cast<std::size_t>(o)] += ds;
      for (int64_t i = 0; i < kHidden; ++i) {
        at(g.w2, o, i, kHidden) += ds * h[static_cast<std::size_t>(i)];
        dh[static_cast<std::size_t>(i)] += ds * at(l.w2, o, i, kHidden);
      }
    }
    for (int64_t i = 0; i < kHidden; ++i) {
      const double da = dh[static_cast<std::size_t>(i)] * gelu_slope(a[static_cast<std::size_t>(i)]);
      g.b1[static_cast<std::size_t>(i)] += da;
      for (int64_t k = 0; k < kIn; ++k) at(g.w1, i, k, kIn) += da * row[k];
    }
  }
  const auto descend = [](std::vector<double>& w, const std::vector<double>& dw) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= kRate * dw[i];
  };
  descend(l.w1, g.w1);
  descend(l.b1, g.b1);
  descend(l.w2, g.w2);
  descend(l.b2, g.b2);
  return loss;
}

std::vector<double> doubles(const Tensor& t) { return {t.as<float>(), t.as<float>() + t.num_elements()}; }

Model layers_model() {
  GraphBuilder b;
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", DType::f32, {n, kIn}), label = b.input("label", DType::i64, {n});
  const Var w1 = b.input("w1", DType::f32, {kHidden, kIn}), b1 = b.input("b1", DType::f32, {kHidden});
  const Var w2 = b.input("w2", DType::f32, {kOut, kHidden}), b2 = b.input("b2", DType::f32, {kOut});
  const Var scores = b.linear(b.gelu(b.linear(x, w1, b1)), w2, b2);
  return step_model(b, cross_entropy(b, scores, label), {w1, b1, w2, b2}, kRate);
}

TEST(Training, TwoLayersFollowPlainLoops) {
  const Engine engine = compile(layers_model());
  Session session = *Session::create(engine);
  const Tensor x = scaled({kRows, kIn}, 1, 1), label = labels(kRows, kOut);
  std::vector<Tensor> weights = {scaled({kHidden, kIn}, 2, 0.4f), scaled({kHidden}, 3, 0.1f),
                                 scaled({kOut, kHidden}, 4, 0.4f), scaled({kOut}, 5, 0.1f)};
  Layers plain{doubles(weights[0]), doubles(weights[1]), doubles(weights[2]), doubles(weights[3])};
  double first = 0, last = 0;
  for (int i = 0; i < 60; ++i) {
    const auto out = session.run(std::vector<Tensor>{x, label, weights[0], weights[1], weights[2], weights[3]});
    ASSERT_TRUE(out.ok()) << out.status().str();
    last = (*out)[0].as<float>()[0];
    if (i == 0) first = last;
    EXPECT_NEAR(last, plain_step(plain, x, label), 2e-5) << "step " << i;
    weights = {(*out)[1], (*out)[3], (*out)[5], (*out)[7]};
  }
  EXPECT_LT(last, 0.2 * first);
  const std::vector<double>* expected[] = {&plain.w1, &plain.b1, &plain.w2, &plain.b2};
  for (std::size_t w = 0; w < 4; ++w)
    for (int64_t i = 0; i < weights[w].num_elements(); ++i)
      EXPECT_NEAR(weights[w].as<float>()[i], (*expected[w])[static_cast<std::size_t>(i)], 2e-4) << w << " " << i;
}

// --- Convolutions --------------------------------------------------------------------------------------------------

struct Convolutional {
  std::vector<Var> weights;
  Var loss;
};

Convolutional convolutional(GraphBuilder& b, DType dtype) {
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", dtype, {n, 1, 8, 8}), label = b.input("label", DType::i64, {n});
  const Var w1 = b.input("w1", dtype, {4, 1, 3, 3}), b1 = b.input("b1", dtype, {4});
  const Var w2 = b.input("w2", dtype, {6, 4, 3, 3}), b2 = b.input("b2", dtype, {6});
  const Var w3 = b.input("w3", dtype, {kOut, 6}), b3 = b.input("b3", dtype, {kOut});
  Var v = b.silu(b.conv(x, w1, b1, {.pads = {1, 1, 1, 1}}));
  v = b.max_pool(v, {2, 2}, {.strides = {2, 2}});
  v = b.silu(b.conv(v, w2, b2, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  v = b.linear(b.reduce_mean(v, {2, 3}), w3, b3);
  return {{w1, b1, w2, b2, w3, b3}, cross_entropy(b, v, label)};
}

std::vector<Tensor> convolutional_inputs() {
  return {scaled({6, 1, 8, 8}, 1, 1),    labels(6, kOut),      scaled({4, 1, 3, 3}, 2, 0.5f), scaled({4}, 3, 0.1f),
          scaled({6, 4, 3, 3}, 4, 0.3f), scaled({6}, 5, 0.1f), scaled({kOut, 6}, 6, 0.5f),    scaled({kOut}, 7, 0.1f)};
}

Tensor wide(const Tensor& t) {
  if (t.dtype() != DType::f32) return t;
  Tensor out = *Tensor::make(DType::f64, t.shape());
  for (int64_t i = 0; i < t.num_elements(); ++i) out.as<double>()[i] = t.as<float>()[i];
  return out;
}

TEST(Training, ConvolutionsFollowFiniteDifferences) {
  GraphBuilder b, forward;
  const Convolutional network = convolutional(b, DType::f32), same = convolutional(forward, DType::f64);
  const Engine engine = compile(step_model(b, network.loss, network.weights, 0.5));
  forward.output("loss", same.loss);
  const Model loss_model = *forward.finish();
  Session session = *Session::create(engine);
  std::vector<Tensor> inputs = convolutional_inputs(), exact;
  for (const Tensor& t : inputs) exact.push_back(wide(t));
  const auto loss = [&] { return (*ir::evaluate(*loss_model.graph, exact))[0].as<double>()[0]; };

  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    const auto out = session.run(inputs);
    ASSERT_TRUE(out.ok()) << out.status().str();
    last = (*out)[0].as<float>()[0];
    if (step == 0) {
      first = last;
      EXPECT_NEAR(first, loss(), 1e-5);
    }
    for (std::size_t w = 0; w < 6 && step == 0; ++w) {
      const Tensor& gradient = (*out)[2 + 2 * w];
      for (int64_t i = 0; i < gradient.num_elements(); i += 1 + gradient.num_elements() / 12) {
        double& value = exact[2 + w].as<double>()[i];
        const double before = value, h = 1e-5;
        value = before + h;
        const double above = loss();
        value = before - h;
        const double slope = (above - loss()) / (2 * h);
        value = before;
        EXPECT_NEAR(gradient.as<float>()[i], slope, 2e-5 * std::max(1.0, std::fabs(slope))) << w << " " << i;
      }
    }
    for (std::size_t w = 0; w < 6; ++w) inputs[2 + w] = (*out)[1 + 2 * w];
  }
  EXPECT_LT(last, 0.7 * first);
}

// --- Fusion --------------------------------------------------------------------------------------------------------

using Backward = std::vector<Var> (*)(GraphBuilder& b, Var x, Var w, Var dy);

// The launches of a run for gradients of x f32[n, 256] and w f32[256].
int64_t launches(Backward backward) {
  GraphBuilder b;
  const Shape shape{Dim::symbol("n"), 256};
  const Var x = b.input("x", DType::f32, shape), w = b.input("w", DType::f32, {256});
  const std::vector<Var> gradients = backward(b, x, w, b.input("dy", DType::f32, shape));
  for (std::size_t i = 0; i < gradients.size(); ++i) b.output("g" + std::to_string(i), gradients[i]);
  const Result<Model> model = b.finish();
  EXPECT_TRUE(model.ok()) << model.status().str();
  const Result<PlanStats> plan = compile(*model).plan(std::vector<TensorShape>{{24, 256}, {256}, {24, 256}});
  EXPECT_TRUE(plan.ok()) << plan.status().str();
  return plan->launches + plan->once;
}

TEST(Training, BackwardSidesAreOneKernel) {
  EXPECT_EQ(launches([](GraphBuilder& b, Var x, Var w, Var dy) { return b.gradients(b.gelu(x + w), {x, w}, dy); }), 1);
  EXPECT_EQ(launches([](GraphBuilder& b, Var x, Var w, Var dy) { return b.gradients(b.silu(x * w), {w}, dy); }), 1);
  EXPECT_EQ(launches([](GraphBuilder& b, Var x, Var, Var dy) { return b.gradients(b.softmax(x, 1), {x}, dy); }), 1);
  EXPECT_EQ(launches([](GraphBuilder& b, Var x, Var w, Var dy) { return b.gradients(b.rms_norm(x, w), {x}, dy); }), 1);
  EXPECT_EQ(launches([](GraphBuilder& b, Var x, Var w, Var dy) { return b.gradients(b.layer_norm(x, w, w), {x}, dy); }),
            1);
}

// Two products forward, and one for each weight and for the hidden layer backward. The slope of the activation is a
// factor behind its product.
TEST(Training, LayersTakeFiveProducts) {
  const std::vector<TensorShape> shapes = {{kRows, kIn}, {kRows}, {kHidden, kIn}, {kHidden}, {kOut, kHidden}, {kOut}};
  const Result<PlanStats> plan = compile(layers_model()).plan(shapes);
  ASSERT_TRUE(plan.ok()) << plan.status().str();
  EXPECT_EQ(plan->library, 5);
  EXPECT_LE(plan->generated, 11);
}

}  // namespace
}  // namespace fusec
