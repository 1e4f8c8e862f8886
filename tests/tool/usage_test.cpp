// SPDX-License-Identifier: Apache-2.0
// Help, exit codes, and errors of one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kRelu =
    "graph @main(%x: f32[N, 4]) {\n"
    "  %0 = relu %x: f32[N, 4]\n"
    "  return %0 as \"y\"\n"
    "}\n";

void expect_one_line(const Outcome& outcome, int code, const std::string& what) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("fusec: "));
  EXPECT_THAT(outcome.err, HasSubstr(what));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(Usage, EveryCommandHasHelpWithExamples) {
  const Workplace w;
  for (const char* command : {"run",       "bench",   "compile", "verify", "inspect",     "import",  "optimize",
                              "partition", "lower",   "select",  "emit",   "bind",        "explain", "graph",
                              "report",    "profile", "advise",  "ops",    "materialize", "cache",   "doctor"}) {
    const Outcome help = w.fusec({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("fusec ") + command));
    EXPECT_THAT(help.out, HasSubstr("Examples:"));
    EXPECT_THAT(help.out, HasSubstr("--json"));
    EXPECT_EQ(help.err, "");
  }
}

TEST(Usage, MistakesOfTheCommandLineAreTwo) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu);
  expect_one_line(w.fusec({}), 2, "--help");
  expect_one_line(w.fusec({"frobnicate"}), 2, "frobnicate");
  expect_one_line(w.fusec({"inspect"}), 2, "model");
  expect_one_line(w.fusec({"inspect", relu, "--frobnicate"}), 2, "--frobnicate");
  expect_one_line(w.fusec({"inspect", w.path("absent.onnx")}), 2, "absent.onnx");
  expect_one_line(w.fusec({"inspect", w.path("absent.fir")}), 2, "absent.fir");
  expect_one_line(w.fusec({"inspect", relu, "--numerics", "sloppy"}), 2, "precise");
  expect_one_line(w.fusec({"inspect", relu, "--shape", "x=2x5"}), 2, "given is [2, 5]");
  expect_one_line(w.fusec({"inspect", relu, "--shape", "z=2x4"}), 2, "inputs: x; symbols: N");
  expect_one_line(w.fusec({"inspect", relu, "--shape", "x=2xfour"}), 2, "'four'");
  expect_one_line(w.fusec({"run", relu, "--input", "x=random:one"}), 2, "random:one");
  expect_one_line(w.fusec({"run", relu, "--input", "z=zeros"}), 2, "it has: x");
  expect_one_line(w.fusec({"run", relu, "--input", "x=@" + w.path("absent.npy")}), 2, "absent.npy");
  expect_one_line(w.fusec({"optimize", relu, "--passes", "frobnicate"}), 2, "frobnicate");
  expect_one_line(w.fusec({"bench"}), 2, "--patterns");
  expect_one_line(w.fusec({"cache", "frobnicate"}), 2, "ls, stats, verify, gc, clear");
  expect_one_line(w.fusec({"cache", "gc", "--max-size", "1T"}), 2, "1T");
  expect_one_line(w.fusec({"run", relu, "--cache-limit", "2T"}), 2, "--cache-limit '2T'");
  const std::string model = std::string(FUSEC_SOURCE_DIR) + "/tests/models/squeezenet1_1.onnx";
  std::filesystem::create_directory(w.path("folder"));
  expect_one_line(w.fusec({"materialize", model, "--random-weights", "1", "-o", w.path("folder")}), 2,
                  "Is a directory");
  expect_one_line(w.fusec({"materialize", model, "--random-weights", "1", "-o", w.path("absent/m.onnx")}), 2,
                  "cannot create");
}

TEST(Usage, ModelsThatCannotBeReadAreThree) {
  const Workplace w;
  expect_one_line(w.fusec({"inspect", w.file("bad.fir", "graph @main( {")}), 3, "line 1");
  expect_one_line(w.fusec({"inspect", w.file("bad.onnx", "not a model")}), 3, "bad.onnx");
}

TEST(Usage, StagesOfAGpuNeedNone) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu);
  for (const char* device : {"", "cpu"}) {
    std::vector<std::string> words = {"partition", relu, "--target", "sm_90"};
    if (*device != 0) words.insert(words.end(), {"--device", device});
    EXPECT_THAT(w.fusec(words).out, HasSubstr("relu %x"));
  }
  expect_one_line(w.fusec({"run", relu, "--target", "sm_90", "--device", "cpu"}), 2,
                  "target sm_90 is a GPU's; the device is cpu");
}

