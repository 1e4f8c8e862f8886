// SPDX-License-Identifier: Apache-2.0
// What the commands say of mistakes: each text once, as one line with its exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/environment.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Environment;

constexpr const char* kAnyRows =
    "graph @main(%x: f32[N, 4]) {\n"
    "  %0 = relu %x: f32[N, 4]\n"
    "  return %0 as \"y\"\n"
    "}\n";
constexpr const char* kTwoRows =
    "graph @main(%x: f32[2, 4]) {\n"
    "  %0 = relu %x: f32[2, 4]\n"
    "  return %0 as \"y\"\n"
    "}\n";

struct Mistake {
  std::vector<std::string> words;
  std::string text;
  int code = 2;
};

void expect_told(const Workplace& w, const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = w.fusec(mistake.words);
    EXPECT_EQ(outcome.code, mistake.code) << mistake.text << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(mistake.text));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Errors, OfCommonFlags) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kAnyRows), fixed = w.file("fixed.fir", kTwoRows);
  expect_told(w, {
                     {{"run", relu, "--tune", "quick", "--strategy", "heuristic"},
                      "--tune is a --strategy profile, not heuristic"},
                     {{"run", relu, "--batch-invariant", "--tune", "quick"}, "--batch-invariant looks at no measured"},
                     {{"tune", relu, "--batch-invariant"}, "--batch-invariant looks at no measured times"},
                     {{"run", relu, "--tune", "slow"}, "--tune slow is not one of quick, full"},
                     {{"run", relu, "--strategy", "luck"}, "--strategy luck is not one of"},
                     {{"run", relu, "--specialize", "soon"}, "--specialize soon is not one of off, now, background"},
                     {{"run", relu, "--precision", "f8"}, "--precision f8 is not one of"},
                     {{"run", relu, "--target", "x86-64-v2,x86-64-v3"},
                      "several --target: only compile -o takes more than one"},
                     {{"run", relu, "--threads", "-1"}, "--threads is negative"},
                     {{"run", relu, "--dump", relu + "/dump"}, "relu.fir/dump cannot be made: Not a directory"},
                     {{"run", relu, "--input", "zeros"}, "--input 'zeros' is not NAME=VALUE"},
                     {{"verify", relu, "--batch", "one"}, "--batch: 'one' is no extent"},
                     {{"verify", fixed, "--device", "cpu", "--batch", "3"}, "no input's first axis is a free symbol"},
                 });
}

TEST(Errors, OfCommands) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kAnyRows), package = w.path("relu.fsc");
  std::filesystem::create_directories(w.path("empty"));
  std::filesystem::create_directories(w.path("cases/one"));
  w.file("cases/one/model.onnx", "");
  ASSERT_EQ(w.fusec({"compile", relu, "-o", package}).code, 0);
  expect_told(
      w, {
             {{"accuracy", "--op", "expo"}, "--op: there is no scalar op 'expo'"},
             {{"accuracy", "--op", "exp", "--dtype", "f33"}, "--dtype: there is no type 'f33'"},
             {{"accuracy", "--samples", "0"}, "--samples wants a count of at least 1"},
             {{"bench", relu, "--library-sum", "--device", "cuda:0"},
              "--library-sum measures the CPU; add --device cpu",
              3},
             {{"bench", relu, "--models", relu}, "--models is for --against FILE and --save FILE"},
             {{"bench", relu, "--save", w.path("f.json")}, "--against and --save need --patterns DIR or --models DIR"},
             {{"bench", "--patterns", package}, "a package is benched alone"},
             {{"bench", "--patterns", w.path("empty")}, "there is no .onnx file in it"},
             {{"conformance", w.path("cases"), "--engine", "steam"}, "--engine steam is not one of"},
             {{"conformance", w.path("cases"), "--engine", "evaluator", "--rtol", "-1"},
              "--rtol and --atol are not negative, --time-limit is more than 0"},
             {{"conformance", w.path("empty")}, "holds no folder with a model.onnx"},
             {{"conformance", w.path("absent")}, "No such file"},
             {{"conformance", w.path("cases"), "--only", "two"}, "no case has 'two' in its name"},
             {{"explain", relu, "--node", "conv"}, "--node conv: no step holds a node of this name"},
             {{"emit", relu, "--kernel", "k9"}, "--kernel k9: there are pointwise_relu_f32_"},
             {{"graph", relu, "-o", "y.png"}, "the name must end in .dot or .svg"},
             {{"graph", relu, "-o", w.path("absent/y.dot")}, "absent/y.dot' cannot be written"},
             {{"materialize", "model.onnx"}, "materialize needs -o FILE"},
             {{"optimize"}, "optimize needs a model"},
             {{"optimize", relu, "--disable-pass", "magic"}, "there is no pass 'magic'"},
             {{"optimize", package}, "is a package, compiled already"},
             {{"tune"}, "tune needs a model, or databases to --merge"},
             {{"tune", relu, "--time-limit", "-1"}, "--time-limit is a number of seconds"},
             {{"verify", relu, "--device", "cpu", "--samples", "-1"}, "--samples wants a count of at least 1"},
             {{"verify", relu, "--device", "cpu", "--repeat", "often"}, "--repeat"},
             {{"run", package, "--evaluator"}, "a package has no graph to evaluate"},
         });
}

