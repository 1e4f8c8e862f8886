// SPDX-License-Identifier: Apache-2.0
// verify --precision-report, and --keep-f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kChain =
    "graph @main(%x: f32[8, 16]) {\n"
    "  %0 = constant f32[16, 16] {random 7}\n"
    "  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /fc1/MatMul\n"
    "  %2 = tanh %1: f32[8, 16]  // /act/Tanh\n"
    "  %3 = matmul %2, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /fc2[0]/MatMul\n"
    "  return %3 as \"y\"\n"
    "}\n";

TEST(KeepF32, KeepsTheNodesThatFit) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kChain);
  const Outcome all = w.fusec({"optimize", model, "--precision", "f16"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr(": f16[8, 16]  // /fc1/MatMul"));
  const Outcome kept = w.fusec({"optimize", model, "--precision", "f16", "--keep-f32", "/fc1/*"});
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr(": f32[8, 16]  // /fc1/MatMul"));
  EXPECT_THAT(kept.out, HasSubstr(": f16[8, 16]  // /fc2[0]/MatMul"));
  const Outcome none = w.fusec({"optimize", model, "--precision", "f16", "--keep-f32", "*"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, Not(HasSubstr("f16")));
  EXPECT_EQ(w.fusec({"verify", model, "--device", "cpu", "--precision", "f16", "--keep-f32", "/fc1/*"}).code, 0);
  const Outcome alone = w.fusec({"optimize", model, "--keep-f32", "/fc1/*"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--precision f16 or bf16"));
}

TEST(PrecisionReport, FindsWhatHasToStayInF32) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kChain);
  const auto report = [&](const char* tolerance) {
    return w.fusec({"verify", model, "--device", "cpu", "--precision", "bf16", "--precision-report", "--tolerance",
                    tolerance, "--json"});
  };
  const Outcome loose = report("0.5");
  ASSERT_EQ(loose.code, 0) << loose.err;
  EXPECT_TRUE(loose.json()["keep_f32"].empty());
  const Outcome tight = report("1e-5");
  ASSERT_EQ(tight.code, 0) << tight.err << tight.out;
  const json found = tight.json();
  EXPECT_FALSE(found["keep_f32"].empty());
  EXPECT_GT(found["rel_l2"], 1e-5);
  EXPECT_LE(found["kept_rel_l2"], 1e-5);
  EXPECT_EQ(found["times"], "measured");
  // What it found holds for a compile of its own, names with brackets included.
  std::vector<std::string> words = {"optimize", model, "--precision", "bf16"};
  for (const json& pattern : found["keep_f32"]) words.insert(words.end(), {"--keep-f32", pattern.get<std::string>()});
  EXPECT_THAT(w.fusec(words).out, HasSubstr(": f32[8, 16]  // /fc2[0]/MatMul"));
  const Outcome refused = w.fusec({"verify", model, "--device", "cpu", "--precision-report"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("give one"));
}

// The region that adds most of all hardly reaches the output.
constexpr const char* kMinor =
    "graph @main(%x: f32[8, 16]) {\n"
    "  %0 = constant f32[16, 16] {random 7}\n"
    "  %1 = constant f32[] {1000}\n"
    "  %2 = constant f32[] {1e-09}\n"
    "  %3 = add %x, %1: f32[8, 16]  // /minor/Add\n"
    "  %4 = sub %3, %1: f32[8, 16]  // /minor/Sub\n"
    "  %5 = mul %4, %2: f32[8, 16]  // /minor/Mul\n"
    "  %6 = matmul %5, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /minor/MatMul\n"
    "  %7 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[8, 16]  // /major/MatMul\n"
    "  %8 = add %6, %7: f32[8, 16]  // /major/Add\n"
    "  return %8 as \"y\"\n"
    "}\n";

TEST(PrecisionReport, LeavesOutWhatTheOthersSufficeWithout) {
  const Workplace w;
  const Outcome outcome = w.fusec({"verify", w.file("minor.fir", kMinor), "--device", "cpu", "--precision", "bf16",
                                   "--precision-report", "--tolerance", "1e-5", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json found = outcome.json();
  EXPECT_LE(found["kept_rel_l2"], 1e-5);
  EXPECT_THAT(found["regions"][0]["origins"].dump(), HasSubstr("/minor/"));
  EXPECT_EQ(found["regions"][0]["kept_f32"], false);
  EXPECT_THAT(found["keep_f32"].dump(), HasSubstr("/major/MatMul"));
  EXPECT_THAT(found["keep_f32"].dump(), Not(HasSubstr("/minor/Mul\"")));
}

}  // namespace
}  // namespace fusec::tool_test
