// SPDX-License-Identifier: Apache-2.0
// What ONNX's cases of Debian's version lack of Resize: opsets 18 and 19. Expected values are worked out beside each
// case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/import/onnx/import.h"
#include "ir/eval/graph.h"

namespace fusec::importer {
namespace {

using Floats = std::vector<float>;

struct Resized {
  std::vector<int64_t> shape;
  Floats values;
};

// y = Resize(x) of opset 19. `operands` are declared behind the outputs, e.g. "float[1] s = {2.0}".
Resized resize(std::vector<int64_t> shape, Floats x, const std::string& operands, const std::string& call) {
  std::string from, to;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    from += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    to += (i == 0 ? "n" : ", n") + std::to_string(i);
  }
  const std::string model = "<ir_version: 8, opset_import: [\"\" : 19]>\ng (float[" + from + "] x) => (float[" + to +
                            "] y) <" + operands + "> {\n  y = Resize " + call + "\n}\n";
  const auto graph = import_onnx_text(model);
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  if (!graph.ok()) return {};
  const auto y = ir::evaluate(*graph, {Tensor::borrow(DType::f32, std::move(shape), x.data())});
  EXPECT_TRUE(y.ok()) << y.status().str();
  if (!y.ok()) return {};
  const Tensor& out = (*y)[0];
  return {out.shape(), Floats(out.as<float>(), out.as<float>() + out.num_elements())};
}

void expect_near(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << "element " << i;
}

// Results lie at 0.5 and 2.5; the triangle is stretched to a half width of 2, so that the weights of the four elements
// around are 1/8, 3/8, 3/8, 1/8. Beyond the ends the first and last element repeat.
TEST(Resize, AntialiasedLinear) {
  const std::string scale = "float[1] s = {0.5}";
  expect_near(resize({4}, {1, 2, 3, 4}, scale, "<mode = \"linear\", antialias = 1> (x, , s)").values, {1.625, 3.375});
}

// As above without the eighth that lies outside: (3*1 + 3*2 + 1*3) / 7.
TEST(Resize, AntialiasedLinearWithoutOutside) {
  const std::string scale = "float[1] s = {0.5}";
  expect_near(
      resize({4}, {1, 2, 3, 4}, scale, "<mode = \"linear\", antialias = 1, exclude_outside = 1> (x, , s)").values,
      {12.0F / 7, 23.0F / 7});
}

// By a tenth: twenty elements around 4.5 take (1 - d/10)/10 each; of 0, 1, ... symmetric about it their mean is 4.5 but
// for the five on each side that repeat the ends.
TEST(Resize, AntialiasOverManyElements) {
  Floats x(10);
  double want = 0;
  for (int i = -5; i <= 14; ++i) {
    const double weight = (1 - std::abs(i - 4.5) / 10) / 10;
    want += weight * std::min(std::max(i, 0), 9) * 1.0;
  }
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  expect_near(resize({10}, x, "int64[1] n = {1}", "<mode = \"linear\", antialias = 1> (x, , , n)").values,
              {static_cast<float>(want)});
}

// Upwards antialias changes nothing: 0.25 and 0.75 of the way.
TEST(Resize, AntialiasUpwards) {
  expect_near(resize({2}, {1, 2}, "float[1] s = {2.0}", "<mode = \"linear\", antialias = 1> (x, , s)").values,
              {1, 1.25, 1.75, 2});
}

// 4 * 0.6 = 2.4 elements, of which 2 are made: they move inwards by 2 * (1 - 2/2.4) = 1/3, to 2/3 and 7/3.
TEST(Resize, HalfPixelSymmetric) {
  const std::string call = "<mode = \"linear\", coordinate_transformation_mode = \"half_pixel_symmetric\"> (x, , s)";
  expect_near(resize({4}, {1, 2, 3, 4}, "float[1] s = {0.6}", call).values, {1 + 2.0F / 3, 1 + 7.0F / 3});
}

// 3 of 2 and 3 of 4: one scale of 3/4 or of 3/2; 2 * 3/4 = 1.5 rounds up.
TEST(Resize, AspectRatio) {
  const std::string sizes = "int64[2] n = {3, 3}";
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8};
  using Extents = std::vector<int64_t>;
  EXPECT_EQ(resize({2, 4}, x, sizes, "<keep_aspect_ratio_policy = \"not_larger\"> (x, , , n)").shape, (Extents{2, 3}));
  EXPECT_EQ(resize({2, 4}, x, sizes, "<keep_aspect_ratio_policy = \"not_smaller\"> (x, , , n)").shape, (Extents{3, 6}));
}

// Sizes go with the axes named, in their order; nearest of 2 to 4 is each twice.
TEST(Resize, Axes) {
  const Resized y = resize({2, 1, 3}, {1, 2, 3, 4, 5, 6}, "int64[2] n = {3, 4}", "<axes = [-1, 0]> (x, , , n)");
  EXPECT_EQ(y.shape, (std::vector<int64_t>{4, 1, 3}));
  EXPECT_EQ(y.values, (Floats{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

// From 1/4 to 5/4 of the operand's last index: 0.75, 2.25 and 3.75, which is outside.
TEST(Resize, CropWithAxes) {
  const std::string call =
      "<mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\", axes = [1], "
      "extrapolation_value = 9.0> (x, roi, , n)";
  expect_near(resize({1, 4}, {0, 10, 20, 30}, "float[2] roi = {0.25, 1.25}, int64[1] n = {3}", call).values,
              {7.5, 22.5, 9});
}

}  // namespace
}  // namespace fusec::importer
