// SPDX-License-Identifier: Apache-2.0
// What is promised of oneDNN beyond results: quick implementations for the shapes of known networks, NaN kept but by a
// relu that need not be exact, weights packed once, no allocation in our part of a run, runs at the same time.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/runtime/library_case.h"
#include "tests/runtime/malloc_count.h"

namespace fusec::runtime {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using testing::Case;
using testing::Extents;

std::shared_ptr<Library> onednn(Numerics numerics = Numerics::precise) {
  Options options;
  options.numerics = numerics;
  for (const auto& library : host_libraries(options)) {
    if (library->name() == "onednn") return library;
  }
  return nullptr;
}

struct Shape {
  const char* name;
  int64_t c, size, o, k, stride, pad, groups;
};
// resnet50 and mobilenet_v3_large
constexpr Shape kShapes[] = {
    {"resnet 7x7 3->64 @224 s2", 3, 224, 64, 7, 2, 3, 1},  {"resnet 1x1 64->256 @56", 64, 56, 256, 1, 1, 0, 1},
    {"resnet 3x3 64 @56", 64, 56, 64, 3, 1, 1, 1},         {"resnet 1x1 256->512 @56 s2", 256, 56, 512, 1, 2, 0, 1},
    {"resnet 3x3 128 @56 s2", 128, 56, 128, 3, 2, 1, 1},   {"resnet 1x1 512->2048 @7", 512, 7, 2048, 1, 1, 0, 1},
    {"resnet 3x3 512 @7", 512, 7, 512, 3, 1, 1, 1},        {"mobile 3x3 3->16 @224 s2", 3, 224, 16, 3, 2, 1, 1},
    {"mobile 1x1 16->64 @112", 16, 112, 64, 1, 1, 0, 1},   {"mobile dw3 64 @112 s2", 64, 112, 64, 3, 2, 1, 64},
    {"mobile 1x1 72->24 @56", 72, 56, 24, 1, 1, 0, 1},     {"mobile dw5 72 @56 s2", 72, 56, 72, 5, 2, 2, 72},
    {"mobile 1x1 80->480 @14", 80, 14, 480, 1, 1, 0, 1},   {"mobile dw3 184 @14", 184, 14, 184, 3, 1, 1, 184},
    {"mobile dw5 672 @14 s2", 672, 14, 672, 5, 2, 2, 672}, {"mobile 1x1 672->168 @1", 672, 1, 168, 1, 1, 0, 1},
    {"mobile 1x1 160->960 @7", 160, 7, 960, 1, 1, 0, 1},
};

Case conv(const Shape& s, const char* layout = "last", int64_t batch = 1) {
  const auto image = [&](int64_t c, int64_t size) {
    return std::string(layout) == "last" ? Extents{batch, size, size, c} : Extents{batch, c, size, size};
  };
  Case c(TensorOp::conv, {{"strides", Extents{s.stride, s.stride}},
                          {"pads", Extents(4, s.pad)},
                          {"dilations", Extents{1, 1}},
                          {"groups", s.groups},
                          {"layout", std::string(layout)}});
  c.add(image(s.c, s.size));
  c.add({s.o, s.c / s.groups, s.k, s.k}, {}, true);
  c.step->bias = c.add({s.o}, {}, true);
  return c;
}

Extents output(const Shape& s, const char* layout = "last", int64_t batch = 1) {
  const int64_t size = (s.size + 2 * s.pad - s.k) / s.stride + 1;
  return std::string(layout) == "last" ? Extents{batch, size, size, s.o} : Extents{batch, s.o, size, size};
}

class OneDnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!library) GTEST_SKIP() << "built without oneDNN";
  }
  std::shared_ptr<Library> library = onednn();
};

