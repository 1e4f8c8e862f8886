// SPDX-License-Identifier: Apache-2.0
// Convolutions and products of random shapes: implementations take other paths by how many pixels or channels are left
// over.
#pragma once

#include <string>

#include "tests/fuzz/random.h"
#include "tests/runtime/cuda_cases.h"

namespace fusec::runtime::testing {

using fuzz::Random;

inline constexpr double kMaxProducts = 4e5;  // of one case: the loops are slow

inline Extents list(Random& random, std::size_t n, int64_t low, int64_t high) {
  Extents out(n);
  for (int64_t& e : out) e = random.between(low, high);
  return out;
}

inline double tolerance_of(DType dtype) { return dtype == DType::f32 ? 3e-6 : dtype == DType::f16 ? 1e-3 : 8e-3; }
inline DType random_type(Random& random) { return random.pick({DType::f32, DType::f16, DType::bf16}); }

// Letters of product_case and image_case.
inline std::string random_epilogues(Random& random) {
  std::string what = random.chance(0.5) ? "b" : "";
  if (random.chance(0.25)) what += "a";
  if (random.chance(0.25)) what += "r";
  return what;
}

inline std::string describe_case(const Case& c) {
  std::string text = to_string(c.call.args[0].dtype);
  for (const BoundArg& arg : c.call.args) text += " " + ::testing::PrintToString(arg.shape);
  for (const char* name : {"strides", "pads", "dilations"})
    if (c.step->attrs.find(name) != nullptr)
      text += std::string(" ") + name + ::testing::PrintToString(c.step->attrs.ints(name));
  return text + " " + std::to_string(c.step->epilogues.size()) + " epilogues";
}

// Of one to three axes, a third of window 1; every output axis has elements.
inline Image random_image(Random& random) {
  const auto axes = static_cast<std::size_t>(random.pick({1, 2, 2, 2, 3}));
  const bool is_pointwise = random.chance(0.3), is_plain = random.chance(0.5);
  for (;;) {
    const int64_t groups = random.chance(0.7) ? 1 : random.between(2, 20);
    const auto channels = [&] {
      return groups == 1 ? random.between(1, 40) : groups * (random.chance(0.5) ? 1 : random.between(1, 6));
    };
    Image s;
    s.n = random.between(1, 3), s.c = channels(), s.o = channels(), s.groups = groups;
    s.in = list(random, axes, 1, axes == 1 ? 90 : axes == 2 ? 20 : 7);
    s.kernel = is_pointwise ? Extents(axes, 1) : list(random, axes, 1, 5);
    s.strides = is_plain ? Extents(axes, 1) : list(random, axes, 1, 3);
    s.dilations = is_plain ? Extents(axes, 1) : list(random, axes, 1, 2);
    s.pads = is_pointwise ? Extents(2 * axes, 0) : list(random, 2 * axes, 0, 2);
    const Extents out = image_output(s);
    bool fits = true;
    for (std::size_t i = 0; i < axes; ++i)
      fits = fits && s.in[i] + s.pads[i] + s.pads[axes + i] > (s.kernel[i] - 1) * s.dilations[i];
    const auto products = static_cast<double>(s.n * s.o * (s.c / groups) * count(out) * count(s.kernel));
    if (fits && products <= kMaxProducts) return s;
  }
}

inline Case random_conv(Random& random) {
  const Image image = random_image(random);
  const bool last = random.chance(0.5), constant = random.chance(0.7);
  const DType dtype = random_type(random);
  Case c = image_case(image, last, constant, 0, dtype, random_epilogues(random));
  c.call.threads = static_cast<int>(random.between(1, 3));
  return c;
}

inline Case random_product(Random& random) {
  const DType dtype = random_type(random);
  for (;;) {
    const int64_t m = random.between(1, 70), n = random.between(1, 70), k = random.between(1, 130);
    const Extents batch =
        random.chance(0.5) ? Extents() : list(random, static_cast<std::size_t>(random.between(1, 2)), 1, 4);
    const bool ta = random.chance(0.3), tb = random.chance(0.3), shared = random.chance(0.5);
    if (static_cast<double>(m * n * k * count(batch)) > kMaxProducts) continue;
    const auto matrix = [](Extents shape, int64_t rows, int64_t columns, bool turned) {
      shape.push_back(turned ? columns : rows);
      shape.push_back(turned ? rows : columns);
      return shape;
    };
    const Product product{matrix(batch, m, k, ta), matrix(shared ? Extents() : batch, k, n, tb),
                          matrix(batch, m, n, false), ta, tb};
    Case c = product_case(product, random_epilogues(random), dtype);
    if (random.chance(0.5)) c.call.args[1].constant = c.memory[1].get();
    c.call.threads = static_cast<int>(random.between(1, 3));
    return c;
  }
}

}  // namespace fusec::runtime::testing
