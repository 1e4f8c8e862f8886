// SPDX-License-Identifier: Apache-2.0
// The forms that lower_arithmetic picks for divisions and casts, by the evaluator: the bits are those of the ops that
// they replace.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/lower/gpu/gpu.h"
#include "ir/eval/kernel.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"

namespace fusec::compiler {
namespace {

constexpr const char* kQuotients =
    R"(kernel @quotients(%a: in T[m, 8], %b: in T[m], %y: out f32[m, 8], %z: out f32[m, 8]) {
  grid i in m {
    block t in 2 {
      v0: T.4 = load a[i, 4*t + lane]
      v1: T = load b[i]
      v2: f32.4 = cast v0
      v3: f32 = cast v1
      v4: f32.4 = div v2, v3
      store y[i, 4*t + lane], v4
      v5: f32.4 = div v2, CONSTANT
      store z[i, 4*t + lane], v5
    }
  }
}
)";

std::string with_words(std::string text, const std::string& dtype, const std::string& constant) {
  for (std::size_t at = 0; (at = text.find("CONSTANT")) != std::string::npos;) text.replace(at, 8, constant);
  for (const char* before : {"in ", "out ", ": "}) {
    const std::string word = std::string(before) + "T";
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at + std::strlen(before), 1, dtype);
  }
  return text;
}

ir::Kernel lowered(const ir::Kernel& kernel) {
  const Result<ir::Kernel> out = lower_for_writer(kernel, named_target("sm_90").value());
  EXPECT_TRUE(out.ok()) << out.status().str();
  const Status problem = ir::verify(*out);
  EXPECT_TRUE(problem.ok()) << problem.str() << ir::print(*out);
  return *out;
}

// Fills with any bits.
void fill(Tensor& t, std::mt19937& random) {
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())), &bits, size_of(t.dtype()));
  }
}

// NaNs are equal to each other.
int64_t count_differences(const Tensor& a, const Tensor& b) {
  int64_t out = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const float p = a.as<float>()[i], q = b.as<float>()[i];
    out += std::memcmp(&p, &q, 4) != 0 && !(p != p && q != q);
  }
  return out;
}

void expect_same_quotients(const ir::Kernel& kernel, DType dtype, int64_t rows, bool plain) {
  std::mt19937 random(7);
  std::vector<Tensor> args = {Tensor::make(dtype, {rows, 8}).value(), Tensor::make(dtype, {rows}).value()};
  for (Tensor& t : args) fill(t, random);
  if (plain) {  // no lane leaves the fast path
    std::uniform_real_distribution<float> uniform(0.01f, 8);
    for (Tensor& t : args) {
      for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = uniform(random);
    }
  }
  std::vector<Tensor> want = args, got = args;
  for (std::vector<Tensor>* list : {&want, &got}) {
    for (int k = 0; k < 2; ++k) list->push_back(Tensor::make(DType::f32, {rows, 8}).value());
  }
  const auto first = ir::evaluate(kernel, want, {{"m", rows}});
  ASSERT_TRUE(first.ok()) << first.status().str();
  const ir::Kernel own = lowered(kernel);
  const auto second = ir::evaluate(own, got, {{"m", rows}});
  ASSERT_TRUE(second.ok()) << second.status().str() << ir::print(own);
  for (const std::size_t k : {2, 3}) EXPECT_EQ(count_differences(got[k], want[k]), 0) << "output " << k - 2;
}

TEST(LowerArithmetic, QuotientsOfHalvesAreProducts) {
  const ir::Kernel kernel = ir::parse_kernel(with_words(kQuotients, "f16", "-1.4140625")).value();
  const std::string text = ir::print(lowered(kernel));
  EXPECT_NE(text.find("rcp_approx"), std::string::npos) << text;
  EXPECT_NE(text.find("to_bits"), std::string::npos) << text;
  EXPECT_EQ(text.find("div "), text.rfind("div ")) << "one, where the divisor does not fit:\n" << text;
  expect_same_quotients(kernel, DType::f16, 4000, false);
}

TEST(LowerArithmetic, QuotientsByOneDivisorShareTheReciprocal) {
  const ir::Kernel kernel = ir::parse_kernel(with_words(kQuotients, "f32", "3.1")).value();
  const std::string text = ir::print(lowered(kernel));
  EXPECT_NE(text.find("rcp_approx"), std::string::npos) << text;
  EXPECT_NE(text.find("if ("), std::string::npos) << text;
  expect_same_quotients(kernel, DType::f32, 4000, false);
  expect_same_quotients(kernel, DType::f32, 4000, true);
}

