// SPDX-License-Identifier: Apache-2.0
// Every op, epilogue and kind of view on every library against double loops.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "runtime/library/plain/plain.h"
#include "tests/runtime/library_case.h"
#include "tests/sanitized.h"

namespace fusec::runtime {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using testing::Case;
using testing::check;
using testing::Extents;

std::vector<std::shared_ptr<Library>> libraries() { return host_libraries(Options()); }

struct WindowCase {
  Extents strides, pads, dilations;
};
WindowCase window(std::size_t axes, int64_t stride = 1, int64_t pad = 0, int64_t dilation = 1) {
  return {Extents(axes, stride), Extents(2 * axes, pad), Extents(axes, dilation)};
}

ir::Attrs conv_attrs(const WindowCase& w, int64_t groups, const std::string& layout) {
  return {{"strides", w.strides}, {"pads", w.pads}, {"dilations", w.dilations}, {"groups", groups}, {"layout", layout}};
}

// [N, C, spatial] -> the axes of a layout
Extents image(int64_t n, int64_t c, const Extents& spatial, const std::string& layout) {
  Extents shape{n};
  if (layout == "first") shape.push_back(c);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (layout == "last") shape.push_back(c);
  return shape;
}

Extents slide(const Extents& in, const Extents& kernel, const WindowCase& w) {
  Extents out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const int64_t dilated_extent = (kernel[i] - 1) * w.dilations[i] + 1;
    out.push_back((in[i] + w.pads[i] + w.pads[in.size() + i] - dilated_extent) / w.strides[i] + 1);
  }
  return out;
}

struct ConvShape {
  int64_t n, c, o;
  Extents in, kernel;
  WindowCase w;
  int64_t groups = 1;
  std::string layout = "last";
  Extents out() const { return image(n, o, slide(in, kernel, w), layout); }
};

Case conv_case(const ConvShape& s, bool bias = true, bool constant = true, DType dtype = DType::f32) {
  Case c(TensorOp::conv, conv_attrs(s.w, s.groups, s.layout));
  c.add(image(s.n, s.c, s.in, s.layout), {}, false, dtype);
  Extents filter{s.o, s.c / s.groups};
  filter.insert(filter.end(), s.kernel.begin(), s.kernel.end());
  c.add(filter, {}, constant, dtype);
  if (bias) c.step->bias = c.add({s.o}, {}, constant, dtype);
  return c;
}

void check_all(const std::function<Case()>& make, double tolerance = 3e-6) {
  for (const auto& library : libraries()) {
    Case c = make();
    SCOPED_TRACE(library->name());
    check(*library, c, tolerance);
  }
}

const std::vector<ConvShape>& conv_shapes() {
  static const std::vector<ConvShape> shapes = {
      {1, 3, 16, {9, 9}, {3, 3}, window(2, 2, 1)},
      {2, 16, 32, {5, 7}, {1, 1}, window(2)},
      {1, 24, 24, {6, 6}, {3, 3}, window(2, 1, 1), 24},
      {2, 20, 20, {7, 5}, {5, 5}, window(2, 2, 2), 20},
      {1, 16, 16, {6, 7}, {3, 3}, {{1, 2}, {0, 1, 2, 3}, {2, 1}}},
      {1, 12, 18, {5, 5}, {3, 3}, window(2, 1, 1), 6},
      {1, 7, 5, {4, 3}, {2, 3}, window(2, 1, 1)},
      {3, 8, 12, {11}, {3}, window(1, 1, 1)},
      {1, 4, 6, {4, 5, 3}, {3, 2, 3}, window(3, 1, 1)},
      {2, 33, 17, {1, 1}, {1, 1}, window(2)},
      {1, 1, 8, {8, 8}, {3, 3}, window(2)},
      {1, 16, 16, {7, 7}, {7, 7}, window(2)},
  };
  return shapes;
}

TEST(LibraryConv, ShapesAndLayouts) {
  for (ConvShape s : conv_shapes()) {
    for (const char* layout : {"last", "first"}) {
      s.layout = layout;
      for (const bool constant : {true, false}) {
        SCOPED_TRACE(::testing::PrintToString(s.kernel) + " " + layout);
        check_all([&] {
          Case c = conv_case(s, true, constant);
          c.add(s.out());
          return c;
        });
      }
    }
  }
}

TEST(LibraryConv, HalfTypes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const ConvShape& s : conv_shapes()) {
      SCOPED_TRACE(to_string(dtype));
      check_all(
          [&] {
            Case c = conv_case(s, true, true, dtype);
            c.add(s.out(), {}, false, dtype);
            return c;
          },
          dtype == DType::f16 ? 1e-3 : 8e-3);
    }
  }
}