TEST(Usage, WordsAboutGpusAreChecked) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu);
  expect_one_line(w.fusec({"run", relu, "--device", "gpu"}), 2, "--device gpu is not one of cpu, cuda");
  expect_one_line(w.fusec({"run", relu, "--codegen", "gcc"}), 2, "--codegen gcc is not one of auto, nvrtc, llvm");
  expect_one_line(w.fusec({"run", relu, "--workspace-limit", "-1"}), 2, "--workspace-limit");
  expect_one_line(w.fusec({"verify", relu, "--device", "cpu", "--reference", "cpu"}), 2, "--reference cpu");
}

TEST(Usage, ACompileEndsAtItsLimit) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu);
  for (const char* command : {"compile", "run", "lower", "inspect"})
    expect_one_line(w.fusec({command, relu, "--device", "cpu", "--compile-limit", "0"}), 2,
                    "limit of 0 s and was ended in stage optimize");
  expect_one_line(w.fusec({"compile", relu, "--compile-limit", "0", "-o", w.path("x.fsc")}), 2, "--compile-limit");
  EXPECT_FALSE(std::filesystem::exists(w.path("x.fsc")));
  EXPECT_EQ(w.fusec({"compile", relu, "--device", "cpu", "--compile-limit", "1e6"}).code, 0);
  expect_one_line(w.fusec({"compile", relu, "--compile-limit", "-1"}), 2, "at least 0");
}

TEST(Usage, WithoutLibrariesProductsAreGeneratedCode) {
  const Workplace w;
  const std::string product = w.file("product.fir",
                                     "graph @main(%x: f32[8, 8], %y: f32[8, 8]) {\n"
                                     "  %0 = matmul %x, %y {transpose_a = 0, transpose_b = 0}: f32[8, 8]\n"
                                     "  return %0 as \"z\"\n"
                                     "}\n");
  const Outcome partition = w.fusec({"partition", product, "--no-library", "--target", "cuda:sm_90"});
  EXPECT_EQ(partition.code, 0);
  EXPECT_EQ(partition.out.find("matmul"), std::string::npos) << partition.out;
  const std::string window = w.file("window.fir",
                                    "graph @main(%x: f32[1, 8, 4], %w: f32[6, 4, K]) {\n"
                                    "  %0 = conv %x, %w {strides = [1], pads = [0, 0], dilations = [1], groups = 1, "
                                    "layout = \"last\"}: f32[1, 9 - K, 6]\n"
                                    "  return %0 as \"z\"\n"
                                    "}\n");
  expect_one_line(w.fusec({"compile", window, "--no-library", "--target", "cuda:sm_90", "-o", w.path("x.fsc")}), 3,
                  "'conv' whose window is not known");
  EXPECT_EQ(w.fusec({"compile", product, "--no-library", "-o", w.path("y.fsc")}).code, 0);
}

