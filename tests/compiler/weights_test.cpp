// SPDX-License-Identifier: Apache-2.0
// Passes that rewrite weights in bulk do to each element what they do to one.
#include <gtest/gtest.h>

#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"

namespace fusec::compiler {
namespace {

TEST(Weights, AreConvertedToSixteenBitsOnly) {
  EXPECT_EQ(with_precision(ir::Graph(), DType::f64, nullptr).status().message(),
            "a model is converted to f16 or bf16, not f64");
}

#ifndef __SANITIZE_ADDRESS__  // whose allocator ends the program instead
TEST(Weights, NeedMemoryThatThereIs) {
  static float one = 1;
  const int64_t n = int64_t{1} << 48;  // more than any address space
  ir::Graph g;
  add_output(g, add_constant(g, Tensor::borrow(DType::f32, {n}, &one)), "y");
  EXPECT_EQ(with_precision(g, DType::f16, nullptr).status().message(), "host memory for weights in f16");
}
#endif

TEST(Weights, AreConvertedEachInItsPlace) {
  ir::Graph g;
  std::vector<Tensor> wide;
  uint64_t seed = 1;
  for (const int64_t n : {100'000, 0, 1, 7, 70'001, 300'000}) {
    wide.push_back(*ir::random_tensor(DType::f32, {n}, seed++));
    add_output(g, add_constant(g, wide.back()), "y" + std::to_string(seed));
  }
  double weights_ms = 0;
  const auto narrow = with_precision(g, DType::f16, &weights_ms);
  ASSERT_TRUE(narrow.ok()) << narrow.status().str();
  EXPECT_GT(weights_ms, 0);
  size_t next = 0;
  for (const ir::NodeId id : narrow->order) {
    const Tensor* data = narrow->constant(narrow->nodes[id].output);
    if (data == nullptr) continue;
    const Tensor& from = wide.at(next++);
    ASSERT_EQ(data->shape(), from.shape());
    for (int64_t i = 0; i < from.num_elements(); ++i)
      ASSERT_EQ(data->as<uint16_t>()[i], ir::f16_from_f32(from.as<float>()[i])) << i;
  }
  EXPECT_EQ(next, wide.size());
}

// conv(x, weights) op factors, in layout "first".
ir::Graph conv_and(ir::ScalarOp op, const Tensor& weights, const Tensor& factors) {
  ir::Graph g;
  const ir::ValueId x = add_input(g, "x", {weights.dtype(), {1, weights.shape()[1], 2, 2}});
  const std::vector<int64_t> one{1, 1}, none{0, 0, 0, 0};
  const ir::ValueId y =
      add_node(g, ir::TensorOp::conv, {x, add_constant(g, weights)},
               {{"strides", one}, {"pads", none}, {"dilations", one}, {"groups", 1}, {"layout", std::string("first")}});
  add_output(g, add_node(g, op, {y, add_constant(g, factors)}), "y");
  return g;
}

bool fold_in(ir::Graph& g) {
  const Target target = named_target("x86-64-v3").value();
  const Options options;
  const Result<bool> changed = run_pass(*find_pass("fold_affine"), g, {target, options});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  return changed.ok() && *changed;
}

TEST(Weights, OfAConvAreScaledByTheirChannel) {
  const Tensor weights = *ir::random_tensor(DType::f16, {5, 700, 1, 1}, 1);
  const Tensor factors = *ir::random_tensor(DType::f16, {5, 1, 1}, 2);
  ir::Graph g = conv_and(ir::ScalarOp::mul, weights, factors);
  ASSERT_TRUE(fold_in(g));
  const Tensor* folded = g.constant(g.producer(g.outputs[0])->inputs[1]);
  ASSERT_NE(folded, nullptr);
  for (int64_t i = 0; i < folded->num_elements(); ++i) {
    const double product = static_cast<double>(ir::f32_from_f16(weights.as<uint16_t>()[i])) *
                           ir::f32_from_f16(factors.as<uint16_t>()[i / 700]);
    ASSERT_EQ(folded->as<uint16_t>()[i], ir::f16_from_f64(product)) << i;
  }
}

TEST(Weights, OfIntegersAreNotDivided) {
  const Tensor weights = *ir::random_tensor(DType::i32, {2, 3, 1, 1}, 1),
               divisors = *Tensor::make(DType::i32, {2, 1, 1});
  for (int64_t i = 0; i < 2; ++i) ir::store_int(DType::i32, const_cast<int32_t*>(divisors.as<int32_t>()) + i, 3 + i);
  ir::Graph g = conv_and(ir::ScalarOp::div, weights, divisors);
  EXPECT_FALSE(fold_in(g));
}

}  // namespace
}  // namespace fusec::compiler
