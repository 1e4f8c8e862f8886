// SPDX-License-Identifier: Apache-2.0
// Work that several processes and machines share: kernels and tuning in parts, a folder of both that is only read, and
// a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/tool/command.h"
#include "tests/tool/redis_server.h"

namespace fusec::tool_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kProcesses = 4;

// Products of different sizes with a kernel of its own behind each.
std::string make_layers(int count) {
  constexpr const char* kOps[] = {"erf", "sin", "cos", "floor"};
  std::string text = "graph @main(%x: f32[N, 16]) {\n";
  for (int i = 0; i < count; ++i) {
    const int from = 16 * (i + 1), to = from + 16;
    const std::string a = std::to_string(3 * i), b = std::to_string(3 * i + 1), c = std::to_string(3 * i + 2),
                      in = i == 0 ? "x" : std::to_string(3 * i - 1);
    text += "  %" + a + " = constant f32[" + std::to_string(from) + ", " + std::to_string(to) + "] {random 1}\n  %" +
            b + " = matmul %" + in + ", %" + a + " {transpose_a = 0, transpose_b = 0}: f32[N, " + std::to_string(to) +
            "]\n  %" + c + " = " + kOps[i % 4] + " %" + b + ": f32[N, " + std::to_string(to) + "]\n";
  }
  return text + "  return %" + std::to_string(3 * count - 1) + " as \"y\"\n}\n";
}

// The command with these arguments as each of several processes that Open MPI started, side by side.
std::vector<json> run_ranks(const std::function<std::vector<std::string>(int)>& arguments) {
  std::array<Workplace, kProcesses> places;
  std::vector<json> out(kProcesses);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kProcesses; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string set =
          "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + " OMPI_COMM_WORLD_SIZE=" + std::to_string(kProcesses);
      const Outcome outcome = places[static_cast<std::size_t>(rank)].fusec(arguments(rank), 0, set);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      if (outcome.code == 0) out[static_cast<std::size_t>(rank)] = outcome.json();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

int64_t sum(const std::vector<json>& documents, const char* member) {
  int64_t all = 0;
  for (const json& document : documents) all += document.value(member, int64_t{0});
  return all;
}

TEST(Machines, ProcessesSideBySideCompileEachKernelOnce) {
  const Workplace place;
  const std::string model = place.file("layers.fir", make_layers(8)), cache = place.path("common");
  const std::vector<std::string> compile = {"compile", model, "--json", "--target", "cpu:x86-64-v2,cpu:x86-64-v3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), compile.begin(), compile.end());
    return more;
  };
  const std::vector<json> parts = run_ranks([&](int) { return with({"--cache-dir", cache, "--shard", "auto"}); });
  const json alone = place.fusec(with({"-o", place.path("alone.fsc"), "--no-cache"})).json();
  int64_t kernels = 0;
  for (const json& one : alone["compiles"]) kernels += one["compiled_kernels"].get<int64_t>();
  EXPECT_GE(kernels, 6);
  EXPECT_EQ(sum(parts, "compiled_kernels"), kernels);
  EXPECT_EQ(sum(parts, "elsewhere"), (kProcesses - 1) * kernels);
  for (const json& part : parts) EXPECT_LT(part["compiled_kernels"], kernels);
  const json whole = place.fusec(with({"-o", place.path("whole.fsc"), "--cache-dir", cache})).json();
  for (const json& one : whole["compiles"]) EXPECT_EQ(one["compiled_kernels"], 0);
  EXPECT_EQ(read_text(place.path("whole.fsc")), read_text(place.path("alone.fsc")));
}

TEST(Machines, AShardFillsTheCacheOfThisMachineToo) {
  const Workplace place;
  const std::string model = place.file("layers.fir", make_layers(6));
  const std::vector<std::string> compile = {"compile", model, "--json", "--device", "cpu"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), compile.begin(), compile.end());
    return place.fusec(more);
  };
  EXPECT_GT(with({"--shard", "0/2"}).json()["compiled_kernels"], 0);
  EXPECT_EQ(with({"--shard", "0/2"}).json()["compiled_kernels"], 0);
  EXPECT_GT(with({"--shard", "1/2"}).json()["compiled_kernels"], 0);
  EXPECT_EQ(with({}).json()["compiled_kernels"], 0);
  const Outcome written = with({"--shard", "0/2", "-o", place.path("x.fsc")});
  EXPECT_EQ(written.code, 2);
  EXPECT_THAT(written.err, HasSubstr("--shard fills the kernel cache; leave out -o and --no-cache"));
  EXPECT_EQ(with({"--shard", "0/2", "--no-cache"}).code, 2);
  EXPECT_THAT(with({"--shard", "2/2"}).err, HasSubstr("there is no part 2 of 2"));
}