// Nothing falls to reference loops, to a matrix product over gathered columns or to a second pass.
TEST_F(OneDnn, NetworkShapesHaveQuickImplementations) {
  for (const Shape& s : kShapes) {
    for (const int kind : {0, 1, 2, 3}) {
      Case c = conv(s);
      if (kind == 1) c.epilogue(ScalarOp::relu);
      if (kind == 2) c.epilogue(ScalarOp::hard_swish);
      if (kind == 3) {
        c.epilogue(ScalarOp::add, c.add(output(s)));
        c.epilogue(ScalarOp::relu);
      }
      c.add(output(s));
      auto op = library->bind(c.call);
      ASSERT_TRUE(op.ok()) << s.name << ": " << op.status().str();
      const std::string implementation = (*op)->implementation();
      EXPECT_TRUE(implementation.starts_with("onednn brg") || implementation.starts_with("onednn brdgmm") ||
                  implementation.starts_with("onednn jit"))
          << s.name << ": " << implementation;
      EXPECT_EQ(implementation.find('+'), std::string::npos) << s.name << ": " << implementation;
      EXPECT_EQ((*op)->may_alias().size(), kind == 3 ? 1U : 0U) << s.name;
      if (kind == 0) std::printf("%-28s %s\n", s.name, implementation.c_str());
    }
  }
}

// A layout that convolutions do not take costs a reorder, which is said, and never reference loops.
TEST_F(OneDnn, ChannelsFirstSaysItsReorders) {
  for (const Shape& s : kShapes) {
    Case c = conv(s, "first");
    c.add(output(s, "first"));
    auto op = library->bind(c.call);
    ASSERT_TRUE(op.ok()) << s.name;
    const std::string implementation = (*op)->implementation();
    EXPECT_EQ(implementation.find("ref"), std::string::npos) << implementation;
    const bool pointwise = s.k == 1 && s.stride == 1;
    EXPECT_EQ(implementation.find("reorder") == std::string::npos, pointwise) << s.name << ": " << implementation;
  }
}

// A relu that need not be exact may give 0 for NaN.
void check_specials(Library& library, bool exact) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const float specials[] = {nan, -inf, inf, -1, 1, -0.0F, 0, 1e-42F, -3e38F, 3e38F};
  struct Op {
    ScalarOp op;
    double alpha = 0, beta = 0;
  };
  for (const Op e : {Op{ScalarOp::relu},
                     {ScalarOp::leaky_relu, 0.1},
                     {ScalarOp::leaky_relu, 0},
                     {ScalarOp::clamp, -1, 1},
                     {ScalarOp::hard_sigmoid, 0.2, 0.5},
                     {ScalarOp::sigmoid},
                     {ScalarOp::tanh},
                     {ScalarOp::elu, 1},
                     {ScalarOp::abs},
                     {ScalarOp::square},
                     {ScalarOp::exp}}) {
    for (const bool product : {false, true}) {
      SCOPED_TRACE(ir::info(e.op).name);
      // Zero weights: the results are the bias.
      Case c = product ? Case(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}})
                       : Case(TensorOp::conv, {{"strides", Extents{1, 1}},
                                               {"pads", Extents{0, 0, 0, 0}},
                                               {"dilations", Extents{1, 1}},
                                               {"groups", int64_t{1}},
                                               {"layout", std::string("last")}});
      c.add(product ? Extents{3, 10} : Extents{1, 3, 1, 10});
      c.add(product ? Extents{10, 10} : Extents{10, 10, 1, 1});
      c.step->bias = c.add({10});
      std::fill_n(static_cast<float*>(c.memory[1].get()), 100, 0.0F);
      std::copy(std::begin(specials), std::end(specials), static_cast<float*>(c.memory[2].get()));
      c.epilogue(e.op, -1, e.alpha, e.beta);
      c.add(product ? Extents{3, 10} : Extents{1, 3, 1, 10});
      c.may_drop_nan = !exact && e.op == ScalarOp::relu;
      testing::check(library, c);
    }
  }
  for (const ScalarOp op : {ScalarOp::max, ScalarOp::min}) {
    Case c(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
    c.add({2, 4});
    c.add({4, 4});
    c.epilogue(op, c.add({4}));
    *static_cast<float*>(c.memory[0].get()) = nan;
    c.add({2, 4});
    testing::check(library, c);
  }
}