// Each of these would change nothing.
TEST(Usage, FlagsWithoutEffectAreRefused) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu), package = w.path("relu.fsc");
  for (const char* command : {"import", "partition", "lower", "select", "emit", "graph"}) {
    expect_one_line(w.fusec({command, relu, "--shape", "N=2"}), 2, "--shape");
    expect_one_line(w.fusec({command, relu, "--strategy", "profile"}), 2, "--strategy");
    expect_one_line(w.fusec({command, relu, "--no-cache"}), 2, "--no-cache");
  }
  expect_one_line(w.fusec({"compile", relu, "--shape", "N=2"}), 2, "--shape");
  expect_one_line(w.fusec({"compile", relu, "--tune", "quick"}), 2, "--tune");
  expect_one_line(w.fusec({"tune", relu, "--strategy", "profile"}), 2, "--strategy");
  expect_one_line(w.fusec({"accuracy", "--random-weights", "1"}), 2, "--random-weights");
  expect_one_line(w.fusec({"doctor", "--tf32"}), 2, "--tf32");
  expect_one_line(w.fusec({"conformance", "node", "--input", "x=zeros"}), 2, "--input");
  expect_one_line(w.fusec({"conformance", "node", "--brief"}), 2, "--brief is for --markdown");
  expect_one_line(w.fusec({"optimize", relu, "--passes", "share_nodes", "--bisect"}), 2, "--bisect");
  expect_one_line(w.fusec({"optimize", relu, "--passes", "share_nodes", "--disable-pass", "share_nodes"}), 2,
                  "--disable-pass");
  const std::vector<std::pair<std::vector<std::string>, std::string>> benches = {
      {{relu, "--cycles"}, "--cycles is for --patterns DIR alone"},
      {{relu, "--rotate-mb", "5"}, "--rotate-mb is for --library-sum"},
      {{relu, "--commit", "abc"}, "--commit is for --save FILE"},
      {{"--patterns", relu, "--batch", "1"}, "--batch is for one model"},
      {{"--patterns", relu, "--save", w.path("f.json"), "--shape", "N=1"}, "--shape is for one model, or --patterns"},
      {{"--patterns", relu, "--library-sum"}, "--library-sum is for one model"},
      {{"--patterns", relu, "--save", w.path("f.json"), "--steps"}, "--steps is for a model"},
  };
  for (const auto& [words, text] : benches) {
    std::vector<std::string> line = {"bench"};
    line.insert(line.end(), words.begin(), words.end());
    expect_one_line(w.fusec(line), 2, text);
  }
  ASSERT_EQ(w.fusec({"compile", relu, "-o", package}).code, 0);
  const std::vector<std::vector<std::string>> fixed = {{"--no-fusion"},
                                                       {"--no-library"},
                                                       {"--random-weights", "1"},
                                                       {"--external-root", w.path("")},
                                                       {"--fix", "N=1"},
                                                       {"--range", "N=1:"},
                                                       {"--constant", "x=1"},
                                                       {"--disable-pass", "share_nodes"},
                                                       {"--dump", w.path("dump")},
                                                       {"--compile-limit", "9"}};
  for (const std::vector<std::string>& flag : fixed) {
    std::vector<std::string> line = {"run", package};
    line.insert(line.end(), flag.begin(), flag.end());
    expect_one_line(w.fusec(line), 2, flag[0] + " changes nothing of '" + package + "'");
  }
}

TEST(Usage, VerboseTellsHowKernelsCameToBe) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kRelu);
  for (const char* command : {"run", "verify"}) {
    const Outcome told = w.fusec({command, relu, "--device", "cpu", "-v"});
    EXPECT_EQ(told.code, 0);
    EXPECT_THAT(told.err, HasSubstr("kernels: "));
  }
}

TEST(Usage, WhatStdoutDoesNotTakeIsFour) {
  for (const char* command : {"ops", "ops --json", "--help"}) {
    const int state = std::system((std::string(FUSEC_TOOL) + " " + command + " >/dev/full 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(state), 4) << command;
  }
}

TEST(Usage, MissingDevicesAreFour) {
  const Workplace w;
  expect_one_line(w.fusec({"run", w.file("relu.fir", kRelu), "--device", "cuda:99"}), 4, "cuda:99");
}

TEST(Usage, TextOfTestsIsRead) {
  const Workplace w;
  const std::string test = w.file("test.fir", std::string("test roundtrip\n") + kRelu + "====\nanything");
  EXPECT_THAT(w.fusec({"import", test}).out, HasSubstr("relu %x"));
}

// Without fusec-compiler beside it, as where the runtime alone is installed.
TEST(Usage, AloneItTellsOfPackages) {
  namespace fs = std::filesystem;
  const Workplace w;
  const fs::path folder = w.path("alone"), tool = FUSEC_TOOL;
  fs::create_directories(folder / "bin");
  fs::copy_file(tool, folder / "bin/fusec");
  fs::create_directory_symlink(tool.parent_path().parent_path() / "lib", folder / "lib");
  const auto run = [&](const std::string& arguments) {
    const int state = std::system(
        ((folder / "bin/fusec").string() + " " + arguments + " >" + w.path("out") + " 2>" + w.path("err")).c_str());
    return Outcome{WIFEXITED(state) ? WEXITSTATUS(state) : -1, read_text(w.path("out")), read_text(w.path("err"))};
  };
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0) << help.err;
  for (const char* command : {"run", "bench", "profile", "inspect"}) EXPECT_THAT(help.out, HasSubstr(command));
  EXPECT_THAT(help.out, testing::Not(HasSubstr("verify")));
  EXPECT_EQ(run("--version").code, 0);
  EXPECT_EQ(run("").code, 2);
  expect_one_line(run("verify x.onnx"), 4,
                  "Without it fusec runs, benches, profiles and inspects packages (.fsc) only");
}

}  // namespace
}  // namespace fusec::tool_test
