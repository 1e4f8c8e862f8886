// SPDX-License-Identifier: Apache-2.0
// The forms in which `fusec emit` prints the code of kernels, and the figures beside them. No GPU is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/environment.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing_support::Environment;

constexpr const char* kEmitted =
    "graph @main(%x: f32[64, 512]) {\n"
    "  %0 = reduce_max %x {axes = [1]}: f32[64]\n"
    "  %1 = reshape %0 {shape = [64, 1]}: f32[64, 1]\n"
    "  %2 = sub %x, %1: f32[64, 512]\n"
    "  %3 = exp %2: f32[64, 512]\n"
    "  %4 = reduce_sum %3 {axes = [1]}: f32[64]\n"
    "  %5 = reshape %4 {shape = [64, 1]}: f32[64, 1]\n"
    "  %6 = div %3, %5: f32[64, 512]\n"
    "  return %6 as \"y\"\n"
    "}\n";

// One kernel per op, with --no-fusion.
constexpr const char* kTwoOps =
    "graph @main(%x: f32[64, 512]) {\n"
    "  %0 = relu %x: f32[64, 512]  // first\n"
    "  %1 = exp %0: f32[64, 512]  // second\n"
    "  return %1 as \"y\"\n"
    "}\n";

class Emit : public testing::Test {
 protected:
  std::string text(const std::vector<std::string>& more) const {
    const Outcome outcome = emit(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  nlohmann::json json(std::vector<std::string> more) const {
    more.push_back("--json");
    return nlohmann::json::parse(text(more));
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& why, int code = 2) const {
    const Outcome outcome = emit(more);
    EXPECT_EQ(outcome.code, code);
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(outcome.out, "");
  }
  Outcome emit(const std::vector<std::string>& more, const char* graph = kEmitted) const {
    std::vector<std::string> line = {"emit", w.file("model.fir", graph)};
    line.insert(line.end(), more.begin(), more.end());
    return w.fusec(line);
  }
  Workplace w;
};

TEST_F(Emit, AssemblyWithSpillsAndVectorWidth) {
  const std::string target = "x86-64-v3";
  EXPECT_THAT(text({"--target", target, "--as", "asm"}),
              AllOf(StartsWith("# kernel row_softmax_f32_"), HasSubstr("(k0): x86-64-v3, made by LLVM\n"),
                    HasSubstr(" instructions, vectors of 32 bytes, spills write "), HasSubstr("\tretq\n")));
  const nlohmann::json all = json({"--target", target, "--as", "asm"});
  EXPECT_EQ(all["as"], "asm");
  EXPECT_EQ(all["target"], target);
  ASSERT_THAT(all["kernels"], SizeIs(1));
  const nlohmann::json part = all["kernels"][0]["parts"].at(0);
  EXPECT_EQ(part["name"], all["kernels"][0]["kernel"]);
  EXPECT_GT(part["instructions"], 10);
  EXPECT_EQ(part["vector_bytes"], 32);
  EXPECT_GE(part["spilled_bytes"], 0);
  EXPECT_EQ(json({"--target", "x86-64-v2", "--as", "asm"})["kernels"][0]["parts"][0]["vector_bytes"], 16);
}

// Behind the figures stands what `emit` has always printed.
TEST_F(Emit, LlvmIsTheTextOfTheWriter) {
  for (const char* target : {"x86-64-v3", "sm_90"}) {
    const std::string plain = text({"--target", target, "--codegen", target[0] == 's' ? "llvm" : "auto"});
    const std::string headed = text({"--target", target, "--as", "llvm"});
    EXPECT_THAT(headed, AllOf(StartsWith("; kernel "), EndsWith(plain))) << target;
  }
}

TEST_F(Emit, OptimizedLlvmIsAnother) {
  const std::string optimized = text({"--target", "sm_90", "--as", "llvm", "--optimized"});
  EXPECT_THAT(optimized, HasSubstr("define ptx_kernel void @row_softmax"));
  EXPECT_NE(optimized, text({"--target", "sm_90", "--as", "llvm"}));
}

// Without an assembler of PTX there is the code, and why there are no figures.
TEST_F(Emit, PtxWithItsFigures) {
  const nlohmann::json kernel = json({"--target", "sm_90", "--codegen", "llvm", "--as", "ptx"})["kernels"].at(0);
  EXPECT_THAT(std::string(kernel["text"]), AllOf(HasSubstr(".target sm_90"), HasSubstr(".entry row_softmax")));
  EXPECT_EQ(kernel["made_by"], "LLVM");
  if (kernel.contains("no_figures")) GTEST_SKIP() << kernel["no_figures"];
  const nlohmann::json part = kernel["parts"].at(0);
  EXPECT_GT(part["instructions"], 10);
  EXPECT_GT(part["registers"], 0);
  EXPECT_GT(part["threads"], 0);
  EXPECT_GE(part["local_bytes"], 0);
  EXPECT_GT(part["blocks_per_sm"], 0);
  const Environment hidden("FUSEC_HIDE_LIBRARIES", "nvJitLink,ptxCompiler,nvrtc");
  EXPECT_THAT(text({"--target", "sm_90", "--as", "ptx"}), HasSubstr("no figures: no assembler of PTX was found"));
  EXPECT_THAT(text({"--target", "sm_90", "--as", "cuda"}), AllOf(HasSubstr("no figures: "), HasSubstr("__global__")));
  expect_refused({"--target", "sm_90", "--as", "sass"}, "--as sass: no assembler of PTX was found", 3);
}

TEST_F(Emit, SassIsWhatTheDisassemblerSays) {
  if (json({"--target", "sm_90", "--as", "ptx"})["kernels"][0].contains("no_figures")) GTEST_SKIP() << "no assembler";
  std::filesystem::create_directories(w.path("cuda/bin"));
  const Environment home("FUSEC_CUDA_HOME", w.path("cuda"));
  const auto script = [&](const std::string& body) {
    std::filesystem::permissions(w.file("cuda/bin/nvdisasm", "#!/bin/sh\n" + body), std::filesystem::perms::owner_all);
  };
  script("echo \"$1\"; head -c 4 \"$2\" | tail -c 3; echo; head -c 70000 /dev/zero | tr '\\0' x; echo; echo end\n");
  EXPECT_THAT(text({"--target", "sm_90", "--as", "sass"}),
              AllOf(StartsWith("// kernel row_softmax"), HasSubstr(" registers and "), HasSubstr("\n-c\nELF\n"),
                    HasSubstr("x\nend\n")));
  script("exit 3\n");
  expect_refused({"--target", "sm_90", "--as", "sass"}, "cuda/bin/nvdisasm failed: exit code 3", 4);
}

// Lines of instructions alone.
std::vector<std::string> instructions(const std::string& text, const std::string& comment) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find(comment), line.size()));
    line.resize(line.find_last_not_of(" \t") + 1);
    if (line.size() > 1 && line[0] == '\t' && line[1] != '.') out.push_back(line);
  }
  return out;
}

