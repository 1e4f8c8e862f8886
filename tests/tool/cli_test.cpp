// SPDX-License-Identifier: Apache-2.0
// Flags from the environment and from a file, what the command says of itself, and how it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kCliRelu =
    "graph @main(%x: f32[N, 4]) {\n"
    "  %0 = relu %x: f32[N, 4]\n"
    "  return %0 as \"y\"\n"
    "}\n";

class Settings : public testing::Test {
 protected:
  // What --print-config says of a flag.
  std::string line(const std::string& key, std::vector<std::string> flags, const std::string& set = {}) const {
    flags.insert(flags.begin(), {"run", "--print-config"});
    const Outcome outcome = w.fusec(flags, 0, set);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::size_t at = outcome.out.find("\n" + key + " = ");
    if (at == std::string::npos) return "no " + key + " in " + outcome.out;
    return outcome.out.substr(at + 1, outcome.out.find('\n', at + 1) - at - 1);
  }
  Outcome run(std::vector<std::string> flags, const std::string& set = {}) const {
    flags.insert(flags.begin(), {"run", relu, "--device", "cpu"});
    return w.fusec(flags, 0, set);
  }
  const Workplace w;
  const std::string relu = w.file("relu.fir", kCliRelu);
};

TEST_F(Settings, TheCommandLineGoesFirstThenEnvironmentThenFile) {
  const std::string file = w.file("f.toml", "numerics = \"exact\"\n[run]\nthreads = 3\n[bench]\nthreads = 4\n");
  EXPECT_EQ(line("numerics", {}), "numerics = \"precise\"  # default");
  EXPECT_EQ(line("numerics", {"--config", file}), "numerics = \"exact\"  # config " + file);
  EXPECT_EQ(line("numerics", {}, "FUSEC_CONFIG=" + file), "numerics = \"exact\"  # config " + file);
  EXPECT_EQ(line("numerics", {"--config", file}, "FUSEC_NUMERICS=fast"),
            "numerics = \"fast\"  # environment FUSEC_NUMERICS");
  EXPECT_EQ(line("numerics", {"--config", file, "--numerics", "precise"}, "FUSEC_NUMERICS=fast"),
            "numerics = \"precise\"  # command line");
  EXPECT_EQ(line("threads", {"--config", file}), "threads = \"3\"  # config " + file) << "not that of [bench]";
  EXPECT_EQ(line("no-cache", {}, "FUSEC_NO_CACHE=1"), "no-cache = \"1\"  # environment FUSEC_NO_CACHE");
}

TEST_F(Settings, WhatIsSetTakesEffect) {
  EXPECT_EQ(run({"--json"}).json()["outputs"][0]["shape"][0], 1);
  EXPECT_EQ(run({"--json"}, "FUSEC_SHAPE=N=3").json()["outputs"][0]["shape"][0], 3);
  EXPECT_EQ(run({"--json"}, "FUSEC_SHAPE='N=3;x=3x4'").json()["outputs"][0]["shape"][0], 3);
  EXPECT_EQ(run({}, "FUSEC_JSON=true").json()["device"], "cpu");
  EXPECT_EQ(run({"--json"}, "FUSEC_SHAPE=").json()["outputs"][0]["shape"][0], 1) << "an empty variable is none";
  const std::string file = w.file("f.toml", "shape = [\"N=5\"]\njson = true\n");
  EXPECT_EQ(run({"--config", file}).json()["outputs"][0]["shape"][0], 5);
  EXPECT_EQ(run({"--config", w.file("g.toml", "numerics = \"\"\n")}).code, 0) << "nor is an empty value";
}

TEST_F(Settings, MistakesAreRefused) {
  const auto refused = [&](const Outcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(what));
  };
  refused(run({}, "FUSEC_THREADS=many"), "environment FUSEC_THREADS");
  refused(run({}, "FUSEC_NUMERICS=sloppy"), "sloppy is not one of precise");
  refused(run({"--config", w.path("absent.toml")}), "absent.toml");
  refused(run({"--config", w.file("a.toml", "frobnicate = 1\n")}), "'frobnicate' is no flag");
  refused(run({"--config", w.file("b.toml", "[frobnicate]\nthreads = 1\n")}), "[frobnicate] is no command");
  refused(run({"--config", w.file("c.toml", "config = \"d.toml\"\n")}), "'config' is no flag");
  EXPECT_EQ(run({"--config", w.file("d.toml", "samples = 2\n")}).code, 0) << "a flag of another command";
}

TEST_F(Settings, MisspelledVariablesAreWarnedOf) {
  const Outcome near = run({}, "FUSEC_THREDS=2");
  EXPECT_EQ(near.code, 0);
  EXPECT_THAT(near.err, HasSubstr("FUSEC_THREDS means nothing; is FUSEC_THREADS meant?"));
  EXPECT_EQ(run({"-q"}, "FUSEC_THREDS=2").err, "");
  EXPECT_EQ(run({}, "FUSEC_MY_OWN_FOLDER=x").err, "");
  EXPECT_EQ(run({}, "FUSEC_SAMPLES=2").err, "") << "a flag of another command";
  EXPECT_EQ(run({}, "FUSEC_JOBS=2").err, "") << "of ./dev";
}

