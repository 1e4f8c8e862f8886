// SPDX-License-Identifier: Apache-2.0
// ONNX's own node cases by the evaluator and by compiled code. A case that import refuses counts as unsupported; no
// result may be wrong.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/import/node_case.h"

namespace fusec::importer {
namespace {

namespace fs = std::filesystem;

// Counts of one run over a group.
struct Counts {
  int passed = 0, given_constants = 0, unsupported = 0, wrong = 0;
  std::map<std::string, int> lacking;
};

Counts run_cases(const std::vector<fs::path>& folders, const Runner& runner) {
  Counts counts;
  for (const fs::path& folder : folders) {
    const Outcome outcome = run_case(folder, runner);
    counts.passed += outcome.kind == Outcome::passed;
    counts.given_constants += outcome.kind == Outcome::passed && outcome.given_constants;
    counts.unsupported += outcome.kind == Outcome::unsupported;
    counts.wrong += outcome.kind == Outcome::wrong;
    if (outcome.kind == Outcome::unsupported) ++counts.lacking[lacking(outcome.why)];
    if (outcome.kind == Outcome::wrong) ADD_FAILURE() << folder.filename().string() << ": " << outcome.why;
  }
  return counts;
}

std::string listed(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) text += (text.empty() ? "" : "; ") + what + " " + std::to_string(count);
  return text;
}

// `least_passed`: the count seen when a rule was last added: a case must not fall back to unsupported.
void run_group(const std::string& group, const Runner& runner, int least_passed) {
  const std::vector<fs::path> folders = node_cases(group);
  if (folders.empty()) GTEST_SKIP() << "no cases of " << group;
  const Counts counts = run_cases(folders, runner);
  std::printf("| %s | %s | %d | %d | %d | %d |\n", group.c_str(), runner.options ? "compiled" : "evaluator",
              counts.passed, counts.given_constants, counts.unsupported, counts.wrong);
  if (std::getenv("FUSEC_LIST_CASES") != nullptr) std::printf("lacking: %s\n", listed(counts.lacking).c_str());
  EXPECT_GE(counts.passed, least_passed);
}

TEST(NodeCases, Node) { run_group("node", {}, 723); }
TEST(NodeCases, PytorchConverted) { run_group("pytorch-converted", {}, 2); }
TEST(NodeCases, Simple) { run_group("simple", {}, 7); }

#if FUSEC_WITH_LLVM
// A kernel cache of its own, that goes with it: all cases share it, as the models of one user do.
struct CacheFolder {
  std::string path = (fs::temp_directory_path() / "fusec-cases-XXXXXX").string();
  CacheFolder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~CacheFolder() { fs::remove_all(path); }
};

Runner compiled(const CacheFolder& cache) {
  Options options;
  options.cache_dir = cache.path;
  return {options};
}

TEST(NodeCasesCompiled, Node) { run_group("node", compiled(CacheFolder()), 723); }
TEST(NodeCasesCompiled, PytorchConverted) { run_group("pytorch-converted", compiled(CacheFolder()), 2); }
TEST(NodeCasesCompiled, Simple) { run_group("simple", compiled(CacheFolder()), 7); }
#endif

}  // namespace
}  // namespace fusec::importer
