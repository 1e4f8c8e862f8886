// SPDX-License-Identifier: Apache-2.0
// accuracy: errors of compiled ops against the references of the op table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;

TEST(Accuracy, ErrorsAreMeasuredAndBound) {
  const Workplace w;
  const Outcome run = w.fusec({"accuracy", "--op", "exp", "--dtype", "f32,f16", "--samples", "20000", "--device", "cpu", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto rows = run.json()["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["dtype"], "f32");
  EXPECT_GT(rows[0]["max_ulp"], 0.5);  // exp is not rounded correctly: an error of half a unit at most would be no measurement
  EXPECT_LE(rows[0]["max_ulp"], 3);
  EXPECT_GT(rows[1]["inputs"], 65536);
  EXPECT_LE(rows[1]["max_ulp"], 1);
}

TEST(Accuracy, IntegersAreExact) {
  const Workplace w;
  const Outcome run = w.fusec({"accuracy", "--op", "div,shl", "--dtype", "i8,u64", "--samples", "2000", "--device", "cpu", "--json"});
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