TEST_F(Settings, TrustIsSaidEachTime) {
  EXPECT_THAT(run({}, "FUSEC_TRUST=1").err, HasSubstr("FUSEC_TRUST means nothing: give --trust with the command"));
  const Outcome file = run({"--config", w.file("t.toml", "trust = true\n")});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.err, HasSubstr("'trust' is no flag that a file can set"));
}

TEST_F(Settings, OlderVariablesKeepTheirMeaning) {
  const std::string file = w.file("f.toml", "cache-dir = \"" + w.path("other") + "\"\n");
  EXPECT_EQ(run({"--config", file}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(w.path("cache"))) << "FUSEC_CACHE_DIR goes before the file";
  EXPECT_FALSE(std::filesystem::exists(w.path("other")));
  EXPECT_THAT(line("cache-dir", {"--config", file}), HasSubstr("environment FUSEC_CACHE_DIR"));
}

TEST(Terminal, ColorsAreForTerminalsUnlessAskedFor) {
  const Workplace w;
  const std::vector<std::string> inspect = {"verify", w.file("relu.fir", kCliRelu), "--device", "cpu"};
  const auto with = [&](const std::string& flag, const std::string& set = {}) {
    std::vector<std::string> words = inspect;
    if (!flag.empty()) words.insert(words.end(), {"--color", flag});
    return w.fusec(words, 0, set);
  };
  EXPECT_THAT(with("").out, Not(HasSubstr("\033[")));
  EXPECT_THAT(with("never").out, Not(HasSubstr("\033[")));
  EXPECT_THAT(with("always").out, HasSubstr("\033[1m"));
  EXPECT_THAT(with("", "NO_COLOR=1").out, Not(HasSubstr("\033[")));
  EXPECT_THAT(with("pink").err, HasSubstr("--color pink is not one of auto, always, never"));
}

TEST(Reference, NamesEveryCommandAndFlag) {
  const Workplace w;
  const Outcome page = w.fusec({"reference", "markdown"}), man = w.fusec({"reference", "man"});
  EXPECT_EQ(page.code, 0);
  EXPECT_THAT(page.out, AllOf(HasSubstr("## fusec bench"), HasSubstr("| `--sessions INT` |"),
                              HasSubstr("`-q, --quiet`"), HasSubstr("fusec bench model.onnx --steps")));
  EXPECT_EQ(man.code, 0);
  EXPECT_THAT(man.out, AllOf(StartsWith(".TH FUSEC 1"), HasSubstr(".SS bench\n"), HasSubstr("\\-\\-sessions INT")));
  EXPECT_EQ(w.fusec({"reference", "html"}).code, 2);
}

// Through bash's own machinery: what it would offer for the words so far.
std::string completed(const Workplace& w, const std::vector<std::string>& words) {
  std::string line = "source '" + w.path("completion") + "'; COMP_WORDS=(";
  for (const std::string& word : words) line += "'" + word + "' ";
  line += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
          "; complete -p fusec >/dev/null && _fusec && echo \"${COMPREPLY[@]}\"";
  const std::string script = w.file("script", line + "\n");
  const int state = std::system(("bash '" + script + "' >'" + w.path("out") + "' 2>&1").c_str());
  EXPECT_EQ(state, 0) << read_text(w.path("out"));
  return read_text(w.path("out"));
}

TEST(Completion, OfBash) {
  const Workplace w;
  const Outcome script = w.fusec({"completion", "bash"});
  ASSERT_EQ(script.code, 0);
  w.file("completion", script.out);
  EXPECT_EQ(completed(w, {"fusec", "ben"}), "bench\n");
  EXPECT_THAT(completed(w, {"fusec", ""}), AllOf(HasSubstr("verify"), HasSubstr("completion")));
  EXPECT_EQ(completed(w, {"fusec", "bench", "--sess"}), "--sessions\n");
  EXPECT_EQ(completed(w, {"fusec", "run", "--sess"}), "\n") << "a flag of bench alone";
  EXPECT_EQ(completed(w, {"fusec", "run", "--numerics", "e"}), "exact\n");
  EXPECT_EQ(completed(w, {"fusec", "run", w.path("compl")}), w.path("completion") + "\n");
}

TEST(Completion, OfOtherShells) {
  const Workplace w;
  EXPECT_THAT(w.fusec({"completion", "zsh"}).out,
              AllOf(StartsWith("#compdef fusec"), HasSubstr("'bench:time a model")));
  EXPECT_THAT(
      w.fusec({"completion", "fish"}).out,
      HasSubstr("complete -c fusec -n '__fish_seen_subcommand_from run' -l numerics -x -a 'precise exact fast'"));
  EXPECT_EQ(w.fusec({"completion", "tcsh"}).code, 2);
}

TEST(ErrorPage, NamesEveryCode) {
  const std::string page = read_text(std::string(FUSEC_SOURCE_DIR) + "/docs/errors.md");
  for (const char* row : {"| `invalid_argument` | 2 |", "| `invalid_model` | 3 |", "| `unsupported` | 3 |",
                          "| `device` | 4 |", "| `out of memory` | 4 |", "| `compile_failed` | 70 |",
                          "| `cache` | none |", "| `internal` | 70 |", "| `cancelled` | 70 |"})
    EXPECT_THAT(page, HasSubstr(row));
}

}  // namespace
}  // namespace fusec::tool_test