TEST_F(OneDnn, NanAndInfinityPassEveryEpilogueInExact) { check_specials(*onednn(Numerics::exact), true); }
TEST_F(OneDnn, InfinityPassesEveryEpilogueAndNanAllButRelu) {
  for (const Numerics numerics : {Numerics::precise, Numerics::fast}) check_specials(*onednn(numerics), false);
}

// An odd number of terms, in products that oneDNN's gemm would compute: matrices that lie apart.
TEST_F(OneDnn, InfinitiesStayInExactSumsOfPairs) {
  for (const int64_t terms : {1, 2, 7}) {
    Case c(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
    c.add({2, terms}, {}, false, DType::bf16);
    c.add({2, 2, 2, terms}, {}, false, DType::bf16);
    c.add({2, 2, 2, 2}, {16, 8, 2, 1}, false, DType::bf16);
    const uint16_t one = 0x3f80, infinity = 0x7f80;
    std::fill_n(static_cast<uint16_t*>(c.memory[0].get()), 2 * terms, infinity);
    std::fill_n(static_cast<uint16_t*>(c.memory[1].get()), 8 * terms, one);
    testing::check(*onednn(Numerics::exact), c);
  }
}

// A bias and an operand of an epilogue may be a column of a matrix.
TEST_F(OneDnn, VectorsMayHaveStrides) {
  for (const char* layout : {"first", "last"}) {
    for (const bool as_bias : {true, false}) {
      SCOPED_TRACE(std::string(layout) + (as_bias ? " bias" : " epilogue"));
      const bool last = std::string(layout) == "last";
      Case c(TensorOp::conv, {{"strides", Extents{1, 1}},
                              {"pads", Extents(4, 0)},
                              {"dilations", Extents{1, 1}},
                              {"groups", int64_t{1}},
                              {"layout", std::string(layout)}});
      c.add(last ? Extents{2, 9, 8, 4} : Extents{2, 4, 9, 8});
      c.add({6, 4, 3, 3});
      if (as_bias) {
        c.step->bias = c.add({6}, {36});
      } else {
        c.epilogue(ScalarOp::mul, c.add(last ? Extents{6} : Extents{6, 1, 1}, last ? Extents{5} : Extents{5, 1, 1}));
      }
      c.add(last ? Extents{2, 7, 6, 6} : Extents{2, 6, 7, 6});
      testing::check(*library->clone(0), c, 1e-5);
    }
  }
  Case product(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  product.add({5, 7});
  product.add({7, 6});
  product.epilogue(ScalarOp::add, product.add({6}, {3}));
  product.add({5, 6});
  testing::check(*library->clone(0), product, 1e-5);
}

// Odd channels of 16 bits: the last one of a pixel is not multiplied together with the first of the next.
TEST_F(OneDnn, PixelsThatAreNotFiniteStayApart) {
  for (const int64_t channels : {1, 3, 5, 17}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const char* layout : {"first", "last"}) {
        SCOPED_TRACE(std::string(to_string(dtype)) + " " + layout + " " + std::to_string(channels));
        const bool last = std::string(layout) == "last";
        Case c(TensorOp::conv, {{"strides", Extents{1}},
                                {"pads", Extents{1, 0}},
                                {"dilations", Extents{1}},
                                {"groups", int64_t{1}},
                                {"layout", std::string(layout)}});
        c.step->compute = DType::f32;
        c.add(last ? Extents{2, 5, channels} : Extents{2, channels, 5}, {}, false, dtype);
        c.add({2, channels, 1}, {}, true, dtype);
        for (int64_t image = 0; image < 2; ++image) {
          for (const int64_t pixel : {0, 3}) {
            const int64_t offset = last ? (image * 5 + pixel) * channels : image * channels * 5 + pixel;
            ir::store_double(dtype, c.at(0, offset), std::numeric_limits<double>::infinity());
          }
        }
        c.add(last ? Extents{2, 6, 2} : Extents{2, 2, 6}, {}, false, dtype);
        testing::check(*library->clone(0), c, 2e-2);  // packed weights are known by their address
      }
    }
  }
}

