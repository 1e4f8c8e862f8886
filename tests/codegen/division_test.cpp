// SPDX-License-Identifier: Apache-2.0
// Divisions of many values by one, which the host computes by the two parts of a reciprocal, against the evaluator bit
// for bit.
#include "codegen/llvm/division.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text/kernel_text.h"
#include "tests/codegen/differential.h"

namespace fusec::codegen_test {
namespace {

// Quotients of f16 as f32, and rounded to f16 and bf16.
std::string rows_by_one(const std::string& dividend, const std::string& divisor) {
  return filled(R"(kernel @k(%x: in DIVIDEND[n, 64], %s: in DIVISOR[n], %y: out f32[n, 64], %h: out f16[n, 64],
          %b: out bf16[n, 64]) {
  grid i in n {
    v0: DIVISOR = load s[i]
    v1: f32 = cast v0
    seq j in 2 {
      v2: DIVIDEND.32 = load x[i, 32*j + lane]
      v3: f32.32 = cast v2
      v4: f32.32 = div v3, v1
      store y[i, 32*j + lane], v4
      v5: f32.32 = div v3, v1
      v6: f16.32 = cast v5
      store h[i, 32*j + lane], v6
      v7: f32.32 = div v3, v1
      v8: bf16.32 = cast v7
      store b[i, 32*j + lane], v8
    }
  }
}
)",
                {{"DIVIDEND", dividend}, {"DIVISOR", divisor}});
}

TEST(Division, ByOneShortDivisorIsExact) {
  for (const char* dividend : {"f16", "bf16"})
    for (const char* divisor : {"f16", "bf16"})
      for (const double hi : {1e-6, 1.0, 60000.0})
        expect_like_evaluator(rows_by_one(dividend, divisor), {{"n", 200}}, {.lo = -hi, .hi = hi});
}

TEST(Division, ByOneLongDivisorIsExact) {
  for (const double hi : {1e-30, 1e-3, 4.0, 1e5, 1e30})
    expect_like_evaluator(rows_by_one("f32", "f32"), {{"n", 200}}, {.lo = -hi, .hi = hi});
}

// Zeros keep their signs and infinities stay what they are, also by divisors that are powers of two, zero, infinite or
// not numbers.
TEST(Division, OfSpecialValuesByOne) {
  for (const char* divisor : {"1", "-2", "3", "0.333", "0", "-0", "inf", "nan", "1e-30", "1e30"})
    for (const char* dividend : {"0", "-0", "inf", "-inf", "nan", "5", "1e-7"}) {
      expect_like_evaluator(filled(R"(kernel @k(%x: in f32[n], %y: out f32[n, 16]) {
  grid i in n {
    v0: f32 = load x[i]
    v1: f32 = mul v0, 0
    v2: f32 = add v1, DIVISOR
    v3: bf16 = cast v2
    v4: f32 = cast v3
    v5: f16.16 = where true, DIVIDEND, DIVIDEND
    v6: f32.16 = cast v5
    v7: f32.16 = div v6, v4
    store y[i, lane], v7
  }
}
)",
                                   {{"DIVISOR", divisor}, {"DIVIDEND", dividend}}),
                            {{"n", 3}});
    }
}

// The divisor is the last instruction of its block.
TEST(Division, ByTheValueComputedLast) {
  expect_like_evaluator(R"(kernel @k(%x: in f16[n, 16], %s: in f32[n], %y: out f32[n, 16]) {
  grid i in n {
    v0: f16.16 = load x[i, lane]
    v1: f32.16 = cast v0
    v2: f32 = load s[i]
    v3: f32 = sqrt v2
    v4: f16 = cast v3
    v5: f32 = cast v4
    v6: f32.16 = div v1, v5
    store y[i, lane], v6
  }
}
)",
                        {{"n", 5}}, {.lo = 1, .hi = 4});
}

TEST(Division, IsByPartsWhereTheOperandsAreShort) {
  const ir::Kernel kernel = ir::parse_kernel(rows_by_one("f16", "f16")).value();
  EXPECT_EQ(codegen::find_divisions_by_parts(kernel).size(), 3u);
  const ir::Kernel wide = ir::parse_kernel(rows_by_one("f32", "f32")).value();
  EXPECT_TRUE(codegen::find_divisions_by_parts(wide).empty());
}

}  // namespace
}  // namespace fusec::codegen_test