TEST(Machines, ProcessesSideBySideMeasureTheRowsOfOne) {
  const Workplace place;
  const std::string model = place.file("layers.fir", make_layers(6));
  const auto tune = [&](const std::string& database, std::vector<std::string> more) {
    more.insert(more.begin(), {"tune", model, "--batch", "8", "--quick", "--json", "--device", "cpu", "--threads", "1",
                               "--tuning-db", place.path(database)});
    return more;
  };
  const auto part = [](int rank) { return "part" + std::to_string(rank) + ".sqlite"; };
  const std::vector<json> parts = run_ranks([&](int rank) { return tune(part(rank), {"--shard", "auto"}); });
  const json alone = place.fusec(tune("alone.sqlite", {})).json();
  EXPECT_EQ(sum(parts, "measured"), alone["measured"].get<int64_t>());
  std::vector<std::string> merges;
  for (int rank = 0; rank < kProcesses; ++rank) merges.insert(merges.end(), {"--merge", place.path(part(rank))});
  EXPECT_EQ(place.fusec(tune("merged.sqlite", merges)).json()["measured"], 0);
  EXPECT_EQ(place.measured_rows("merged.sqlite"), place.measured_rows("alone.sqlite"));
  EXPECT_GE(place.measured_rows("alone.sqlite").size(), 6u);
}

// The other machine has a cache of its own, which stays empty.
TEST(Machines, ASharedFolderSparesAnotherMachineAllCompilesAndMeasurements) {
  const Workplace place;
  const std::string model = place.file("layers.fir", make_layers(4)), shared = place.path("first"),
                    own = place.path("second");
  const auto compile = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"compile", model, "--json", "--device", "cpu", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place.fusec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    return outcome.json();
  };
  const auto tune = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tune",   model,      "--batch", "8",         "--quick",
                                          "--json", "--device", "cpu",     "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place.fusec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  EXPECT_GT(tune({"--cache-dir", shared})["measured"], 0);
  (void)compile({"--cache-dir", shared});  // the picks of the times
  fs::permissions(shared, static_cast<fs::perms>(0755));
  const std::vector<std::string> other = {"--cache-dir", own, "--shared-cache-dir", shared};
  const json compiled = compile(other), tuned = tune(other);
  EXPECT_EQ(compiled["compiled_kernels"], 0) << compiled;
  EXPECT_GT(compiled["cached_kernels"], 0);
  EXPECT_EQ(tuned["measured"], 0);
  EXPECT_EQ(tuned["kernels"]["measured"], 0);
  EXPECT_GT(tuned["reused"], 0);
  EXPECT_EQ(place.fusec({"doctor", "--json", "--shared-cache-dir", shared}).json()["shared cache"], shared);
  for (const auto& item : fs::recursive_directory_iterator(own)) EXPECT_TRUE(item.is_directory()) << item.path();
}

// A product whose algorithms are measured, and a kernel whose candidates are.
constexpr char kMeasured[] =
    "graph @main(%x: f32[N, 64], %w: f32[N, 65536]) {\n"
    "  %0 = constant f32[64, 96] {random 1}\n"
    "  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[N, 96]\n"
    "  %2 = erf %1: f32[N, 96]\n"
    "  %3 = exp %w: f32[N, 65536]\n"
    "  return %2 as \"y\", %3 as \"z\"\n"
    "}\n";