// Operands of all magnitudes, zeros of both signs, infinities and NaN among them; divisors of both signs.
TEST(LowerArithmetic, QuotientsThatBecomeHalvesHaveTheirBits) {
  std::string words = with_words(kQuotients, "f32", "3.1");
  for (const char* name : {"v4", "v5"}) {
    const std::string store = std::string("lane], ") + name, half = "v1" + std::string(name + 1);
    const std::size_t line = words.rfind("\n", words.find(store)) + 1;
    words.replace(words.find(store), store.size(), "lane], " + half);
    words.insert(line, "      " + half + ": f16.4 = cast " + name + "\n");
  }
  for (std::size_t at = 0; (at = words.find("out f32[", at)) != std::string::npos;) words.replace(at, 8, "out f16[");
  const ir::Kernel kernel = ir::parse_kernel(words).value(), own = lowered(kernel);
  EXPECT_EQ(ir::print(own).find("eq v"), std::string::npos) << "a test for zeros:\n" << ir::print(own);
  std::mt19937 random(11);
  std::vector<Tensor> want = {Tensor::make(DType::f32, {6000, 8}).value(), Tensor::make(DType::f32, {6000}).value()};
  for (Tensor& t : want) fill(t, random);
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-40f, 3e38f};
  std::uniform_real_distribution<float> uniform(-8, 8);
  for (int64_t row = 0; row < 4000; ++row) {
    want[1].as<float>()[row] = row % 2 == 0 ? std::fabs(uniform(random)) : uniform(random);
    for (int64_t i = 0; i < 8; ++i) {
      float& x = want[0].as<float>()[row * 8 + i];
      x = row % 4 == 0 && i % 3 == 0 ? special[(row / 4 + i) % 8] : uniform(random);
    }
  }
  for (int k = 0; k < 2; ++k) want.push_back(Tensor::make(DType::f16, {6000, 8}).value());
  std::vector<Tensor> got = {want[0], want[1], Tensor::make(DType::f16, {6000, 8}).value(),
                             Tensor::make(DType::f16, {6000, 8}).value()};
  ASSERT_TRUE(ir::evaluate(kernel, want, {{"m", 6000}}).ok());
  ASSERT_TRUE(ir::evaluate(own, got, {{"m", 6000}}).ok());
  for (const std::size_t k : {2, 3}) {
    const auto *p = want[k].as<uint16_t>(), *q = got[k].as<uint16_t>();
    int64_t wrong = 0;
    for (int64_t i = 0; i < 6000 * 8; ++i) {
      const bool both_nan = (p[i] & 0x7fff) > 0x7c00 && (q[i] & 0x7fff) > 0x7c00;
      wrong += p[i] != q[i] && !both_nan;
    }
    EXPECT_EQ(wrong, 0) << "output " << k - 2;
  }
}

TEST(LowerArithmetic, OtherDivisionsStay) {
  const ir::Kernel kernel = ir::parse_kernel(R"(kernel @k(%a: in f32[n, 4], %b: in f32[n, 4], %y: out f32[n, 4]) {
  grid i in n {
    v0: f32.4 = load a[i, lane]
    v1: f32.4 = load b[i, lane]
    v2: f32.4 = div v0, v1
    v3: f32 = load a[i, 0]
    v4: f32 = div 1, v3
    v5: f32.4 = add v2, v4
    store y[i, lane], v5
  }
}
)")
                                .value();
  EXPECT_EQ(ir::print(lowered(kernel)).find("rcp_approx"), std::string::npos);
}

// max(cast(x), 0) becomes cast(max(x, 0)), with equal results for all floats of 16 leading bits and their neighbours.
TEST(LowerArithmetic, ReluComesBeforeTheRounding) {
  constexpr int64_t kRows = 3 * 65536 / 4;
  Tensor x = Tensor::make(DType::f32, {kRows, 4}).value();
  for (int64_t i = 0; i < kRows * 4; ++i) {
    const auto bits = static_cast<uint32_t>(i / 3 << 16) + static_cast<uint32_t>(i % 3 - 1);
    std::memcpy(x.as<float>() + i, &bits, sizeof bits);
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const ir::Kernel kernel = ir::parse_kernel(with_words(R"(kernel @k(%x: in f32[n, 4], %y: out T[n, 4]) {
  grid i in n {
    v0: f32.4 = load x[i, lane]
    v1: T.4 = cast v0
    v2: T.4 = max v1, 0
    store y[i, lane], v2
  }
}
)",
                                                          std::string(to_string(dtype)), ""))
                                  .value();
    const ir::Kernel own = lowered(kernel);
    EXPECT_NE(ir::print(own).find(": f32.4 = max v0, 0"), std::string::npos) << ir::print(own);
    std::vector<Tensor> want = {x, Tensor::make(dtype, {kRows, 4}).value()},
                        got = {x, Tensor::make(dtype, {kRows, 4}).value()};
    ASSERT_TRUE(ir::evaluate(kernel, want, {{"n", kRows}}).ok());
    ASSERT_TRUE(ir::evaluate(own, got, {{"n", kRows}}).ok());
    const uint16_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
    int64_t wrong = 0;
    for (int64_t i = 0; i < kRows * 4; ++i) {
      const uint16_t p = want[1].as<uint16_t>()[i], q = got[1].as<uint16_t>()[i];
      wrong += p != q && !((p & 0x7fff) > infinity && (q & 0x7fff) > infinity);
    }
    EXPECT_EQ(wrong, 0) << to_string(dtype);
  }
}

