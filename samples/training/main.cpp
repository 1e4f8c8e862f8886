// SPDX-License-Identifier: Apache-2.0
// Training by gradients of graphs: a network of two layers learns which points lie in a circle. One compiled graph
// takes the weights, and returns the loss and the weights after a step of gradient descent.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"

using namespace fusec;

namespace {

constexpr int64_t kPoints = 64, kHidden = 16;

Result<Model> step() {
  GraphBuilder b;
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", DType::f32, {n, 2}), inside = b.input("inside", DType::f32, {n, 1});
  const std::vector<Var> weights = {b.input("w1", DType::f32, {kHidden, 2}), b.input("b1", DType::f32, {kHidden}),
                                    b.input("w2", DType::f32, {1, kHidden}), b.input("b2", DType::f32, {1})};
  const Var score = b.linear(b.gelu(b.linear(x, weights[0], weights[1])), weights[2], weights[3]);
  const Var loss = b.reduce_mean(b.softplus(score) - inside * score, {0, 1});  // the logistic loss
  b.output("loss", loss);
  const std::vector<Var> gradients = b.gradients(loss, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) b.output("new" + std::to_string(i), weights[i] - 0.5 * gradients[i]);
  return b.finish();
}

Tensor filled(std::vector<int64_t> shape, double scale) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.as<float>()[i] = static_cast<float>(scale * std::sin(1.0 + 7.0 * static_cast<double>(i)));
  return t;
}

}  // namespace

int main() {
  const Result<Model> model = step();
  if (!model.ok()) return std::puts(model.status().str().c_str()), 1;
  const Result<Engine> engine = Engine::compile(*model);
  if (!engine.ok()) return std::puts(engine.status().str().c_str()), 1;
  Result<Session> session = Session::create(*engine);
  if (!session.ok()) return std::puts(session.status().str().c_str()), 1;

  Tensor x = *Tensor::make(DType::f32, {kPoints, 2}), inside = *Tensor::make(DType::f32, {kPoints, 1});
  for (int64_t i = 0; i < kPoints; ++i) {
    const double angle = 2.4 * static_cast<double>(i), radius = 2 * std::sqrt(static_cast<double>(i) / kPoints);
    x.as<float>()[2 * i] = static_cast<float>(radius * std::cos(angle));
    x.as<float>()[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
    inside.as<float>()[i] = radius < 1.2 ? 1 : 0;
  }
  std::vector<Tensor> inputs = {
      x, inside, filled({kHidden, 2}, 1), filled({kHidden}, 0.5), filled({1, kHidden}, 0.3), filled({1}, 0)};
  float loss = 0;
  for (int i = 0; i <= 400; ++i) {
    const Result<std::vector<Tensor>> out = session->run(inputs);
    if (!out.ok()) return std::puts(out.status().str().c_str()), 1;
    loss = (*out)[0].as<float>()[0];
    if (i % 100 == 0) std::printf("step %3d  loss %.3f\n", i, static_cast<double>(loss));
    for (std::size_t w = 0; w < 4; ++w) inputs[2 + w] = (*out)[1 + w];
  }
  return loss < 0.2f ? 0 : 1;
}
