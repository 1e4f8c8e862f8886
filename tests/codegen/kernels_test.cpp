// SPDX-License-Identifier: Apache-2.0
// Whole kernels: those of the text tests on the host, artifacts, limits, and what cannot be written.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "ir/text/kernel_text.h"
#include "tests/codegen/differential.h"
#include "tests/codegen/host_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

// The first kernel of a text test, without its comments.
std::string kernel_text(const std::string& name) {
  std::ifstream file(std::string(FUSEC_SOURCE_DIR) + "/tests/text/kernel/" + name + ".fir");
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const std::size_t begin = text.find("\nkernel @");
  const std::size_t end = text.find("\n}\n", begin);
  EXPECT_NE(begin, std::string::npos) << name;
  return begin == std::string::npos ? "" : text.substr(begin + 1, end + 3 - begin - 1);
}

TEST(Kernels, OfTheTextTests) {
  for (const auto& [name, ulp] : std::vector<std::pair<const char*, double>>{{"hswish", 0},
                                                                             {"argmax", 0},
                                                                             {"colsum", 0},
                                                                             {"cumsum", 0},
                                                                             {"depthwise", 0},
                                                                             {"gather_add", 8},
                                                                             {"layernorm", 8},
                                                                             {"softmax", 4},
                                                                             {"softmax_coop", 4},
                                                                             {"softmax_long", 4},
                                                                             {"transpose", 0}}) {
    const std::string text = kernel_text(name);
    const auto kernel = ir::parse_kernel(text);
    ASSERT_TRUE(kernel.ok()) << name << ": " << kernel.status().str();
    Extents extents;
    for (const std::string& extent : kernel->extents) extents[extent] = 8;
    for (const auto& [extent, by] : kernel->divisible) extents[kernel->extents[extent]] = 8 * by;
    expect_like_evaluator(text, extents, {ulp});
  }
}

ir::Kernel parsed(const std::string& text) {
  const auto kernel = ir::parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str();
  return *kernel;
}

constexpr const char* kMany = R"(kernel @many(%x: in f32[n], %y: out f32[n], %z: out f32[n]) {
  grid b in floordiv(n + 15, 16) {
    v0: f32.16 = load x[16*b + lane] guard(n - 1 - 16*b - lane) else 0
    v1: f32.16 = tanh v0
    v2: f32.16 = tan v1
    v3: f32.16 = pow v2, v0
    store y[16*b + lane], v3 guard(n - 1 - 16*b - lane)
  }
  grid c in n {
    v4: f32 = load y[c]
    v5: f32 = sin v4
    store z[c], v5
  }
}
)";

TEST(Artifact, EqualBytesFromEqualKernelsOnAnyThread) {
  const Target target = named_target("x86-64-v4").value();
  const ir::Kernel kernel = parsed(kMany);
  const auto first = codegen_test::emit(kernel, target);
  ASSERT_TRUE(first.ok());
  std::vector<Result<codegen::Artifact>> others(4, Status());
  std::vector<std::thread> threads;
  for (auto& other : others) threads.emplace_back([&] { other = codegen_test::emit(kernel, target); });
  for (std::thread& t : threads) t.join();
  for (const auto& other : others) {
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(other->image == first->image);
    EXPECT_EQ(other->key, first->key);
    EXPECT_EQ(other->externs, first->externs);
  }
  EXPECT_EQ(first->externs, (std::vector<std::string>{"tanf", "powf", "sinf"}));
  EXPECT_EQ(first->phases.size(), 2u);
  EXPECT_EQ(first->phases[0].iterations.str(), "floordiv(n + 15, 16)");
}

TEST(Artifact, KeyTellsTargetsAndKernelsApart) {
  const ir::Kernel kernel = parsed(kMany);
  ir::Kernel other = kernel;
  other.divisible[ir::ExtentId{0}] = 2;
  const std::string key = codegen::artifact_key(kernel, named_target("x86-64-v3").value());
  EXPECT_NE(key, codegen::artifact_key(kernel, named_target("x86-64-v4").value()));
  EXPECT_NE(key, codegen::artifact_key(other, named_target("x86-64-v3").value()));
}

TEST(UnsupportedKernel, NamesTheStatement) {
  const Target target = named_target("x86-64-v3").value();
  const std::string message = codegen_test::emit(parsed(kernel_text("skinny")), target).status().str();
  EXPECT_NE(message.find("compile_failed: cannot write"), std::string::npos) << message;
  EXPECT_NE(message.find("mma v"), std::string::npos) << message;
  EXPECT_NE(message.find("the lowered form is for GPUs"), std::string::npos) << message;
}

TEST(Gather, OutOfRangeSetsTheStatusWord) {
  const ir::Kernel kernel = parsed(R"(kernel @gather(%x: in f32[n], %i: in i64[4], %y: out f32[4]) {
  grid b in 1 {
    v0: i64.4 = load i[lane]
    v1: f32.4 = load x[v0] clamp(0)
    store y[lane], v1
  }
}
)");
  for (const Target& target : usable_targets()) {
    const Loaded loaded(codegen_test::emit(kernel, target).value());
    std::vector<Tensor> args = make_args(kernel, {{"n", 5}}, 1, 0, 1);
    int64_t* indices = args[1].as<int64_t>();
    const int64_t inside[] = {0, 4, -5, -1}, outside[] = {0, 5, -6, 1};
    EXPECT_EQ(loaded.run({Tensor::make(DType::f32, {0}).value(), args[1], args[2]}, {{"n", 0}}, kernel), 1);
    std::copy(inside, inside + 4, indices);
    EXPECT_EQ(loaded.run(args, {{"n", 5}}, kernel), 0);
    EXPECT_EQ(args[2].as<float>()[2], args[0].as<float>()[0]);
    EXPECT_EQ(args[2].as<float>()[3], args[0].as<float>()[4]);
    std::copy(outside, outside + 4, indices);
    EXPECT_EQ(loaded.run(args, {{"n", 5}}, kernel), 1);
    EXPECT_EQ(args[2].as<float>()[1], args[0].as<float>()[4]);
    EXPECT_EQ(args[2].as<float>()[2], args[0].as<float>()[0]);
  }
}

}  // namespace
}  // namespace fusec::codegen_test
