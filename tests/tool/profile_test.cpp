// SPDX-License-Identifier: Apache-2.0
// The table, the JSON and both kinds of timelines of `fusec profile`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kCentered =
    "graph @main(%x: f32[N, 64], %w: f32[64, 64]) {\n"
    "  %0 = matmul %x, %w {transpose_a = 0, transpose_b = 0}: f32[N, 64]\n"
    "  %1 = reduce_max %0 {axes = [1]}: f32[N]\n"
    "  %2 = reshape %1 {shape = [N, 1]}: f32[N, 1]\n"
    "  %3 = sub %0, %2: f32[N, 64]\n"
    "  return %3 as \"y\"\n"
    "}\n";

std::vector<std::string> profile(const std::string& model, std::vector<std::string> more) {
  more.insert(more.begin(), {"profile", model, "--device", "cpu", "--shape", "N=64", "--runs", "4"});
  return more;
}

TEST(Profile, TheJsonHasTheKeysThatScriptsRelyOn) {
  const Workplace w;
  const Outcome outcome = w.fusec(profile(w.file("m.fir", kCentered), {"--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json j = outcome.json();
  EXPECT_EQ(j["source"], "threads");
  EXPECT_EQ(j["runs"], 4);
  EXPECT_GT(j["measured_us"], 0);
  const double parts = j["sum_us"].get<double>() + j["copies_us"].get<double>() + j["gaps_us"].get<double>() +
                       j["host_us"].get<double>();
  EXPECT_NEAR(parts, j["traced_us"].get<double>(), 1e-6);
  EXPECT_NEAR(parts + j["unexplained_us"].get<double>(), j["measured_us"].get<double>(), 1e-6);
  EXPECT_EQ(j["device_us"], 0);
  ASSERT_EQ(j["launches"].size(), 2u);
  double sum = 0;
  for (const json& launch : j["launches"]) {
    for (const char* key : {"name", "kind", "origin", "us", "bytes", "gb_per_s", "predicted_us", "bound_us",
                            "registers", "spills", "start_us", "end_us", "gap_us", "track"})
      EXPECT_TRUE(launch.contains(key)) << key;
    sum += launch["us"].get<double>();
  }
  EXPECT_NEAR(sum, j["sum_us"].get<double>(), 1e-6);
  EXPECT_TRUE(j["launches"][1]["predicted_us"].is_number());
}

TEST(Profile, TheTableHasARowForWhatIsNoLaunch) {
  const Workplace w;
  const Outcome outcome = w.fusec(profile(w.file("m.fir", kCentered), {}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text :
       {"predicted", "between launches", "before the first launch", "unexplained", "a run without tracing takes"})
    EXPECT_THAT(outcome.out, HasSubstr(text));
}

TEST(Profile, SlicesOfAChromeTimelineLieOnTracksWithoutOverlap) {
  const Workplace w;
  ASSERT_EQ(w.fusec(profile(w.file("m.fir", kCentered), {"--trace", w.path("t.json")})).code, 0);
  const json trace = json::parse(read_text(w.path("t.json")));
  std::map<int, double> ends;
  std::map<int, std::string> tracks;
  std::map<int64_t, int> arrows;
  std::map<std::string, int> slices;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    const int track = event["tid"];
    if (phase == "M") {
      if (event["name"] == "thread_name") tracks[track] = event["args"]["name"];
    } else if (phase == "X") {
      EXPECT_GE(event["ts"].get<double>(), ends[track] - 1e-6) << event.dump();
      ends[track] = event["ts"].get<double>() + event["dur"].get<double>();
      EXPECT_GE(event["dur"].get<double>(), 0);
      ++slices[tracks.at(track)];
    } else {
      EXPECT_TRUE(phase == "s" || phase == "f") << phase;
      arrows[event["id"]] += phase == "s" ? 1 : 10;
    }
  }
  EXPECT_EQ(slices["runs"], 4);
  EXPECT_EQ(slices["launches"], 8);
  EXPECT_GE(slices["thread 0"], 4);
  EXPECT_EQ(arrows.size(), 4u);
  for (const auto& [id, ends_of_arrow] : arrows) EXPECT_EQ(ends_of_arrow, 11) << "one begin and one end";
}

// Counts the packets of a trace: a field 1 with a length each, up to the last byte.
TEST(Profile, APerfettoTimelineIsAListOfPackets) {
  const Workplace w;
  const std::string model = w.file("m.fir", kCentered);
  ASSERT_EQ(w.fusec(profile(model, {"--trace", w.path("t.pftrace")})).code, 0);
  const std::string bytes = read_text(w.path("t.pftrace"));
  std::size_t at = 0, packets = 0;
  while (at < bytes.size()) {
    ASSERT_EQ(bytes[at], '\x0a');
    std::size_t length = 0;
    int shift = 0;
    do length |= static_cast<std::size_t>(bytes[++at] & 0x7f) << shift, shift += 7;
    while (bytes[at] & 0x80);
    at += 1 + length;
    ++packets;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_GT(packets, 2u * (4 + 8));
  EXPECT_THAT(bytes, HasSubstr("m.fir"));
  ASSERT_EQ(w.fusec(profile(model, {"--trace", w.path("any"), "--format", "chrome"})).code, 0);
  EXPECT_TRUE(json::parse(read_text(w.path("any"))).contains("traceEvents"));
}

TEST(Profile, RefusesWhatItCannotDo) {
  const Workplace w;
  const std::string model = w.file("m.fir", kCentered);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    const Outcome outcome = w.fusec(profile(model, more));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refused({"--trace", w.path("t.txt")}, "a name ends in .json, .pftrace or .perfetto-trace");
  refused({"--trace", w.path("t.json"), "--format", "svg"}, "--format 'svg': chrome or perfetto");
  refused({"--format", "chrome"}, "--format is for --trace FILE");
  refused({"--trace", w.path("none/t.json")}, "none/t.json' cannot be written");
  const Outcome none = w.fusec({"profile", model, "--device", "cpu", "--runs", "-1"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--runs wants a count of at least 1"));
}

// One range for each stage of the compile and for each run, none inside of another.
TEST(Profile, AnInjectedToolIsToldOfStagesAndRuns) {
  const Workplace w;
  const std::string model = w.file("m.fir", kCentered), log = w.path("ranges");
  const std::string set = std::string("NVTX_INJECTION64_PATH=" FUSEC_FAKE_NVTX " FAKE_NVTX_LOG=") + log;
  ASSERT_EQ(w.fusec({"bench", model, "--device", "cpu", "--runs", "5", "--warmup", "0"}, 0, set).code, 0);
  std::istringstream lines(read_text(log));
  std::map<std::string, int> ranges;
  for (std::string line; std::getline(lines, line);) ++ranges[line];
  for (const char* stage : {"0 optimize", "0 partition", "0 lower", "0 select", "0 emit", "0 link"})
    EXPECT_EQ(ranges[stage], 1) << stage;
  EXPECT_GE(ranges["0 run"], 6) << "the first run, and five";
  EXPECT_EQ(w.fusec({"run", model, "--device", "cpu"}, 0, "NVTX_INJECTION64_PATH=/none.so").code, 0);
}

TEST(Profile, PackagesAreProfiledWithoutTheCompiler) {
  const Workplace w;
  ASSERT_EQ(w.fusec({"compile", w.file("m.fir", kCentered), "--device", "cpu", "-o", w.path("m.fsc")}).code, 0);
  const Outcome outcome = w.fusec(profile(w.path("m.fsc"), {"--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["launches"].size(), 2u);
}

}  // namespace
}  // namespace fusec::tool_test
