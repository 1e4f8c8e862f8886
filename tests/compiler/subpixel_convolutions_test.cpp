// SPDX-License-Identifier: Apache-2.0
// Convolutions over images with inserted zeros give what they gave as convolutions of the images.
#include <random>

#include "tests/compiler/convolution_pass.h"

namespace fusec::compiler {
namespace {

struct Spread {
  std::vector<int64_t> in, kernel, strides, pads, dilations, crop;  // crop: off both ends of each axis, like pads
  int64_t channels = 3, filters = 2, groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
};

// As import writes ConvTranspose.
ir::Graph make_graph(const Spread& c) {
  using ir::TensorOp;
  ir::Graph g;
  const std::size_t n = c.in.size();
  Shape shape{Dim::symbol("N"), c.channels};
  for (const int64_t extent : c.in) shape.push_back(extent);
  const ir::ValueId x = add_input(g, "x", {c.dtype, shape});
  Shape split{shape[0], shape[1]}, merged = split, before(2 * n + 2, 0), after = before;
  for (std::size_t i = 0; i < n; ++i) {
    split.insert(split.end(), {shape[i + 2], Dim(1)});
    after[2 * i + 3] = c.strides[i] - 1;
    merged.push_back(shape[i + 2] * c.strides[i]);
  }
  const ir::ValueId apart = add_node(g, TensorOp::reshape, {x}, {{"shape", split}});
  const ir::ValueId padded = add_node(g, TensorOp::pad, {apart, add_scalar_constant(g, c.dtype, 0)},
                                      {{"before", before}, {"after", after}, {"mode", std::string("constant")}});
  ir::ValueId wide = add_node(g, TensorOp::reshape, {padded}, {{"shape", merged}});
  Shape starts(n + 2, 0), sizes = merged;
  for (std::size_t i = 0; i < n; ++i)
    starts[i + 2] = c.crop[i], sizes[i + 2] = merged[i + 2] - c.crop[i] - c.crop[i + n];
  wide = add_node(g, TensorOp::slice, {wide},
                  {{"starts", starts}, {"sizes", sizes}, {"steps", std::vector<int64_t>(n + 2, 1)}});
  std::vector<int64_t> filter{c.filters * c.groups, c.channels / c.groups};
  filter.insert(filter.end(), c.kernel.begin(), c.kernel.end());
  std::vector<ir::ValueId> inputs{wide, add_constant(g, *ir::random_tensor(c.dtype, filter, 1))};
  if (c.bias) inputs.push_back(add_constant(g, *ir::random_tensor(c.dtype, {filter[0]}, 2)));
  const ir::ValueId y = add_node(g, TensorOp::conv, inputs,
                                 {{"strides", std::vector<int64_t>(n, 1)},
                                  {"pads", c.pads},
                                  {"dilations", c.dilations},
                                  {"groups", c.groups},
                                  {"layout", std::string("first")}});
  add_output(g, y, "y");
  g.symbols = {"N"};
  return g;
}

bool changes(const Spread& c, Numerics numerics = Numerics::precise) {
  ir::Graph g = make_graph(c);
  Options options;
  options.numerics = numerics;
  return run_on(g, "subpixel_convolutions", *named_target("x86-64-v3"), options);
}

// Whether the pass changed it.
bool same(const Spread& c) {
  const ir::Graph before = make_graph(c);
  ir::Graph after = before;
  if (!run_on(after, "subpixel_convolutions", *named_target("x86-64-v3"))) return false;
  after = compact(after);
  std::vector<int64_t> shape{2, c.channels};
  shape.insert(shape.end(), c.in.begin(), c.in.end());
  expect_results(before, after, c.dtype, shape);
  return true;
}

TEST(SubpixelConvolutions, GiveWhatTheConvolutionGives) {
  std::mt19937 random(1);
  const auto any = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int changed = 0;
  for (int round = 0; round < 600; ++round) {
    Spread c;
    const auto n = static_cast<std::size_t>(any(1, 3));
    bool is_valid = true;
    c.crop.assign(2 * n, 0), c.pads.assign(2 * n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      c.in.push_back(any(1, n == 3 ? 4 : 7));
      c.kernel.push_back(any(1, 5));
      c.strides.push_back(any(1, 4));
      c.dilations.push_back(any(1, 3));
      for (const std::size_t end : {i, i + n}) {
        const int64_t pad = any(-2, 5);
        c.pads[end] = std::max<int64_t>(pad, 0), c.crop[end] = std::max<int64_t>(-pad, 0);
      }
      const int64_t cropped = c.in[i] * c.strides[i] - c.crop[i] - c.crop[i + n];
      is_valid = is_valid && cropped > 0 && cropped + c.pads[i] + c.pads[i + n] > c.dilations[i] * (c.kernel[i] - 1);
    }
    if (!is_valid) continue;
    c.groups = any(1, 2);
    c.channels = c.groups * any(1, 3);
    c.filters = any(1, 3);
    c.bias = any(0, 1) == 1;
    c.dtype = any(0, 3) == 0 ? DType::f16 : DType::f32;
    changed += same(c) ? 1 : 0;
  }
  EXPECT_GT(changed, 100);
}

TEST(SubpixelConvolutions, UsualOnesChange) {
  for (const int64_t kernel : {2, 3, 4, 5}) {
    const int64_t pad = kernel - 1;
    EXPECT_TRUE(same({{5, 6}, {kernel, kernel}, {2, 2}, {pad, pad, pad, pad}, {1, 1}, {0, 0, 0, 0}})) << kernel;
  }
}

TEST(SubpixelConvolutions, LeaveOthers) {
  const Spread usual{{5, 6}, {4, 4}, {2, 2}, {3, 3, 2, 2}, {1, 1}, {0, 0, 0, 0}};
  EXPECT_TRUE(changes(usual));
  Spread other = usual;
  other.strides = {1, 1};
  EXPECT_FALSE(changes(other)) << "no zeros are inserted";
  other = usual;
  other.groups = 3;
  EXPECT_FALSE(changes(other)) << "depthwise";
  other = usual;
  other.dilations = {3, 3};
  EXPECT_FALSE(changes(other)) << "the filter would have more zeros than the image has";
  other = usual;
  other.crop = {1, 0, 0, 0};
  EXPECT_FALSE(changes(other)) << "what is taken off and padded again is not the image";
}

TEST(SubpixelConvolutions, ExactNumericsAddNoZeros) {
  Spread c{{5, 6}, {4, 4}, {2, 2}, {3, 3, 2, 2}, {1, 1}, {0, 0, 0, 0}};
  EXPECT_TRUE(changes(c, Numerics::exact));
  c.kernel = {3, 4};
  EXPECT_TRUE(changes(c));
  EXPECT_FALSE(changes(c, Numerics::exact));
}

}  // namespace
}  // namespace fusec::compiler