// Numbers are those of the text that --lowered prints, and the code is the same.
TEST_F(Emit, LinesOfTheKernelStandBesideItsCode) {
  struct Case {
    const char *target, *form, *comment;
  };
  for (const Case& c : {Case{"x86-64-v3", "asm", "#"}, Case{"sm_90", "ptx", "//"}}) {
    const std::vector<std::string> base = {"--target", c.target, "--codegen", "llvm"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), base.begin(), base.end());
      return more;
    };
    const nlohmann::json plain = json(with({"--as", c.form}))["kernels"].at(0);
    const nlohmann::json lined = json(with({"--as", c.form, "--lines"}))["kernels"].at(0);
    EXPECT_EQ(plain["parts"], lined["parts"]) << c.form;
    EXPECT_EQ(instructions(plain["text"], c.comment), instructions(lined["text"], c.comment)) << c.form;
    EXPECT_THAT(std::string(lined["text"]), Not(HasSubstr("\t.loc\t")));
    std::istringstream lowered(text(with({"--lowered"})));
    int number = 1, found = 0, loads = 0;
    for (std::string line; std::getline(lowered, line); ++number) {
      line.erase(0, line.find_first_not_of(' '));
      const bool is_there = std::string(lined["text"])
                                .find("\t" + std::string(c.comment) + " " + std::to_string(number) + ": " + line +
                                      "\n") != std::string::npos;
      found += is_there;
      loads += is_there && line.find(" = load ") != std::string::npos;
    }
    EXPECT_GT(found, 5) << c.form;
    EXPECT_GT(loads, 0) << c.form;
  }
}