TEST(LibraryConv, OtherTypes) {
  for (const DType dtype : {DType::f64, DType::i32, DType::u8}) {
    const ConvShape& s = conv_shapes()[4];
    Case c = conv_case(s, true, true, dtype);
    c.step->compute = dtype;
    c.add(s.out(), {}, false, dtype);
    if (dtype == DType::u8) continue;  // sums wrap; the double loops do not
    EXPECT_EQ(check(*make_plain_library(), c, 1e-15), "loops");
  }
}

// A slice of the channels of wider images on either side, as concat and split leave them.
TEST(LibraryConv, ChannelSlices) {
  for (const ConvShape& s : {conv_shapes()[1], conv_shapes()[2], conv_shapes()[4], conv_shapes()[11]}) {
    for (const char* layout : {"last", "first"}) {
      for (const int side : {0, 1, 2}) {
        ConvShape shape = s;
        shape.layout = layout;
        const auto pitch = [&](Extents dims, bool sliced) {
          const std::size_t channel = shape.layout == "last" ? dims.size() - 1 : 1;
          if (sliced) dims[channel] += 11;
          return testing::row_major(dims);
        };
        check_all([&] {
          Case c(TensorOp::conv, conv_attrs(shape.w, shape.groups, shape.layout));
          const Extents in = image(shape.n, shape.c, shape.in, shape.layout);
          c.add(in, pitch(in, side != 1));
          c.add({shape.o, shape.c / shape.groups, shape.kernel[0], shape.kernel[1]}, {}, true);
          c.step->bias = c.add({shape.o}, {}, true);
          const int residual = c.add(shape.out());
          c.epilogue(ScalarOp::hard_swish);
          c.epilogue(ScalarOp::add, residual);
          c.epilogue(ScalarOp::relu);
          c.add(shape.out(), pitch(shape.out(), side != 0));
          return c;
        });
      }
    }
  }
}

struct NamedEpilogue {
  ScalarOp op;
  double alpha = 0, beta = 0;
};
const std::vector<NamedEpilogue>& unary_epilogues() {
  static const std::vector<NamedEpilogue> all = {{ScalarOp::relu},
                                                 {ScalarOp::leaky_relu, 0.1},
                                                 {ScalarOp::clamp, -0.25, 0.5},
                                                 {ScalarOp::hard_swish},
                                                 {ScalarOp::hard_sigmoid, 0.2, 0.5},
                                                 {ScalarOp::sigmoid},
                                                 {ScalarOp::tanh},
                                                 {ScalarOp::gelu},
                                                 {ScalarOp::gelu_tanh},
                                                 {ScalarOp::silu},
                                                 {ScalarOp::elu, 0.7},
                                                 {ScalarOp::abs},
                                                 {ScalarOp::square},
                                                 {ScalarOp::exp},
                                                 {ScalarOp::softplus}};
  return all;
}
constexpr ScalarOp kBinary[] = {ScalarOp::add, ScalarOp::mul, ScalarOp::sub,
                                ScalarOp::max, ScalarOp::min, ScalarOp::div};

