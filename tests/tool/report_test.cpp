// SPDX-License-Identifier: Apache-2.0
// fusec report: its data, the page, and what differs between two of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kReported =
    "graph @main(%x: f32[N, 8], %w: f32[8, 8]) {\n"
    "  %0 = matmul %x, %w {transpose_a = 0, transpose_b = 0}: f32[N, 8]\n"
    "  %1 = reduce_sum %0 {axes = [1]}: f32[N]\n"
    "  %2 = exp %1: f32[N]\n"
    "  return %2 as \"</script><b>\"\n"
    "}\n";

class Report : public testing::Test {
 protected:
  json data(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "report", model_, "--device", "cpu", "--shape", "N=4", "-o", place_.path("r.json"), "--no-times"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place_.fusec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(read_text(place_.path("r.json")));
  }
  Workplace place_;
  const std::string model_ = place_.file("m.fir", kReported);
};

TEST_F(Report, TellsStepsEdgesAndMemory) {
  const json report = data();
  ASSERT_EQ(report["steps"].size(), 2u);
  const json &product = report["steps"][0], &kernel = report["steps"][1];
  EXPECT_EQ(product["kind"], "library");
  EXPECT_EQ(product["operations"], 2 * 4 * 8 * 8);
  EXPECT_EQ(product["written_bytes"], 4 * 8 * 4);
  EXPECT_EQ(kernel["kind"], "generated");
  EXPECT_EQ(kernel["nodes"].size(), 2u);
  EXPECT_EQ(kernel["read_bytes"], 4 * 8 * 4);
  EXPECT_EQ(kernel["not_fused"].size(), 1u);
  EXPECT_TRUE(report["kernels"].contains(kernel["implementation"].get<std::string>()));
  std::set<std::pair<int, int>> edges;
  for (const json& edge : report["edges"]) edges.insert({edge["from"].get<int>(), edge["to"].get<int>()});
  EXPECT_EQ(edges, (std::set<std::pair<int, int>>{{-1, 0}, {-2, 0}, {0, 1}}));
  ASSERT_EQ(report["memory"]["buffers"].size(), 1u);
  EXPECT_EQ(report["memory"]["buffers"][0]["bytes"], 4 * 8 * 4);
  EXPECT_EQ(report["memory"]["buffers"][0]["first"], 0);
  EXPECT_EQ(report["memory"]["buffers"][0]["last"], 1);
  EXPECT_EQ(report["launches"], 2);
  EXPECT_FALSE(report.contains("measured_us"));
}

TEST_F(Report, MeasuresAndReadsTimes) {
  const Outcome bench =
      place_.fusec({"bench", model_, "--device", "cpu", "--shape", "N=4", "--runs", "3", "--steps", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  const json report = data({"--times", place_.file("times.json", bench.out)});
  EXPECT_DOUBLE_EQ(report["measured_us"].get<double>(), 1e3 * bench.json()["median_ms"].get<double>());
  EXPECT_DOUBLE_EQ(report["steps"][1]["us"].get<double>(), bench.json()["steps"][1]["us"].get<double>());
  const Outcome measured =
      place_.fusec({"report", model_, "--device", "cpu", "--duration", "0.01", "-o", place_.path("m.json"), "--json"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_GT(json::parse(read_text(place_.path("m.json")))["measured_us"].get<double>(), 0);
}

TEST_F(Report, LeavesOutTimesOfOtherSteps) {
  const json report = data({"--times", place_.file("times.json", R"({"median_ms": 1, "steps": [{"us": 5}]})")});
  EXPECT_FALSE(report["steps"][0].contains("us"));
  EXPECT_THAT(report["notes"][0].get<std::string>(), HasSubstr("has 1 steps, this compile 2"));
}

TEST_F(Report, RefusesFilesOfOtherKinds) {
  const auto refused = [&](const std::vector<std::string>& more, const char* text) {
    std::vector<std::string> arguments = {"report", model_, "--device", "cpu", "--no-times"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place_.fusec(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refused({"-o", "r.txt"}, "must end in .html or .json");
  refused({"--times", place_.file("a.json", "[1]")}, "it is not what");
  refused({"--times", place_.file("b.json", R"({"median_ms": 1, "steps": [{}]})")}, "a step has no time");
  refused({"--times", place_.path("none.json")}, "cannot be read");
  refused({"--compare", place_.file("c.json", "{")}, "it is no JSON");
  refused({"--compare", place_.file("d.json", "{}")}, "it is no report");
  refused({"-o", place_.path("no/such/folder.html")}, "cannot be written");
}

TEST_F(Report, PageHoldsEverythingAndNamesCannotBreakOut) {
  const Outcome outcome =
      place_.fusec({"report", model_, "--device", "cpu", "--no-times", "-o", place_.path("r.html")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_text(place_.path("r.html"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cb>"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("href=")));
  EXPECT_THAT(page, Not(HasSubstr("/*data*/")));
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 2u);
}

TEST_F(Report, ComparesWithAnEarlierOne) {
  data();
  const Outcome same = place_.fusec({"report", model_, "--device", "cpu", "--shape", "N=4", "--no-times", "--json",
                                     "--compare", place_.path("r.json"), "-o", place_.path("n.html")});
  ASSERT_EQ(same.code, 0) << same.err;
  const json few = same.json();
  for (const json& change : few["changes"]) EXPECT_EQ(change["what"], "compile_ms");
  const Outcome unfused =
      place_.fusec({"report", model_, "--device", "cpu", "--shape", "N=4", "--no-times", "--no-fusion", "--json",
                    "--compare", place_.path("r.json"), "-o", place_.path("n.html")});
  ASSERT_EQ(unfused.code, 0) << unfused.err;
  std::set<std::string> seen;
  const json many = unfused.json();
  for (const json& change : many["changes"])
    seen.insert(change.contains("implementation") ? change["implementation"].get<std::string>()
                                                  : change["what"].get<std::string>());
  EXPECT_TRUE(seen.contains("new") && seen.contains("gone") && seen.contains("launches")) << unfused.out;
  EXPECT_THAT(read_text(place_.path("n.html")), HasSubstr("\"changes\":["));
}

}  // namespace
}  // namespace fusec::tool_test