TEST(Errors, OfTheProgramDot) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kAnyRows);
  std::filesystem::create_directories(w.path("bin"));
  const Environment path("PATH", w.path("bin"));
  const std::vector<std::string> draw = {"graph", relu, "-o", w.path("y.svg")};
  expect_told(w, {{draw, "dot (package graphviz) cannot be started; '" + w.path("y.dot") + "' holds the drawing", 4}});
  EXPECT_THAT(read_text(w.path("y.dot")), StartsWith("digraph"));
  std::filesystem::permissions(w.file("bin/dot", "#!/bin/sh\nexit 3\n"), std::filesystem::perms::owner_all);
  expect_told(w, {{draw, "dot failed on '" + w.path("y.dot") + "': exit code 3", 4}});
}

TEST(Errors, OfACacheWithoutAFolder) {
  const Workplace w;
  const Environment xdg("XDG_CACHE_HOME", ""), home("HOME", "");
  const Outcome outcome = w.fusec({"cache", "stats"}, 0, "FUSEC_CACHE_DIR=");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "fusec: invalid_argument: there is no cache folder: HOME is not set; give --cache-dir DIR\n");
}

TEST(Errors, OfTensorFiles) {
  const Workplace w;
  const std::string relu = w.file("relu.fir", kAnyRows);
  const std::string magic("\x93NUMPY", 6);
  const auto npy = [&](const std::string& header) {
    return magic + std::string("\x01\x00", 2) + static_cast<char>(header.size()) + '\0' + header;
  };
  const std::pair<std::string, std::string> files[] = {
      {"text", "it does not begin with"},
      {magic + std::string("\x09\x00", 2), "its format version is not 1, 2 or 3"},
      {magic + std::string("\x02\x00\xff\xff\xff\x7f", 6), "its header is longer than 64 KiB"},
      {magic + std::string("\x01\x00\x40\x00", 4), "its header is cut off"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': 4, }"), "its shape is not a tuple of extents"},
      {npy("{'descr': '<x9', 'fortran_order': False, 'shape': (4,), }"), "is not known"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }"), "16 bytes of data are stated, 0 are there"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"), "passes 63 bits of bytes"},
  };
  for (const auto& [bytes, text] : files) {
    const std::string file = w.file("x.npy", bytes);
    expect_told(w, {{{"run", relu, "--device", "cpu", "--input", "x=@" + file}, text}});
  }
  std::filesystem::create_directories(w.path("data"));
  w.file("data/input_0.pb", "\xff\xff\xff");
  expect_told(w, {{{"verify", relu, "--device", "cpu", "--reference", w.path("data")}, "is no ONNX TensorProto"}});
}

}  // namespace
}  // namespace fusec::tool_test
