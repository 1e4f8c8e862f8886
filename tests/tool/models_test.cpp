// SPDX-License-Identifier: Apache-2.0
// Whole models and patterns: how many launches they become, how much memory they take, and that a second process
// compiles nothing.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

const std::string kSource = FUSEC_SOURCE_DIR;

struct Expected {
  const char* model;
  int64_t ops;  // counted in the file: tensor operations without constants, identities and shape arithmetic
  int64_t most_launches;
};

class Models : public testing::TestWithParam<Expected> {};

TEST_P(Models, LaunchesAndMemory) {
  const Workplace w;
  const Outcome inspect =
      w.fusec({"inspect", kSource + "/tests/models/" + GetParam().model + ".onnx", "--random-weights", "0", "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  const auto j = inspect.json();
  EXPECT_EQ(j["ops"], GetParam().ops);
  EXPECT_LE(j["launches"], GetParam().most_launches);
  EXPECT_EQ(j["launches"], j["generated"].get<int64_t>() + j["library"].get<int64_t>());
  EXPECT_LE(j["arena_bytes"].get<double>(), 1.05 * j["live_lower_bound_bytes"].get<double>());
  EXPECT_GT(j["live_lower_bound_bytes"].get<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Budgets, Models,
                         testing::Values(Expected{"mobilenet_v3_large_ifx", 265, 90},
                                         Expected{"mobilenet_v3_large", 140, 90}, Expected{"resnet50", 122, 60},
                                         Expected{"squeezenet1_1", 65, 31}, Expected{"bert_base", 416, 160},
                                         Expected{"vit_b_16", 525, 190}),
                         [](const auto& info) { return std::string(info.param.model); });

// But for se_scale, whose sigmoid would be computed again for every pixel.
TEST(Patterns, AreOneKernelEach) {
  const Workplace w;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource + "/tests/patterns")) {
    const Outcome inspect = w.fusec({"inspect", entry.path().string(), "--json"});
    ASSERT_EQ(inspect.code, 0) << entry.path() << inspect.err;
    const bool scales = entry.path().stem().string().starts_with("se_scale");
    EXPECT_EQ(inspect.json()["launches"], scales ? 2 : 1) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 33);
}

// One kernel serves every batch, and the kernel cache every process.
TEST(Cache, SecondProcessAndLaterBatchesCompileNothing) {
  const Workplace w;
  const std::vector<std::string> bench = {"bench",
                                          kSource + "/tests/models/mobilenet_v3_small.onnx",
                                          "--random-weights",
                                          "0",
                                          "--batch",
                                          "1,7",
                                          "--runs",
                                          "2",
                                          "--warmup",
                                          "1",
                                          "--json"};
  const Outcome first = w.fusec(bench), second = w.fusec(bench);
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(first.json()["compiled_kernels"], first.json()["distinct_kernels"]);
  const nlohmann::json json = first.json();
  for (const auto& row : json["batches"]) EXPECT_EQ(row["compiled_kernels"], json["compiled_kernels"]);
  EXPECT_EQ(second.json()["compiled_kernels"], 0);
  EXPECT_EQ(second.json()["cached_kernels"], first.json()["distinct_kernels"]);
}

}  // namespace
}  // namespace fusec::tool_test
