// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of random shapes: implementations take other paths by how many pixels or channels are left
// over.
#pragma once

#include <string>

#include "tests/fuzz/random.h"
#include "tests/runtime/library_case.h"

namespace fusec::runtime::testing {

inline constexpr double kMostProducts = 4e5;  // of one case: the loops are slow

using fuzz::Random;

inline Extents list(Random& random, std::size_t n, int64_t low, int64_t high) {
  Extents out(n);
  for (int64_t& e : out) e = random.between(low, high);
  return out;
}

inline double tolerance_of(DType dtype) { return dtype == DType::f32 ? 3e-6 : dtype == DType::f16 ? 1e-3 : 8e-3; }

inline void add_epilogues(Random& random, Case& c, const Extents& out, DType dtype) {
  if (random.chance(0.25)) c.epilogue(ir::ScalarOp::add, c.add(out, {}, false, dtype));
  if (random.chance(0.25)) c.epilogue(ir::ScalarOp::relu);
}

inline std::string text_of(const Case& c) {
  std::string text = to_string(c.call.args[0].dtype);
  for (const BoundArg& arg : c.call.args) text += " " + ::testing::PrintToString(arg.shape);
  for (const char* name : {"strides", "pads", "dilations"})
    if (c.step->attrs.find(name) != nullptr)
      text += std::string(" ") + name + ::testing::PrintToString(c.step->attrs.ints(name));
  return text + " " + std::to_string(c.step->epilogues.size()) + " epilogues";
}

inline Case random_conv(Random& random) {
  const auto axes = static_cast<std::size_t>(random.pick({1, 2, 2, 2, 3}));
  const bool last = random.chance(0.5), is_pointwise = random.chance(0.3);
  const auto dtype = random.pick({DType::f32, DType::f16, DType::bf16});
  for (;;) {
    const int64_t groups = random.chance(0.7) ? 1 : random.between(2, 20);
    const int64_t in_each = random.chance(0.5) ? 1 : random.between(1, 6),
                  out_each = random.chance(0.5) ? 1 : random.between(1, 6);
    const int64_t channels = groups > 1 ? groups * in_each : random.between(1, 40);
    const int64_t outputs = groups > 1 ? groups * out_each : random.between(1, 40);
    const int64_t n = random.between(1, 3);
    const Extents in = list(random, axes, 1, axes == 1 ? 90 : axes == 2 ? 20 : 7);
    const Extents kernel = is_pointwise ? Extents(axes, 1) : list(random, axes, 1, 5);
    const bool plain = random.chance(0.5);
    const Extents strides = plain ? Extents(axes, 1) : list(random, axes, 1, 3),
                  dilations = plain ? Extents(axes, 1) : list(random, axes, 1, 2);
    const Extents pads = is_pointwise ? Extents(2 * axes, 0) : list(random, 2 * axes, 0, 2);
    Extents out;
    double products = static_cast<double>(n * outputs * (channels / groups));
    for (std::size_t i = 0; i < axes; ++i) {
      out.push_back((in[i] + pads[i] + pads[axes + i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1);
      if (in[i] + pads[i] + pads[axes + i] < (kernel[i] - 1) * dilations[i] + 1) out.back() = 0;
      products *= static_cast<double>(out.back() * kernel[i]);
    }
    if (products == 0 || products > kMostProducts) continue;
    const auto image = [&](int64_t c, const Extents& spatial) {
      Extents shape{n};
      if (!last) shape.push_back(c);
      shape.insert(shape.end(), spatial.begin(), spatial.end());
      if (last) shape.push_back(c);
      return shape;
    };
    Case c(ir::TensorOp::conv,
           {{"strides", strides},
            {"pads", pads},
            {"dilations", dilations},
            {"groups", groups},
            {"layout", std::string(last ? "last" : "first")}},
           static_cast<int>(random.between(1, 3)));
    c.step->compute = compute_type(dtype);
    c.random = static_cast<uint64_t>(random.between(1, 1 << 30));
    c.add(image(channels, in), {}, false, dtype);
    Extents filter{outputs, channels / groups};
    filter.insert(filter.end(), kernel.begin(), kernel.end());
    c.add(filter, {}, random.chance(0.7), dtype);
    if (random.chance(0.5)) c.step->bias = c.add({outputs}, {}, true, dtype);
    add_epilogues(random, c, image(outputs, out), dtype);
    c.add(image(outputs, out), {}, false, dtype);
    return c;
  }
}

inline Case random_product(Random& random) {
  const auto dtype = random.pick({DType::f32, DType::f16, DType::bf16});
  for (;;) {
    const int64_t m = random.between(1, 70), n = random.between(1, 70), k = random.between(1, 130);
    const Extents batch =
        random.chance(0.5) ? Extents() : list(random, static_cast<std::size_t>(random.between(1, 2)), 1, 4);
    if (static_cast<double>(m * n * k * count(batch)) > kMostProducts) continue;
    const bool ta = random.chance(0.3), tb = random.chance(0.3);
    const auto matrix = [&](int64_t rows, int64_t columns, bool with_batch) {
      Extents shape = with_batch ? batch : Extents();
      shape.insert(shape.end(), {rows, columns});
      return shape;
    };
    Case c(ir::TensorOp::matmul, {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}},
           static_cast<int>(random.between(1, 3)));
    c.step->compute = compute_type(dtype);
    c.random = static_cast<uint64_t>(random.between(1, 1 << 30));
    c.add(ta ? matrix(k, m, true) : matrix(m, k, true), {}, false, dtype);
    const bool own = random.chance(0.5);
    c.add(tb ? matrix(n, k, own) : matrix(k, n, own), {}, random.chance(0.5), dtype);
    if (random.chance(0.5)) c.step->bias = c.add({n}, {}, true, dtype);
    add_epilogues(random, c, matrix(m, n, true), dtype);
    c.add(matrix(m, n, true), {}, false, dtype);
    return c;
  }
}

}  // namespace fusec::runtime::testing
