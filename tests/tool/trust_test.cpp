// SPDX-License-Identifier: Apache-2.0
// What the command takes for a model and for a package, and whom it trusts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/sanitized.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kSeconds = 20;  // a command that waits for ever ends with code 124

constexpr const char* kGraph = R"(graph @main(%x: f32[N, 8]) {
  %0 = constant f32[8] {random 1}
  %1 = add %x, %0: f32[N, 8]
  return %1 as "y"
}
)";
constexpr const char* kPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIBA0CvTYOCPHz4m4kcVXTaERyXTpvtkK87bD1Bv1C1Yx\n-----END PRIVATE "
    "KEY-----\n";
constexpr const char* kPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAtXTWfl99kWy4/QQjrdqDgz4qkjQVSTOsw2nUWOv5i2s=\n-----END PUBLIC "
    "KEY-----\n";
constexpr const char* kOtherPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPN/7A+yyXcbCd6AHEnH58nWpNV0uRlOz7vXkoGGZIpA=\n-----END PUBLIC "
    "KEY-----\n";

class Trust : public testing::Test {
 protected:
  Trust() : umask_(umask(022)) {}
  ~Trust() override { umask(umask_); }

  // Every command that takes a model, with that file as it.
  static std::vector<std::vector<std::string>> commands(const std::string& model, const std::string& out) {
    std::vector<std::vector<std::string>> lines;
    for (const char* name : {"import", "optimize", "partition", "lower", "select", "emit", "bind", "explain", "graph",
                             "inspect", "run", "bench", "verify", "compile", "tune", "materialize"}) {
      lines.push_back({name, model, "--device", "cpu"});
      if (lines.back()[0] == "materialize") lines.back() = {"materialize", model, "-o", out + ".onnx"};
    }
    lines.push_back({"compile", model, "-o", out + ".fsc"});
#if FUSEC_WITH_ONNX
    lines.push_back({"reduce", model});
#endif
    return lines;
  }
  void expect_refused(const std::string& model, const std::string& why) {
    for (const auto& line : testing_support::sampled(commands(model, w.path("out")))) {
      const Outcome outcome = w.fusec(line, kSeconds);
      EXPECT_EQ(outcome.code, 2) << line[0] << ": " << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(why)) << line[0];
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << line[0] << ": " << outcome.err;
    }
    EXPECT_FALSE(fs::exists(w.path("out.onnx")) || fs::exists(w.path("out.fsc")));
  }
  void expect(const std::vector<std::string>& arguments, int code, const std::string& what) {
    const Outcome outcome = w.fusec(arguments, kSeconds);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    if (code == 0) return;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  std::string compiled(const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = {"compile",      w.file("add.fir", kGraph), "-o", w.path("m.fsc"), "--target",
                                     "cpu:x86-64-v2"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = w.fusec(line, kSeconds);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return w.path("m.fsc");
  }

  mode_t umask_;
  Workplace w;
};

TEST_F(Trust, WhatIsNoFileIsOneErrorAtOnce) {
  for (const char* ending : {".onnx", ".fir", ".fsc"}) {
    const std::string pipe = w.path(std::string("pipe") + ending), device = w.path(std::string("device") + ending);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink("/dev/zero", device);
    expect_refused(pipe, "it is not a file but a FIFO");
    expect_refused(device, "it is not a file but a device");
    if (ending != std::string(".fsc")) expect({"bench", "--patterns", pipe}, 2, "there is no .onnx file in it");
  }
}

TEST_F(Trust, FoldersAreNoModels) {
  const std::string folder = w.path("folder.onnx"), package = w.path("folder.fsc");
  fs::create_directory(folder);
  fs::create_directory(package);
  for (const std::string& path : {folder, package}) {
    for (const char* command : {"import", "run", "bench", "inspect", "verify", "compile", "explain"}) {
      expect({command, path}, 2, "it is not a file but a folder");
    }
  }
}

TEST_F(Trust, APackageRunsUnderItsNameAlone) {
  const std::string package = compiled();
  expect({"run", package}, 0, "");
  for (const char* name : {"m.onnx", "m.fir", "m.bin"}) {
    fs::copy_file(package, w.path(name));
    expect_refused(w.path(name), "its name does not end in .fsc");
  }
}

TEST_F(Trust, AModelIsNotCalledLikeAPackage) {
  const std::string model = w.file("graph.fsc", kGraph);
  for (const char* command : {"import", "verify", "compile", "explain", "tune", "materialize", "emit"}) {
    expect({command, model}, 2, command == std::string("materialize") ? "needs -o" : "does not begin with FUSECPKG");
  }
  for (const char* command : {"run", "bench", "inspect"})
    expect({command, w.file("long.fsc", std::string(300, 'x'))}, 3, "it is no package");
  expect({"compile", w.file("add.fir", kGraph), "-o", w.path("m.onnx")}, 2, "must end in .fsc");
}

TEST_F(Trust, PackagesThatOthersMayWriteNeedAWord) {
  const std::string package = compiled();
  ASSERT_EQ(chmod(package.c_str(), 0666), 0);
  for (const char* command : {"run", "bench", "inspect"}) {
    expect({command, package}, 2, "it may be written by other users");
    expect({command, package, "--trust"}, 0, "");
  }
  const std::string model = w.file("add.fir", kGraph);
  expect({"run", model, "--trust"}, 2, "is a model, which is data");
  expect({"run", model, "--verify-key", w.file("key.pub.pem", kPublic)}, 2, "is a model, which is data");
}

TEST_F(Trust, Signatures) {
  const std::string key = w.file("key.pem", kPrivate), ours = w.file("key.pub.pem", kPublic),
                    theirs = w.file("b.pub.pem", kOtherPublic);
  const std::string model = w.file("add.fir", kGraph);
  expect({"compile", model, "--sign", key}, 2, "add -o FILE.fsc");
  expect({"compile", model, "-o", w.path("m.fsc"), "--sign", w.path("none.pem")}, 2, "while reading the key");
  const Outcome outcome =
      w.fusec({"compile", model, "-o", w.path("m.fsc"), "--target", "cpu:x86-64-v2", "--sign", key}, kSeconds);
  if (outcome.code == 3) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string package = w.path("m.fsc");
  ASSERT_EQ(chmod(package.c_str(), 0666), 0);
  for (const char* command : {"run", "bench", "inspect"}) {
    expect({command, package, "--verify-key", ours}, 0, "");
    expect({command, package, "--verify-key", theirs}, 2, "it is signed by the key b574d67e");
    expect({command, package, "--verify-key", key}, 2, "openssl pkey -in KEY -pubout");
    expect({command, package}, 2, "it may be written by other users");
  }
  const auto inspected = w.fusec({"inspect", package, "--trust", "--json"}, kSeconds).json();
  EXPECT_EQ(inspected["package"]["signed_by"], "b574d67e5f7d916cb8fd0423adda83833e2a9234154933acc369d458ebf98b6b");
  expect({"run", compiled(), "--verify-key", ours}, 2, "it is not signed");
}

}  // namespace
}  // namespace fusec::tool_test