TEST_F(Emit, LinesOfLlvmAndSass) {
  for (const char* target : {"x86-64-v3", "sm_90"}) {
    const std::string lined = text({"--target", target, "--as", "llvm", "--lines"});
    EXPECT_THAT(lined, ContainsRegex("\n  ; [0-9]+: v[0-9]+: f32[.0-9]* = load ")) << target;
    EXPECT_THAT(lined, AllOf(Not(HasSubstr("!dbg")), Not(HasSubstr("!DI")))) << target;
  }
  if (json({"--target", "sm_90", "--as", "ptx"})["kernels"][0].contains("no_figures")) GTEST_SKIP() << "no assembler";
  std::filesystem::create_directories(w.path("cuda/bin"));
  const Environment home("FUSEC_CUDA_HOME", w.path("cuda"));
  std::filesystem::permissions(
      w.file("cuda/bin/nvdisasm",
             "#!/bin/sh\necho \"$1 $2\"; grep -q debug_line \"$3\" && echo has lines\n"
             "printf '\\t//## File \"/kernel\", line 1\\n a ;\\n\\t//## File \"/kernel\", line 1\\n b ;\\n'\n"
             "printf '\\t//## File \"/kernel\", line 9999\\n c ;\\n'\n"),
      std::filesystem::perms::owner_all);
  EXPECT_THAT(text({"--target", "sm_90", "--as", "sass", "--codegen", "llvm", "--lines"}),
              ContainsRegex("\n-c -g\nhas lines\n\t// 1: kernel @row_softmax[^\n]*\n a ;\n b ;\n c ;\n"));
}

TEST_F(Emit, NodesChooseKernels) {
  const auto kernels = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"--no-fusion", "--as", "asm", "--target", "x86-64-v3", "--json"};
    line.insert(line.end(), more.begin(), more.end());
    std::vector<std::string> names;
    const Outcome outcome = emit(line, kTwoOps);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json all = outcome.json();
    for (const auto& kernel : all["kernels"]) names.push_back(kernel["kernel"]);
    return names;
  };
  EXPECT_THAT(kernels({}), SizeIs(2));
  EXPECT_THAT(kernels({"--node", "second"}), testing::ElementsAre(StartsWith("pointwise_exp")));
  EXPECT_THAT(kernels({"--kernel", "k0"}), testing::ElementsAre(StartsWith("pointwise_relu")));
}

TEST_F(Emit, Refusals) {
  expect_refused({"--target", "sm_90", "--as", "asm"}, "--as asm: code for sm_90 is printed as cuda, llvm, ptx, sass");
  expect_refused({"--target", "x86-64-v3", "--as", "ptx"}, "--as ptx: code for x86-64-v3 is printed as llvm, asm");
  expect_refused({"--target", "sm_90", "--as", "fortran"}, "is printed as cuda, llvm, ptx, sass");
  expect_refused({"--target", "sm_90", "--as", "cuda", "--codegen", "llvm"},
                 "--as cuda is not what --codegen llvm makes");
  expect_refused({"--target", "sm_90", "--as", "llvm", "--codegen", "nvrtc"},
                 "--as llvm is not what --codegen nvrtc makes");
  expect_refused({"--optimized"}, "--optimized needs --as llvm");
  expect_refused({"--target", "x86-64-v3", "--as", "llvm", "--optimized"}, "--optimized is for --as llvm on a GPU");
  expect_refused({"--as", "llvm", "--lowered"}, "--lowered prints the kernel, --as its code");
  expect_refused({"--lines"}, "--lines needs --as with asm, llvm, ptx or sass");
  expect_refused({"--target", "sm_90", "--as", "cuda", "--lines"}, "--lines needs --as");
  expect_refused({"--node", "third"}, "--node third: no generated kernel has a node of this name");
}

}  // namespace
}  // namespace fusec::tool_test
