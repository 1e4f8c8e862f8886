// SPDX-License-Identifier: Apache-2.0
// What the evaluator of kernels refuses to run, in one error each.
#include <gtest/gtest.h>

#include "ir/eval/kernel.h"
#include "ir/text/kernel_text.h"

namespace fusec::ir {
namespace {

constexpr const char* kCopy = R"(kernel @k(%b0: in f32[n0], %b1: out f32[n0]) facts(n0 % 4 == 0) {
  grid i0 in n0 {
    v0: f32 = load b0[i0]
    store b1[i0], v0
  }
}
)";

std::string error(const std::vector<Tensor>& args, const std::map<std::string, int64_t>& extents) {
  const auto kernel = parse_kernel(kCopy);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str();
  return evaluate(*kernel, args, extents).status().message();
}

Tensor tensor(DType dtype, int64_t n) { return *Tensor::make(dtype, {n}); }

TEST(KernelArguments, AreCheckedBeforeAnythingRuns) {
  const Tensor x = tensor(DType::f32, 8);
  EXPECT_EQ(error({x, tensor(DType::f32, 8)}, {{"n0", 8}}), "");
  EXPECT_EQ(error({x, x}, {}), "extent n0 has no value");
  EXPECT_EQ(error({x, x}, {{"n0", 6}}), "n0 = 6 breaks the fact n0 % 4 == 0");
  EXPECT_EQ(error({x}, {{"n0", 8}}), "1 arguments for 2 parameters");
  EXPECT_EQ(error({x, tensor(DType::f16, 8)}, {{"n0", 8}}), "argument b1: is f16, not f32");
  EXPECT_EQ(error({x, tensor(DType::f32, 4)}, {{"n0", 8}}), "argument b1: has another shape");
  Tensor wide = tensor(DType::f32, 16);
  EXPECT_EQ(error({Tensor::borrow(DType::f32, {8}, wide.data(), {2}), x}, {{"n0", 8}}),
            "argument b0: has other strides");
}

}  // namespace
}  // namespace fusec::ir
