// SPDX-License-Identifier: Apache-2.0
// verify --specials: edge inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;

constexpr const char* kSpecialsChain =
    "graph @main(%x: f32[8, 16]) {\n"
    "  %0 = constant f32[16, 16] {random 7}\n"
    "  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /fc1/MatMul\n"
    "  %2 = tanh %1: f32[8, 16]  // /act/Tanh\n"
    "  %3 = matmul %2, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /fc2[0]/MatMul\n"
    "  return %3 as \"y\"\n"
    "}\n";

TEST(Specials, AreComparedClassByClass) {
  const Workplace w;
  const std::string model = w.file("ops.fir",
                                   "graph @main(%x: f32[4, 3]) {\n"
                                   "  %0 = tanh %x: f32[4, 3]\n"
                                   "  %1 = mul %0, %x: f32[4, 3]\n"
                                   "  return %1 as \"y\"\n"
                                   "}\n");
  const Outcome verify = w.fusec({"verify", model, "--device", "cpu", "--specials", "--json"});
  ASSERT_EQ(verify.code, 0) << verify.err << verify.out;
  const json rows = verify.json()["specials"];
  EXPECT_EQ(rows.size(), 10U);
  for (const json& row : rows) {
    EXPECT_EQ(row["ok"], true) << row;
    // Generated kernels keep NaN and infinities in every mode.
    EXPECT_EQ(row["promised"], row["class"] != "largest finite") << row;
  }
  const std::string product = w.file("chain.fir", kSpecialsChain);
  const json with_library = w.fusec({"verify", product, "--device", "cpu", "--specials", "--json"}).json();
  for (const json& row : with_library["specials"])
    if (row["class"] == "one nan") {
      EXPECT_EQ(row["promised"], false);
    }
  const json exact =
      w.fusec({"verify", product, "--device", "cpu", "--numerics", "exact", "--specials", "--json"}).json();
  for (const json& row : exact["specials"])
    if (row["class"] == "one nan") {
      EXPECT_EQ(row["promised"], true);
    }
  EXPECT_EQ(w.fusec({"verify", model, "--device", "cpu", "--specials", "--reference", w.path("x")}).code, 2);
}

}  // namespace
}  // namespace fusec::tool_test