TEST(LowerArithmetic, ARoundingJoinsTheCastToBytes) {
  const ir::Kernel kernel = ir::parse_kernel(R"(kernel @k(%a: in f32[n, 4], %y: out i8[n, 4], %z: out i32[n, 4]) {
  grid i in n {
    v0: f32.4 = load a[i, lane]
    v1: f32.4 = round v0
    v2: i8.4 = cast v1
    v3: i32.4 = cast v1
    store y[i, lane], v2
    store z[i, lane], v3
  }
}
)")
                                .value();
  const std::string text = ir::print(lowered(kernel));
  EXPECT_NE(text.find("v2: i8.4 = round_cast v0"), std::string::npos) << text;
  EXPECT_NE(text.find("v3: i32.4 = cast v1"), std::string::npos) << text;
  EXPECT_EQ(ir::print(ir::parse_kernel(text).value()), text);
}

// v1 is only rounded to f16, v5 to bf16; v3 is read as it is, too, and v7 is rounded to both.
TEST(LowerArithmetic, AGeluThatIsRoundedToHalfIsShort) {
  const ir::Kernel kernel = ir::parse_kernel(
                                R"(kernel @k(%a: in f32[n], %y: out f16[4, n], %z: out bf16[4, n], %w: out f32[n]) {
  grid i in n {
    v0: f32 = load a[i]
    v1: f32 = gelu v0
    v2: f16 = cast v1
    store y[0, i], v2
    v3: f32 = gelu v0
    v4: f16 = cast v3
    store y[1, i], v4
    store w[i], v3
    v5: f32 = gelu v0
    v6: bf16 = cast v5
    store z[0, i], v6
    v7: f32 = gelu v0
    v8: bf16 = cast v7
    v9: f16 = cast v7
    store z[1, i], v8
    store y[2, i], v9
  }
}
)")
                                .value();
  for (const char* target : {"sm_90", "x86-64-v3"}) {
    const std::string text = ir::print(lower_for_writer(kernel, named_target(target).value()).value());
    EXPECT_NE(text.find("v1: f32 = gelu_as_f16 v0"), std::string::npos) << text;
    EXPECT_NE(text.find("v3: f32 = gelu v0"), std::string::npos) << text;
    EXPECT_NE(text.find("v5: f32 = gelu_as_bf16 v0"), std::string::npos) << text;
    EXPECT_NE(text.find("v7: f32 = gelu v0"), std::string::npos) << text;
  }
}

// v1 is a factor of what is only rounded to f16, and v4 is rounded itself; v6 is a part of a sum, v9 a factor of what
// is stored as it is, and v12 a factor of a factor.
TEST(LowerArithmetic, ASigmoidThatIsRoundedToHalfIsShort) {
  const ir::Kernel kernel = ir::parse_kernel(R"(kernel @k(%a: in f32[n], %y: out f16[5, n], %w: out f32[n]) {
  grid i in n {
    v0: f32 = load a[i]
    v1: f32 = sigmoid v0
    v2: f32 = mul v0, v1
    v3: f16 = cast v2
    store y[0, i], v3
    v4: f32 = sigmoid v0
    v5: f16 = cast v4
    store y[1, i], v5
    v6: f32 = sigmoid v0
    v7: f32 = add v0, v6
    v8: f16 = cast v7
    store y[2, i], v8
    v9: f32 = sigmoid v0
    v10: f32 = mul v0, v9
    v11: f16 = cast v10
    store y[3, i], v11
    store w[i], v10
    v12: f32 = sigmoid v0
    v13: f32 = mul v0, v12
    v14: f32 = mul v13, v0
    v15: f16 = cast v14
    store y[4, i], v15
  }
}
)")
                                .value();
  const std::string text = ir::print(lowered(kernel));
  EXPECT_NE(text.find("v1: f32 = sigmoid_as_16_bits v0"), std::string::npos) << text;
  EXPECT_NE(text.find("v4: f32 = sigmoid_as_16_bits v0"), std::string::npos) << text;
  EXPECT_NE(text.find("v6: f32 = sigmoid v0"), std::string::npos) << text;
  EXPECT_NE(text.find("v9: f32 = sigmoid v0"), std::string::npos) << text;
  EXPECT_NE(text.find("= sigmoid_as_16_bits v0", text.find("v9: f32")), std::string::npos) << text;
}

}  // namespace
}  // namespace fusec::compiler