// Odd channels of 16 bits, of every number of pixels that an implementation may take at once.
TEST_F(OneDnn, OddChannelsOfAnyNumberOfPixels) {
  for (const int64_t channels : {1, 3, 17}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (int64_t pixels = 1; pixels < 70; ++pixels) {
        SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(channels) + " channels, " +
                     std::to_string(pixels) + " pixels");
        Case c(TensorOp::conv, {{"strides", Extents{1}},
                                {"pads", Extents{0, 0}},
                                {"dilations", Extents{1}},
                                {"groups", int64_t{1}},
                                {"layout", std::string("last")}});
        c.step->compute = DType::f32;
        c.add({1, pixels, channels}, {}, false, dtype);
        c.add({2, channels, 1}, {}, pixels % 2 == 0, dtype);
        c.add({1, pixels, 2}, {}, false, dtype);
        testing::check(*library->clone(0), c, 2e-2);  // packed weights are known by their address
      }
    }
  }
}

TEST_F(OneDnn, WeightsAreShared) {
  Case one = conv(kShapes[2]);
  one.add(output(kShapes[2]));
  Case two = conv(kShapes[2], "last", 2);
  two.add(output(kShapes[2], "last", 2));
  two.call.args[1].constant = one.call.args[1].constant;
  auto a = library->bind(one.call), b = library->bind(two.call);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_GE((*a)->packed_bytes(), 64U * 64 * 9 * 4);
  EXPECT_EQ((*a)->packed_bytes(), (*b)->packed_bytes());
}

// The memory of oneDNN's own argument table is all that a run allocates: a few blocks, whatever the shape.
TEST_F(OneDnn, RunsAllocateNothingOfOurs) {
  if (!runtime_test::counts_allocations()) GTEST_SKIP() << "this build does not count allocations";
  for (const Shape& s : {kShapes[1], kShapes[9]}) {
    Case c = conv(s);
    c.epilogue(ScalarOp::relu);
    c.add(output(s));
    auto op = library->bind(c.call);
    ASSERT_TRUE(op.ok());
    std::vector<void*> args;
    for (const testing::Memory& m : c.memory) args.push_back(m.get());
    const testing::Memory workspace = testing::allocate((*op)->workspace_bytes());
    const auto run = [&] { ASSERT_TRUE((*op)->run(args.data(), workspace.get(), {2}).ok()); };
    run();
    run();
    const int64_t before = runtime_test::allocations();
    run();
    EXPECT_LE(runtime_test::allocations() - before, 16) << s.name;
  }
}

