// SPDX-License-Identifier: Apache-2.0
// Who makes a GPU's code where libraries are missing or fail, and under which key it is kept. No GPU is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/environment.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing_support::Environment;

// Of fixed extents: with symbols it would be one for each width of indices.
constexpr const char* kOneKernel =
    "graph @main(%x: f32[8, 4]) {\n"
    "  %0 = relu %x: f32[8, 4]\n"
    "  return %0 as \"y\"\n"
    "}\n";

constexpr const char* kElf =
    "\x7f"
    "ELF";  // a cubin begins with it

class GpuCodegen : public testing::Test {
 protected:
  void SetUp() override {
    if (!FUSEC_WITH_CUDA) GTEST_SKIP() << "built without CUDA";
    const Outcome doctor = w.fusec({"doctor", "--json"});
    for (const char* library : {"NVRTC", "nvJitLink"}) {
      const std::string found = doctor.json()[library];
      if (found.starts_with("not found")) GTEST_SKIP() << library << ": " << found;
    }
  }
  Outcome compile(const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = {"compile",   w.file("relu.fir", kOneKernel), "-o", w.path("m.fsc"), "--target",
                                     "cuda:sm_90"};
    line.insert(line.end(), more.begin(), more.end());
    return w.fusec(line);
  }
  Outcome compile_abs() {  // by NVRTC, of a kernel that needs a ptxas workaround
    const std::string absolute = "graph @main(%x: i32[N, 4]) {\n  %0 = abs %x: i32[N, 4]\n  return %0 as \"y\"\n}\n";
    return w.fusec({"compile", w.file("abs.fir", absolute), "-o", w.path("abs.fsc"), "--target", "cuda:sm_90",
                    "--codegen", "nvrtc"});
  }
  // "<emitters' versions> codegen=<emitter>": the first line of the key of every kernel in the cache.
  std::vector<std::string> made_by() const {
    std::vector<std::string> out;
    for (const auto& file : std::filesystem::recursive_directory_iterator(w.path("cache"))) {
      if (file.path().extension() != ".fsk") continue;
      const std::string entry = read_text(file.path());
      for (const char* emitter : {"codegen=nvrtc\n", "codegen=llvm\n"}) {
        const std::size_t at = entry.find(emitter);
        if (at == std::string::npos) continue;
        const std::size_t from = std::min(entry.rfind("nvptx-", at), entry.rfind("cuda-", at));
        out.push_back(entry.substr(from, entry.find('\n', at) - from));
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  Workplace w;
};

const auto kByLlvm = AllOf(HasSubstr("nvptx-"), HasSubstr("codegen=llvm"));
const auto kByNvrtc = AllOf(HasSubstr("cuda-"), HasSubstr("codegen=nvrtc"));
const auto kNoAssembler = HasSubstr("assembler-none");

TEST_F(GpuCodegen, LlvmWhereAnAssemblerIs) {
  const Outcome outcome = compile();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(made_by(), ElementsAre(AllOf(kByLlvm, Not(kNoAssembler))));
}

TEST_F(GpuCodegen, LlvmAndAnAssemblerWithoutNvrtc) {
  const Environment hide("FUSEC_HIDE_LIBRARIES", "nvrtc");
  const Outcome outcome = compile();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(made_by(), ElementsAre(AllOf(kByLlvm, Not(kNoAssembler))));
  EXPECT_THAT(w.fusec({"doctor", "--json"}).json()["NVRTC"].get<std::string>(), HasSubstr("not found"));
}

// NVRTC's own machine code is taken where its PTX needs no other words (codegen/ptx/ptx.h); the rest is left to
// the driver.
TEST_F(GpuCodegen, NvrtcWithoutAnAssembler) {
  const Environment hide("FUSEC_HIDE_LIBRARIES", "ptxCompiler,nvJitLink");
  EXPECT_EQ(compile().code, 0);
  EXPECT_THAT(made_by(), ElementsAre(AllOf(kByNvrtc, kNoAssembler)));
  EXPECT_THAT(read_text(w.path("m.fsc")), HasSubstr(kElf));
  const Outcome outcome = compile_abs();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(read_text(w.path("abs.fsc")), AllOf(HasSubstr("max.s32"), Not(HasSubstr(kElf))));
}

// PTX is left to the driver then.
TEST_F(GpuCodegen, LlvmAloneWithoutAll) {
  const Environment hide("FUSEC_HIDE_LIBRARIES", "nvrtc,ptxCompiler,nvJitLink");
  const Outcome outcome = compile();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(made_by(), ElementsAre(AllOf(kByLlvm, kNoAssembler)));
}

// Either assembler alone makes machine code of what NVRTC's own may not be, under a key of its own.
TEST_F(GpuCodegen, EitherAssembler) {
  const nlohmann::json doctor = w.fusec({"doctor", "--json"}).json();
  if (doctor["PTX compiler"].get<std::string>().starts_with("not found")) GTEST_SKIP() << "no PTX compiler";
  for (const auto& [hidden, key] : {std::pair("nvJitLink", "ptx-compiler-"), std::pair("ptxCompiler", "nvjitlink-")}) {
    const Environment hide("FUSEC_HIDE_LIBRARIES", hidden);
    std::filesystem::remove_all(w.path("cache"));
    const Outcome outcome = compile_abs();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(made_by(), Each(AllOf(kByNvrtc, HasSubstr(key),
                                      Not(HasSubstr(hidden[0] == 'n' ? "nvjitlink-" : "ptx-compiler-")))));
    EXPECT_THAT(read_text(w.path("abs.fsc")), HasSubstr(kElf));
    EXPECT_THAT(
        w.fusec({"doctor", "--json"}).json()[hidden[0] == 'n' ? "nvJitLink" : "PTX compiler"].get<std::string>(),
        HasSubstr("not found"));
  }
}

TEST_F(GpuCodegen, WhatIsAskedForAndMissingIsOneError) {
  const Environment hide("FUSEC_HIDE_LIBRARIES", "nvrtc");
  const Outcome outcome = compile({"--codegen", "nvrtc"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("libnvrtc.so.13 or libnvrtc.so.12"),
                                 HasSubstr("install the CUDA toolkit or set FUSEC_CUDA_HOME")));
  EXPECT_THAT(made_by(), ElementsAre());
}

// What LLVM makes in NVRTC's stead is LLVM's under its own key, and found there the next time. NVRTC is first where
// nothing assembles PTX.
TEST_F(GpuCodegen, KernelsThatNvrtcRefusesAreKeptAsLlvms) {
  const Environment hide("FUSEC_HIDE_LIBRARIES", "ptxCompiler,nvJitLink");
  {
    const Environment home("FUSEC_CUDA_HOME", FUSEC_FAKE_CUDA);
    for (int time = 0; time < 2; ++time) {
      const Outcome outcome = compile();
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_THAT(outcome.err, AllOf(ContainsRegex("warning: kernel '[a-z0-9_]+_[0-9a-f]{4}' is made by LLVM"),
                                     HasSubstr("refused by a test")));
      EXPECT_THAT(made_by(), ElementsAre(kByLlvm));
    }
    EXPECT_THAT(compile({"--codegen", "nvrtc"}).err, HasSubstr("refused by a test"));
    EXPECT_THAT(w.fusec({"doctor", "--json"}).json()["NVRTC"].get<std::string>(), HasSubstr("99.7, " FUSEC_FAKE_CUDA));
  }
  EXPECT_EQ(compile({"--codegen", "llvm"}).code, 0);
  EXPECT_THAT(made_by(), ElementsAre(kByLlvm));
  EXPECT_EQ(compile().code, 0);
  EXPECT_THAT(made_by(), ElementsAre(kByNvrtc, kByLlvm));
}

}  // namespace
}  // namespace fusec::tool_test