TEST(LibraryEpilogue, UnaryOnConvMatmulAndPool) {
  for (const NamedEpilogue& e : unary_epilogues()) {
    SCOPED_TRACE(ir::info(e.op).name);
    for (const ConvShape& s :
         testing_support::sampled(std::vector{conv_shapes()[1], conv_shapes()[2], conv_shapes()[4]})) {
      check_all([&] {
        Case c = conv_case(s);
        c.epilogue(e.op, -1, e.alpha, e.beta);
        c.add(s.out());
        return c;
      });
    }
    check_all([&] {
      Case c(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
      c.add({19, 33});
      c.add({33, 21}, {}, true);
      c.step->bias = c.add({21}, {}, true);
      c.epilogue(e.op, -1, e.alpha, e.beta);
      c.add({19, 21});
      return c;
    });
    check_all([&] {
      Case c(TensorOp::avg_pool, {{"kernel", Extents{3, 3}},
                                  {"strides", Extents{1, 1}},
                                  {"pads", Extents{1, 1, 1, 1}},
                                  {"dilations", Extents{1, 1}},
                                  {"ceil_mode", int64_t{0}},
                                  {"count_include_pad", int64_t{1}},
                                  {"layout", std::string("last")}});
      c.add({1, 6, 6, 20});
      c.epilogue(e.op, -1, e.alpha, e.beta);
      c.add({1, 6, 6, 20});
      return c;
    });
  }
}

TEST(LibraryEpilogue, BinaryOperands) {
  for (const ScalarOp op : kBinary) {
    for (const char* layout : {"last", "first"}) {
      for (const char* kind : testing_support::sampled(std::vector{"channel", "scalar", "full", "image"}, 2)) {
        SCOPED_TRACE(std::string(ir::info(op).name) + " " + layout + " " + kind);
        ConvShape s = conv_shapes()[1];
        s.layout = layout;
        check_all([&] {
          Case c = conv_case(s);
          Extents shape = s.out();
          const std::string what = kind;
          const std::size_t channel = s.layout == "last" ? 3 : 1;
          for (std::size_t i = 0; i < 4; ++i) {
            if (what == "scalar" || (what == "channel" && i != channel) || (what == "image" && i != 0 && i != channel))
              shape[i] = 1;
          }
          const int operand = c.add(shape);
          for (int64_t i = 0; i < c.elements.back(); ++i)
            static_cast<float*>(c.at(static_cast<std::size_t>(operand), i))[0] += op == ScalarOp::div ? 2 : 0;
          c.epilogue(ScalarOp::silu);
          c.epilogue(op, operand);
          c.epilogue(ScalarOp::tanh);
          c.add(s.out());
          return c;
        });
      }
    }
  }
}

// An add of the output's own memory.
TEST(LibraryEpilogue, TakesOverTheSummand) {
  for (const ConvShape& s : {conv_shapes()[1], conv_shapes()[2], conv_shapes()[4]}) {
    for (const auto& library : libraries()) {
      if (library->name() != "onednn") continue;
      Case c = conv_case(s);
      const int residual = c.add(s.out());
      c.epilogue(ScalarOp::add, residual);
      c.epilogue(ScalarOp::relu);
      c.add(s.out());
      EXPECT_EQ(check(*library, c, 3e-6, residual).substr(0, 8), "onednn b");
    }
  }
}

// The same memory as the convolution's input may not be taken over.
TEST(LibraryEpilogue, DoesNotTakeOverItsInput) {
  for (const auto& library : libraries()) {
    if (library->name() == "calls") continue;  // computes custom calls alone
    ConvShape s{1, 16, 16, {5, 5}, {3, 3}, window(2, 1, 1)};
    Case c = conv_case(s);
    const int residual = c.add(s.out());
    c.step->args[static_cast<std::size_t>(residual)].alloc = c.step->args[0].alloc;
    c.epilogue(ScalarOp::add, residual);
    c.add(s.out());
    auto op = library->bind(c.call);
    ASSERT_TRUE(op.ok());
    EXPECT_TRUE((*op)->may_alias().empty());
  }
}

ir::Attrs product_attrs(bool ta, bool tb) { return {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}}; }

TEST(LibraryMatmul, Shapes) {
  struct Shape {
    Extents a, b, out;
    bool ta = false, tb = false;
  };
  const std::vector<Shape> shapes = {{{5, 7}, {7, 9}, {5, 9}},
                                     {{7, 5}, {9, 7}, {5, 9}, true, true},
                                     {{1, 64}, {64, 100}, {1, 100}},
                                     {{64}, {64, 10}, {10}},
                                     {{10, 64}, {64}, {10}},
                                     {{64}, {64}, {}},
                                     {{3, 4, 6, 8}, {3, 4, 8, 5}, {3, 4, 6, 5}},
                                     {{3, 4, 6, 8}, {8, 5}, {3, 4, 6, 5}},
                                     {{3, 1, 6, 8}, {4, 8, 5}, {3, 4, 6, 5}},
                                     {{6, 8}, {2, 3, 8, 5}, {2, 3, 6, 5}},
                                     {{2, 1, 8}, {8, 1}, {2, 1, 1}},
                                     {{4, 1, 8}, {4, 8, 3}, {4, 1, 3}},
                                     {{2, 3, 1, 8}, {8, 6}, {2, 3, 1, 6}},
                                     {{37, 50}, {50, 67}, {37, 67}}};
  for (const Shape& s : shapes) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(s.a) + ::testing::PrintToString(s.b));
      check_all([&] {
        Case c(TensorOp::matmul, product_attrs(s.ta, s.tb));
        c.add(s.a);
        c.add(s.b, {}, constant);
        c.add(s.out);
        return c;
      });
    }
  }
}

// [N, S, H, D] seen as [N, H, S, D], packed with other matrices or not, and results written the same way.
TEST(LibraryMatmul, HeadTransposes) {
  const int64_t h = 3, s = 10, d = 8;
  for (const int64_t n : {1, 2}) {
    for (const int64_t packed : {1, 3}) {
      const int64_t row = packed * h * d;
      const Extents heads{s * row, d, row, 1}, heads_t{s * row, d, 1, row};
      check_all([&] {
        Case c(TensorOp::matmul, product_attrs(false, false));
        c.add({n, h, s, d}, heads);
        c.add({n, h, d, s}, heads_t);
        const int scale = c.add({});
        c.epilogue(ScalarOp::mul, scale);
        const int mask = c.add({n, 1, 1, s});
        c.epilogue(ScalarOp::add, mask);
        c.add({n, h, s, s});
        return c;
      });
      check_all([&] {
        Case c(TensorOp::matmul, product_attrs(false, false));
        c.add({n, h, s, s});
        c.add({n, h, s, d}, heads);
        c.add({n, h, s, d}, {s * h * d, d, h * d, 1});
        return c;
      });
      check_all([&] {
        Case c(TensorOp::matmul, product_attrs(false, true));
        c.add({n, h, s, d}, heads);
        c.add({n, h, s, d}, heads);
        c.add({n, h, s, s}, {h * s * s, s * s, 1, s});  // columns first
        return c;
      });
    }
  }
}