// Commands that share a server, each machine with a cache of its own.
class ServedMachines : public testing::Test {
 protected:
  void SetUp() override {
    if (!server_.is_running()) GTEST_SKIP() << "redis-server is not installed";
    const json found = run("first", {"doctor"}, false);
    if (found["cache server"].get<std::string>().find("built without hiredis") != std::string::npos)
      GTEST_SKIP() << "built without hiredis";
  }
  json run(const std::string& machine, std::vector<std::string> arguments, bool silent = true) {
    arguments.insert(arguments.end(),
                     {"--json", "--device", "cpu", "--threads", "1", "--cache-dir", place_.path(machine)});
    const Outcome outcome = place_.fusec(arguments, 0, "FUSEC_CACHE_SERVER='" + server_.address() + "' " + secret_);
    err_ = outcome.err;
    if (silent) {
      EXPECT_THAT(err_, IsEmpty());
    }
    return outcome.json();
  }
  json compile(const std::string& machine, bool silent = true) { return run(machine, {"compile", model_}, silent); }
  json tune(const std::string& machine) { return run(machine, {"tune", model_, "--batch", "8", "--quick"}, false); }

  const Workplace place_;
  RedisServer server_{place_.path("redis")};
  const std::string model_ = place_.file("measured.fir", kMeasured);
  std::string secret_ = "FUSEC_CACHE_SECRET=0123456789abcdef", err_;
};

TEST_F(ServedMachines, SpareEachOtherAllCompilesAndMeasurements) {
  const json tuned_first = tune("first"), compiled_first = compile("first");
  EXPECT_GT(tuned_first["measured"], 0);
  EXPECT_GT(tuned_first["kernels"]["measured"], 0);
  const json compiled = compile("second"), tuned = tune("second");
  EXPECT_EQ(compiled["compiled_kernels"], 0) << compiled;
  EXPECT_EQ(compiled["server_kernels"], compiled["distinct_kernels"]);
  EXPECT_EQ(compiled["shared_kernels"], 0);
  EXPECT_EQ(tuned["measured"], 0);
  EXPECT_EQ(tuned["kernels"]["measured"], 0);
  EXPECT_GT(tuned["rows"]["server"], 0);
  EXPECT_EQ(tuned["rows"]["own"], 0);
  // The compile of before has stored them in the machine's own database.
  EXPECT_GT(tuned["kernels"]["rows"]["own"], 0);
  EXPECT_EQ(tuned["kernels"]["rows"]["server"], 0);
  const json again = compile("second");
  EXPECT_EQ(again["compiled_kernels"], 0);
  EXPECT_EQ(again["server_kernels"], 0);
  const json tuned_again = tune("second");
  EXPECT_EQ(tuned_again["rows"]["own"], tuned["rows"]["server"]);
  EXPECT_EQ(tuned_again["rows"]["server"], 0);
  const json stats = place_.fusec({"cache", "stats", "--json", "--cache-server", server_.address()}, 0, secret_).json();
  EXPECT_EQ(stats["server"]["answers"], true);
  EXPECT_GE(stats["server"]["keys"].get<int64_t>(), compiled["distinct_kernels"].get<int64_t>() + 2);
}

TEST_F(ServedMachines, GoOnAloneWhenTheServerIsGone) {
  const json first = compile("first");
  server_.stop();
  const json second = compile("second", false);
  EXPECT_EQ(second["compiled_kernels"], first["distinct_kernels"]);
  EXPECT_THAT(err_, HasSubstr("fusec: warning: the cache server " + server_.address() + " is not used fully"));
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  const json doctor = run("second", {"doctor"}, false);
  EXPECT_EQ(doctor["ok"], false);
  EXPECT_THAT(doctor["cache server"].get<std::string>(), HasSubstr("cannot connect"));
}

TEST_F(ServedMachines, TakeNothingOfAnotherSecret) {
  const json first = compile("first");
  secret_ = "FUSEC_CACHE_SECRET=fedcba9876543210";
  const json second = compile("second", false);
  EXPECT_EQ(second["compiled_kernels"], first["distinct_kernels"]);
  EXPECT_THAT(err_, HasSubstr("were not made with this FUSEC_CACHE_SECRET"));
}

}  // namespace
}  // namespace fusec::tool_test
