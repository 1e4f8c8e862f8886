// SPDX-License-Identifier: Apache-2.0
// accuracy: errors of compiled ops against the references of the op table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sanitized.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;

TEST(Accuracy, ErrorsAreMeasuredAndBound) {
  const Workplace w;
  const Outcome run =
      w.fusec({"accuracy", "--op", "exp", "--dtype", "f32,f16", "--samples", "20000", "--device", "cpu", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto rows = run.json()["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["dtype"], "f32");
  EXPECT_GT(rows[0]["max_ulp"],
            0.5);  // exp is not rounded correctly: an error of half a unit at most would be no measurement
  EXPECT_LE(rows[0]["max_ulp"], 3);
  EXPECT_GT(rows[1]["inputs"], 65536);
  EXPECT_LE(rows[1]["max_ulp"], 1);
}

// The limits of docs/numerics.md, with every row of the op table.
TEST(Accuracy, EveryFloatOpKeepsItsBound) {
  const Workplace w;
  const char* const dtypes = testing_support::many_or("f32,f16,bf16", "f32");  // 16-bit ops run on all bit patterns
  const char* const samples = testing_support::many_or("50000", "500");
  const Outcome run = w.fusec({"accuracy", "--dtype", dtypes, "--samples", samples, "--device", "cpu", "--json"});
  EXPECT_EQ(run.code, 0);
  const auto json = run.json();
  EXPECT_GT(json["rows"].size(), testing_support::many_or(150u, 40u));
  for (const auto& row : json["rows"]) {
    EXPECT_TRUE(row["ok"]) << row;
    EXPECT_LE(row["bound"], row["dtype"] == "f32" ? 4 : 1.01) << row;
  }
}

// Where 1 + erf, 1 + tanh and b*a + c cancel.
TEST(Accuracy, OpsThatCancelAsFormulasDoNot) {
  const Workplace w;
  const Outcome run = w.fusec({"accuracy", "--op", "gelu,gelu_tanh,hard_sigmoid", "--dtype", "f32", "--samples",
                               testing_support::many_or("1048576", "20000"), "--device", "cpu", "--json"});
  ASSERT_EQ(run.code, 0) << run.out;
  const auto json = run.json();
  for (const auto& row : json["rows"]) {
    EXPECT_GE(row["inputs"], testing_support::many_or(1 << 20, 20000));
    EXPECT_LE(row["max_ulp"], 4) << row;
    EXPECT_GT(row["max_ulp"], 0) << row;
  }
}

TEST(Accuracy, IntegersAreExact) {
  const Workplace w;
  const Outcome run =
      w.fusec({"accuracy", "--op", "div,shl", "--dtype", "i8,u64", "--samples", "2000", "--device", "cpu", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto json = run.json();
  for (const auto& row : json["rows"]) EXPECT_EQ(row["wrong"], 0) << row;
}

TEST(Accuracy, AnOpThatIsNotThereIsAnError) {
  const Workplace w;
  const Outcome run = w.fusec({"accuracy", "--op", "expo"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("expo"));
}

}  // namespace
}  // namespace fusec::tool_test