// Every layout of a call runs on memory of its own; what is summed in place is not an operand.
TEST_F(OneDnn, CallsAloneRunInEachLayout) {
  const Shape s = {"1x1 24->40 @9", 24, 9, 40, 1, 1, 0, 1};
  for (const bool in_place : {false, true}) {
    Case c = conv(s);
    const int operand = c.add(output(s));
    c.epilogue(ScalarOp::add, operand);
    c.epilogue(ScalarOp::relu);
    c.add(output(s));
    std::vector<std::string> layouts;
    for (const IsolatedCall& call : library->isolated_calls(c.call, in_place)) {
      layouts.push_back(call.layout);
      EXPECT_EQ(call.weights, 1);
      ASSERT_EQ(call.bytes.size(), 5U);
      // Blocks are as wide as a vector: 40 channels fill five blocks of 8, and three of 16.
      const std::size_t padded = call.layout == "blocked" && __builtin_cpu_supports("avx512f") != 0 ? 48 : 40;
      EXPECT_GE(call.bytes[1], 24U * 40 * 4);
      if (call.layout != "any") {
        EXPECT_EQ(call.bytes[4], 81U * 4 * padded) << call.layout;
      }
      EXPECT_EQ(call.bytes[3], in_place ? 0 : call.bytes[4]);
      std::vector<testing::Memory> memory;
      std::vector<void*> args;
      for (const std::size_t bytes : call.bytes) {
        memory.push_back(testing::allocate(bytes));
        std::memset(memory.back().get(), 0, bytes);
        args.push_back(memory.back().get());
      }
      std::fill_n(static_cast<float*>(args[2]), 40, 0.5F);  // all but the bias is 0
      const testing::Memory workspace = testing::allocate(call.op->workspace_bytes());
      ASSERT_TRUE(call.op->run(args.data(), workspace.get(), {2}).ok()) << call.layout;
      EXPECT_EQ(*static_cast<float*>(args[4]), 0.5F) << call.layout;
    }
    // Products over gathered columns take a sum, but no operand.
    if (in_place) layouts.erase(std::remove(layouts.begin(), layouts.end(), "nchw"), layouts.end());
    EXPECT_EQ(layouts, (std::vector<std::string>{"nhwc", "blocked", "any"}));
  }
}

TEST_F(OneDnn, ProductsAlone) {
  Case c(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  c.add({3, 40});
  c.add({50, 40});
  c.epilogue(ScalarOp::clamp, -1, 0, 1);  // not oneDNN's: left out
  c.add({3, 50});
  std::size_t count = 0;
  for (const IsolatedCall& call : library->isolated_calls(c.call, false)) {
    EXPECT_EQ(call.weights, -1);
    EXPECT_EQ(call.op->implementation().find('+'), std::string::npos);
    if (call.layout != "any") {
      EXPECT_EQ(call.bytes, (std::vector<std::size_t>{480, 8000, 600}));
    }
    ++count;
  }
  EXPECT_EQ(count, 3U);
}

// It has twelve axes at most, and these cannot be merged.
TEST_F(OneDnn, WhatItThrowsIsWhyItRefuses) {
  Case c(TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  Extents a, b, out(12, 2);
  for (int i = 0; i < 6; ++i) {
    a.insert(a.end(), {2, 1});
    b.insert(b.end(), {1, 2});
  }
  for (Extents* shape : {&a, &b, &out}) shape->insert(shape->end(), {3, 3});
  c.add(a);
  c.add(b);
  c.add(out);
  const Status status = library->bind(c.call).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_TRUE(status.message().starts_with("oneDNN: ")) << status.str();
}

TEST_F(OneDnn, RunsAtTheSameTime) {
  const Shape s{"", 16, 9, 16, 3, 1, 1, 1};
  Case c = conv(s);
  c.call.threads = 1;
  c.add(output(s));
  auto op = library->bind(c.call);
  ASSERT_TRUE(op.ok());
  const std::size_t out = c.call.args.size() - 1, bytes = static_cast<std::size_t>(c.elements[out]) * 4;
  std::vector<testing::Memory> outputs, workspaces;
  for (int i = 0; i < 4; ++i) {
    outputs.push_back(testing::allocate(bytes));
    workspaces.push_back(testing::allocate((*op)->workspace_bytes()));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<void*> args;
      for (const testing::Memory& m : c.memory) args.push_back(m.get());
      args[out] = outputs[i].get();
      for (int n = 0; n < 50; ++n) EXPECT_TRUE((*op)->run(args.data(), workspaces[i].get(), {1}).ok());
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(std::memcmp(outputs[0].get(), outputs[i].get(), bytes), 0);
}

}  // namespace
}  // namespace fusec::runtime
