// SPDX-License-Identifier: Apache-2.0
// Gradients of GraphBuilder against central differences, both by the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusec/graph_builder.h"
#include "ir/eval/graph.h"
#include "ir/ops/random.h"

namespace fusec::differences {

using Vars = std::vector<Var>;
using Function = std::function<Var(GraphBuilder&, const Vars&)>;

// An argument: floats in lo ... hi, or given integers, which have no gradient.
struct Argument {
  Shape shape;
  double lo = -2, hi = 2;
  std::vector<int64_t> integers = {};
  DType dtype = DType::f64;
};

inline const Dim kN = Dim::symbol("n");
constexpr int64_t kBatch = 3;  // the value of n

inline std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> out;
  for (const Dim& d : shape) out.push_back(*d.eval({{"n", kBatch}}));
  return out;
}

inline Tensor values(const Argument& argument, uint64_t seed) {
  Tensor t = *Tensor::make(argument.dtype, extents(argument.shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double place = 0.5 + ir::random_float(seed, static_cast<uint64_t>(i)) / 7;  // in 0 ... 1
    const double value = argument.lo + (argument.hi - argument.lo) * place;
    const auto k = static_cast<std::size_t>(i);
    if (argument.dtype == DType::f64) t.as<double>()[i] = value;
    if (argument.dtype == DType::f32) t.as<float>()[i] = static_cast<float>(value);
    if (argument.dtype == DType::i64) t.as<int64_t>()[i] = argument.integers[k % argument.integers.size()];
    if (argument.dtype == DType::bool_) t.as<bool>()[i] = argument.integers[k % argument.integers.size()] != 0;
  }
  return t;
}

inline double element(const Tensor& t, int64_t i) {
  return t.dtype() == DType::f64 ? t.as<double>()[i] : static_cast<double>(t.as<float>()[i]);
}

inline void move(Tensor& t, int64_t i, double by) {
  if (t.dtype() == DType::f64) t.as<double>()[i] += by;
  if (t.dtype() == DType::f32) t.as<float>()[i] += static_cast<float>(by);
}

inline std::vector<Tensor> evaluate(const Model& model, const std::vector<Tensor>& inputs) {
  auto out = ir::evaluate(*model.graph, inputs);
  EXPECT_TRUE(out.ok()) << out.status().str();
  return out.ok() ? *out : std::vector<Tensor>();
}

// The model that computes a function of the arguments, or the gradients of it by a dy that is the last input.
inline std::optional<Model> model_of(const std::vector<Argument>& arguments, const Function& function,
                                     bool with_gradients) {
  GraphBuilder b;
  Vars all, floats;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    all.push_back(b.input("x" + std::to_string(i), arguments[i].dtype, arguments[i].shape));
    if (is_float(arguments[i].dtype)) floats.push_back(all.back());
  }
  const Var y = function(b, all);
  if (with_gradients) {
    const Vars gradients = b.gradients(y, floats, b.input("dy", y.dtype(), y.shape()));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_EQ(gradients[i].dtype(), floats[i].dtype());
      EXPECT_EQ(to_string(gradients[i].shape()), to_string(floats[i].shape()));
      b.output("g" + std::to_string(i), gradients[i]);
    }
  } else {
    b.output("y", y);
  }
  Result<Model> made = b.finish();
  EXPECT_TRUE(made.ok()) << made.status().str();
  return made.ok() ? std::optional(*made) : std::nullopt;
}

inline std::vector<Tensor> inputs_of(const std::vector<Argument>& arguments) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) inputs.push_back(values(arguments[i], i + 1));
  return inputs;
}

// Of a model with gradients.
inline Tensor dy_of(const Model& model) {
  const TensorInfo& dy = model.inputs.back();
  return values({dy.shape, -1, 1, {}, dy.dtype}, 99);
}

// Compares the gradients of a function with its slopes.
class Differences {
 public:
  explicit Differences(std::vector<Argument> arguments)
      : arguments_(std::move(arguments)), inputs_(inputs_of(arguments_)) {}

  // How many elements of gradients of `differentiated` are not the slopes of `function`; -1 if a model is refused.
  int wrong(const Function& function, const Function& differentiated) {
    const std::optional<Model> forward = model_of(arguments_, function, false),
                               backward = model_of(arguments_, differentiated, true);
    if (!forward || !backward) return -1;
    dy_ = dy_of(*backward);
    std::vector<Tensor> all = inputs_;
    all.push_back(dy_);
    const std::vector<Tensor> gradients = evaluate(*backward, all);
    if (gradients.empty()) return -1;
    int count = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (is_float(arguments_[i].dtype)) count += wrong_elements(*forward, i, gradients[at++]);
    return count;
  }

  int checked() const { return checked_; }           // elements that were compared
  int skipped() const { return skipped_; }           // elements beside a kink
  const std::string& last() const { return last_; }  // the last wrong one

 private:
  double loss(const Model& forward) {
    const Tensor y = evaluate(forward, inputs_)[0];
    double sum = 0;
    for (int64_t i = 0; i < y.num_elements(); ++i) sum += element(y, i) * element(dy_, i);
    return sum;
  }

  double slope(const Model& forward, std::size_t input, int64_t i, double step) {
    Tensor& x = inputs_[input];
    const double before = element(x, i);
    move(x, i, step);
    const double above = loss(forward);
    move(x, i, -2 * step);
    const double below = loss(forward);
    move(x, i, before - element(x, i));
    return (above - below) / (2 * step);
  }

  // Elements beside a kink, where two steps disagree, are passed over. f32 is for functions that are linear.
  int wrong_elements(const Model& forward, std::size_t input, const Tensor& gradient) {
    const Tensor& x = inputs_[input];
    const double tolerance = x.dtype() == DType::f64 ? 2e-5 : 1e-3;
    int count = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double step = x.dtype() == DType::f64 ? 1e-5 * std::max(1.0, std::fabs(element(x, i))) : 0.25;
      const double expected = slope(forward, input, i, step), other = slope(forward, input, i, step / 4);
      const double allowed = tolerance * std::max(1.0, std::fabs(expected));
      if (std::fabs(other - expected) > allowed / 2) {
        ++skipped_;
        continue;
      }
      ++checked_;
      if (std::fabs(element(gradient, i) - expected) <= allowed) continue;
      ++count;
      last_ = "operand " + std::to_string(input) + " element " + std::to_string(i) + ": " +
              std::to_string(element(gradient, i)) + ", finite differences give " + std::to_string(expected);
    }
    return count;
  }

  std::vector<Argument> arguments_;
  std::vector<Tensor> inputs_;
  Tensor dy_;
  int checked_ = 0, skipped_ = 0;
  std::string last_;
};

inline void check(const std::string& name, std::vector<Argument> arguments, const Function& function) {
  Differences differences(std::move(arguments));
  EXPECT_EQ(differences.wrong(function, function), 0) << name << ": " << differences.last();
  EXPECT_GT(differences.checked(), 10 * differences.skipped()) << name;
}

}  // namespace fusec::differences
