// SPDX-License-Identifier: Apache-2.0
// reduce: models are cut down as long as a command fails on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <csignal>
#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kModel = FUSEC_SOURCE_DIR "/tests/models/mobilenet_v3_small.onnx";

// Exit code 7 where the graph of a model has all these ops.
std::vector<std::string> fails_with(const std::vector<std::string>& ops) {
  std::string script = "g=$(" FUSEC_TOOL " import \"$0\" --random-weights 0) || exit 0; ";
  for (const std::string& op : ops) script += "case $g in *' = " + op + " '*) ;; *) exit 0 ;; esac; ";
  return {"--", "sh", "-c", script + "echo found; exit 7", "{}"};
}

Outcome reduce(const Workplace& w, std::vector<std::string> arguments, const std::vector<std::string>& command) {
  arguments.insert(arguments.begin(), {"reduce", kModel, "-o", w.path("small.onnx")});
  arguments.insert(arguments.end(), command.begin(), command.end());
  return w.fusec(arguments);
}

// The command that reduce runs sends the signal, so it comes while the files are there.
TEST(Reduce, ASignalLeavesNoTemporaries) {
  (void)std::signal(SIGINT, SIG_DFL);  // programs in the background are started with it ignored
  for (const auto& [signal, number] : {std::pair("INT", 2), std::pair("TERM", 15)}) {
    const Workplace w;
    std::filesystem::create_directory(w.path("tmp"));
    setenv("TMPDIR", w.path("tmp").c_str(), 1);
    const std::string script = "ls \"$0\" >" + w.path("seen") + "; kill -" + signal + " $PPID; exit 7";
    const Outcome run = reduce(w, {}, {"--", "sh", "-c", script, w.path("tmp"), "{}"});
    unsetenv("TMPDIR");
    EXPECT_EQ(run.code, 128 + number) << run.err;
    EXPECT_THAT(read_text(w.path("seen")), HasSubstr("fusec-reduce-"));
    EXPECT_TRUE(std::filesystem::is_empty(w.path("tmp")));
  }
}

TEST(Reduce, FindsTheOneNode) {
  const Workplace w;
  const Outcome run = reduce(w, {"--json"}, fails_with({"hard_swish"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["nodes"], 1);
  EXPECT_GT(run.json()["nodes_before"], 100);
  EXPECT_EQ(run.json()["fails_with"], "exit code 7");
  const std::string graph = read_text(w.path("small.fir"));
  EXPECT_THAT(graph, HasSubstr("hard_swish"));
  EXPECT_THAT(graph, Not(HasSubstr("conv")));
  EXPECT_EQ(w.fusec({"verify", w.path("small.fir")}).code, 0);
  EXPECT_EQ(w.fusec({"verify", w.path("small.onnx")}).code, 0);
}

TEST(Reduce, KeepsWhatIsNeededTogether) {
  const Workplace w;
  const Outcome run = reduce(w, {"--match", "found", "--json"}, fails_with({"conv", "hard_swish"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["nodes"], 2);
}

TEST(Reduce, ACommandThatSucceedsIsAnError) {
  const Workplace w;
  const Outcome run = reduce(w, {}, {"--", "true", "{}"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("succeeds"));
}

TEST(Reduce, AFailureWithoutTheTextToMatchIsAnError) {
  const Workplace w;
  const Outcome run = reduce(w, {"--match", "found"}, {"--", "false", "{}"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("the command's output lacks 'found' on the whole model"));
}

TEST(Reduce, AFailureOfTheFileAloneIsAnError) {
  const Workplace w;
  const Outcome run = reduce(w, {}, {"--", "sh", "-c", "test \"$0\" != \"$1\"", "{}", kModel});
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("the model fails no more once it is written anew"));
}

TEST(Reduce, ACommandWithoutPlaceForTheModelIsAnError) {
  const Workplace w;
  const Outcome run = reduce(w, {}, {"--", "false"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("{}"));
}

TEST(Reduce, AProgramThatIsNotThereIsAnError) {
  const Workplace w;
  EXPECT_EQ(reduce(w, {}, {"--", "no-such-program-here", "{}"}).code, 2);
}

}  // namespace
}  // namespace fusec::tool_test