TEST(LibraryMatmul, BiasForms) {
  for (const Extents& bias : {Extents{9}, {1, 9}, {5, 9}, {5, 1}, {1}, {}}) {
    for (const bool columns_first : {false, true}) {
      check_all([&] {
        Case c(TensorOp::matmul, product_attrs(false, false));
        c.add({5, 7});
        c.add({7, 9}, {}, true);
        c.step->bias = c.add(bias);
        const int other = c.add({5, 9});
        c.epilogue(ScalarOp::gelu);
        c.epilogue(ScalarOp::add, other);
        c.epilogue(ScalarOp::clamp, -1, -1.5, 1);
        c.add({5, 9}, columns_first ? Extents{1, 5} : Extents{12, 1});
        return c;
      });
    }
  }
}

TEST(LibraryMatmul, HalfTypesAndIntegers) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i64, DType::i8}) {
    check_all(
        [&] {
          Case c(TensorOp::matmul, product_attrs(false, false));
          c.step->compute = compute_type(dtype);
          c.add({2, 5, 3}, {}, false, dtype);
          c.add({3, 9}, {}, true, dtype);
          if (is_float(dtype)) c.step->bias = c.add({9}, {}, true, dtype);
          c.add({2, 5, 9}, {}, false, dtype);
          return c;
        },
        dtype == DType::f16    ? 1e-3
        : dtype == DType::bf16 ? 8e-3
                               : 1e-15);
  }
}

TEST(LibraryMatmul, EmptyDepthGivesBias) {
  check_all([&] {
    Case c(TensorOp::matmul, product_attrs(false, false));
    c.add({5, 0});
    c.add({0, 9});
    c.step->bias = c.add({9});
    c.epilogue(ScalarOp::relu);
    c.add({5, 9});
    return c;
  });
}

TEST(LibraryPool, WindowsAndLayouts) {
  struct Shape {
    Extents in, kernel, strides, pads, dilations, out;
    int64_t ceil = 0;
  };
  const std::vector<Shape> shapes = {{{8, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {4, 4}},
                                     {{7, 9}, {2, 3}, {2, 1}, {0, 1, 1, 2}, {1, 1}, {4, 10}},
                                     {{6, 6}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {3, 3}, 1},
                                     {{6, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {4, 4}, 1},
                                     {{9, 9}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {2, 2}, {7, 7}},
                                     {{7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}},
                                     {{20}, {3}, {2}, {1, 1}, {1}, {10}},
                                     {{4, 5, 6}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, {2, 2, 3}}};
  for (const Shape& s : shapes) {
    for (const std::string layout : {"last", "first"}) {
      for (const TensorOp op : {TensorOp::max_pool, TensorOp::avg_pool}) {
        for (const int64_t include : {0, 1}) {
          if (op == TensorOp::max_pool && include == 1) continue;
          SCOPED_TRACE(std::string(ir::info(op).name) + " " + layout + ::testing::PrintToString(s.in));
          ir::Attrs attrs{{"kernel", s.kernel},       {"strides", s.strides}, {"pads", s.pads},
                          {"dilations", s.dilations}, {"ceil_mode", s.ceil},  {"layout", layout}};
          if (op == TensorOp::avg_pool) attrs.set("count_include_pad", include);
          for (const int64_t channels : testing_support::sampled(std::vector<int64_t>{5, 300})) {
            check_all([&] {
              Case c(op, attrs);
              c.add(image(2, channels, s.in, layout));
              c.add(image(2, channels, s.out, layout));
              return c;
            });
          }
        }
      }
    }
  }
}

TEST(LibraryPool, MaxOfIntegers) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i64}) {
    Case c(TensorOp::max_pool, {{"kernel", Extents{3}},
                                {"strides", Extents{1}},
                                {"pads", Extents{1, 1}},
                                {"dilations", Extents{1}},
                                {"ceil_mode", int64_t{0}},
                                {"layout", std::string("first")}});
    c.step->compute = dtype;
    c.add({2, 3, 7}, {}, false, dtype);
    c.add({2, 3, 7}, {}, false, dtype);
    EXPECT_EQ(check(*make_plain_library(), c), "loops");
  }
}

}  // namespace
}  // namespace fusec::runtime
