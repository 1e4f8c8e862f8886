// SPDX-License-Identifier: Apache-2.0
// Library steps that a GPU's libraries are given, by fakes of them and on a GPU.
#pragma once

#include "tests/runtime/library_case.h"

namespace fusec::runtime::testing {

inline ir::Attrs make_matmul_attrs(bool ta = false, bool tb = false) {
  return {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}};
}

struct Product {
  Extents a, b, out;
  bool ta = false, tb = false;
  Extents a_strides = {}, b_strides = {}, out_strides = {};
};

// bias, addend, relu and gelu_tanh by their letters
inline Case product_case(const Product& p, const std::string& what = "", DType dtype = DType::f32) {
  Case c(ir::TensorOp::matmul, make_matmul_attrs(p.ta, p.tb));
  c.step->compute = compute_type(dtype);
  c.add(p.a, p.a_strides, false, dtype);
  c.add(p.b, p.b_strides, false, dtype);
  if (what.find('b') != std::string::npos) c.step->bias = c.add({p.out.back()}, {}, true, dtype);
  if (what.find('a') != std::string::npos) c.epilogue(ir::ScalarOp::add, c.add(p.out, p.out_strides, false, dtype));
  if (what.find('r') != std::string::npos) c.epilogue(ir::ScalarOp::relu);
  if (what.find('g') != std::string::npos) c.epilogue(ir::ScalarOp::gelu_tanh);
  c.add(p.out, p.out_strides, false, dtype);
  return c;
}

inline const std::vector<Product>& product_cases() {
  static const std::vector<Product> all = {
      {{5, 7}, {7, 9}, {5, 9}},
      {{7, 5}, {9, 7}, {5, 9}, true, true},
      {{7, 5}, {7, 9}, {5, 9}, true, false},
      {{1, 64}, {64, 10}, {1, 10}},
      {{64}, {64, 10}, {10}},
      {{10, 64}, {64}, {10}},
      {{3, 4, 6, 8}, {3, 4, 8, 5}, {3, 4, 6, 5}},
      {{3, 4, 6, 8}, {8, 5}, {3, 4, 6, 5}},
      {{3, 1, 6, 8}, {4, 8, 5}, {3, 4, 6, 5}},
      {{6, 8}, {2, 3, 8, 5}, {2, 3, 6, 5}},
      {{2, 1, 8}, {8, 1}, {2, 1, 1}},
      {{4, 1, 8}, {4, 8, 3}, {4, 1, 3}},
      {{5, 1}, {1, 6}, {5, 6}},
      // heads: [2, 10, 3, 8] seen as [2, 3, 10, 8]
      {{2, 3, 10, 8}, {2, 3, 8, 10}, {2, 3, 10, 10}, false, false, {240, 8, 24, 1}, {240, 8, 1, 24}},
      {{2, 3, 10, 10}, {2, 3, 10, 8}, {2, 3, 10, 8}, false, false, {}, {240, 8, 24, 1}, {240, 8, 24, 1}},
      // rows and columns of the output exchanged in memory, and neither of them contiguous
      {{5, 7}, {7, 9}, {5, 9}, false, false, {}, {}, {1, 5}},
      {{4, 5, 7}, {4, 7, 9}, {4, 5, 9}, false, false, {}, {}, {1, 36, 4}},
      // no contiguous axis on the left, on the right; one row for all
      {{4, 5, 7}, {7, 9}, {4, 5, 9}, false, false, {1, 28, 4}},
      {{5, 7}, {4, 7, 9}, {4, 5, 9}, false, false, {}, {1, 36, 4}},
      {{5, 7}, {7, 9}, {5, 9}, false, false, {0, 1}},
      // wide pitches, odd offsets of batches
      {{5, 7}, {7, 9}, {5, 9}, false, false, {11, 1}, {13, 1}, {19, 1}},
      {{3, 5, 7}, {3, 7, 9}, {3, 5, 9}, false, false, {35, 7, 1}, {63, 9, 1}, {9, 27, 1}},
      // [3, 5, 7] seen as [5, 3, 7]
      {{5, 3, 7}, {7, 9}, {5, 3, 9}, false, false, {7, 35, 1}},
  };
  return all;
}

struct Image {
  int64_t n, c, o;
  Extents in, kernel, strides, pads, dilations;
  int64_t groups = 1;
};

inline Extents image_extents(int64_t n, int64_t c, const Extents& spatial, bool last) {
  Extents shape{n};
  if (!last) shape.push_back(c);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (last) shape.push_back(c);
  return shape;
}

inline Extents image_output(const Image& s) {
  Extents out;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    const int64_t dilated_extent = (s.kernel[i] - 1) * s.dilations[i] + 1;
    out.push_back((s.in[i] + s.pads[i] + s.pads[s.in.size() + i] - dilated_extent) / s.strides[i] + 1);
  }
  return out;
}

inline const std::vector<Image>& image_cases() {
  static const std::vector<Image> all = {
      {1, 3, 16, {9, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {2, 16, 8, {5, 7}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {1, 6, 6, {6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 6},
      {1, 4, 4, {6, 7}, {3, 3}, {1, 2}, {0, 1, 2, 3}, {2, 1}},
      {1, 12, 18, {5, 5}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 6},
      {3, 8, 12, {11}, {3}, {1}, {1, 1}, {1}},
      {1, 4, 6, {4, 5, 3}, {3, 2, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
      {2, 5, 7, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {1, 1, 8, {8, 8}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {1, 6, 6, {7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
  };
  return all;
}

// extra: channels of wider images that input and output are slices of; bias, addend and relu by their letters
inline Case image_case(const Image& s, bool last, bool constant = true, int64_t extra = 0, DType dtype = DType::f32,
                       const std::string& what = "bar") {
  Case c(ir::TensorOp::conv, {{"strides", s.strides},
                              {"pads", s.pads},
                              {"dilations", s.dilations},
                              {"groups", s.groups},
                              {"layout", std::string(last ? "last" : "first")}});
  c.step->compute = compute_type(dtype);
  const auto add = [&](int64_t channels, const Extents& spatial, int64_t more) {
    return c.add(image_extents(s.n, channels, spatial, last),
                 row_major(image_extents(s.n, channels + more, spatial, last)), false, dtype);
  };
  add(s.c, s.in, extra);
  Extents filter{s.o, s.c / s.groups};
  filter.insert(filter.end(), s.kernel.begin(), s.kernel.end());
  c.add(filter, {}, constant, dtype);
  if (what.find('b') != std::string::npos) c.step->bias = c.add({s.o}, {}, true, dtype);
  if (what.find('a') != std::string::npos) c.epilogue(ir::ScalarOp::add, add(s.o, image_output(s), 0));
  if (what.find('r') != std::string::npos) c.epilogue(ir::ScalarOp::relu);
  add(s.o, image_output(s), extra);
  return c;
}

inline ir::Attrs window_attrs(Extents kernel, Extents strides, Extents pads, bool ceil, bool include, bool is_max) {
  ir::Attrs attrs{{"kernel", kernel},
                  {"strides", strides},
                  {"pads", pads},
                  {"dilations", Extents(kernel.size(), 1)},
                  {"ceil_mode", int64_t{ceil}},
                  {"layout", std::string("last")}};
  if (!is_max) attrs.set("count_include_pad", int64_t{include});
  return attrs;
}

}  // namespace fusec::runtime::testing
