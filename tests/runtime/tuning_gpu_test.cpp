// SPDX-License-Identifier: Apache-2.0
// Tuning on a GPU that the fake driver plays.
#if FUSEC_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using runtime_test::FakeDriver;
using runtime_test::flat;
using runtime_test::ProgramBuilder;

class CountedOp final : public LibraryOp {
 public:
  CountedOp(std::string algorithm, int& runs) : algorithm_(std::move(algorithm)), runs_(runs) {}
  Status run(void* const* args, void* workspace, const ExecContext& context) const override {
    ++runs_;
    EXPECT_NE(context.stream, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace) % 256, 0u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reinterpret_cast<uintptr_t>(args[i]) % 256, 0u);
    EXPECT_EQ(static_cast<const float*>(args[1])[3], 4);  // the constant
    return algorithm_ == "fails" ? Status(StatusCode::device, "it fails to run") : Status();
  }
  std::size_t workspace_bytes() const override { return 100; }
  std::size_t limited_bytes() const override { return 80; }
  std::string implementation() const override { return algorithm_; }

 private:
  std::string algorithm_;
  int& runs_;
};

// "own", one that cannot be bound, one that fails, one that works.
class ChoosyLibrary final : public Library {
 public:
  std::string name() const override { return "choosy"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep&) const override { return std::nullopt; }
  std::vector<Algorithm> algorithms(const LibraryCall&) override {
    ++listings;
    return listed;
  }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    EXPECT_NE(FakeDriver::current(), nullptr);
    if (call.algorithm == "absent") return Status(StatusCode::unsupported, "it is absent");
    return std::unique_ptr<LibraryOp>(
        std::make_unique<CountedOp>(call.algorithm.empty() ? "own" : call.algorithm, runs));
  }
  std::vector<Algorithm> listed = {{"own"}, {"absent"}, {"fails"}, {"works", 100}};
  int listings = 0, runs = 0;
};

// A product of 4 with a constant, and a folder for the database.
class TuningOnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(dir_.data()), nullptr);
    options_.tuning_db = dir_ + "/t.sqlite";
    const ir::AllocId x = builder_.input("x"), w = builder_.constant({1, 2, 3, 4}), y = builder_.output("y", 1);
    ir::LibraryStep product;
    product.op = ir::TensorOp::matmul;
    product.attrs = {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}};
    product.args = {flat(x), flat(w), flat(y, 1)};
    product.args[2].shape.clear(), product.args[2].strides.clear();
    builder_.slot({ProgramBuilder::variant({}, {{product, "/fc"}})});
  }
  void TearDown() override { fs::remove_all(dir_); }

  Engine engine(const std::shared_ptr<ChoosyLibrary>& library) {
    return *gpu_engine(builder_, fake_, options_, {library});
  }
  static TuneReport tune_engine(const Engine& engine) {
    const EngineState& state = *engine.state();
    const ResolvedProgram resolved = *resolve(state.program(), {{"n", 4}});
    Result<TuneReport> report = tune(*state.loaded, resolved, 1, state.tuning(), {0, true});
    if (!report.ok()) throw std::runtime_error(report.status().str());
    return std::move(report).value();
  }
  // The algorithm that a plan has.
  std::string picked(const std::shared_ptr<ChoosyLibrary>& library) {
    return engine(library).plan(std::vector<TensorShape>{{4}})->steps.at(0).implementation;
  }

  std::string dir_ = (fs::temp_directory_path() / "fusec-tune-XXXXXX").string();
  FakeDriver fake_;
  ProgramBuilder builder_;
  Options options_;
};

TEST_F(TuningOnAGpu, TimesByEventsAndKeepsFailures) {
  for (const bool again : {false, true}) {
    const auto library = std::make_shared<ChoosyLibrary>();
    const Engine engine = this->engine(library);
    const TuneReport report = tune_engine(engine);
    EXPECT_EQ(report.measured, again ? 0 : 2);
    EXPECT_EQ(report.failed, again ? 0 : 2);
    EXPECT_EQ(report.reused, again ? 4 : 0);
    EXPECT_EQ(library->listings, again ? 0 : 1);
    EXPECT_EQ(library->runs > 0, !again);
    ASSERT_EQ(report.layers.size(), 1u);
    EXPECT_EQ(default_row(report.layers[0].rows)->algorithm, "own");
    std::vector<std::string> failures;
    for (const TuningRow& row : report.layers[0].rows) {
      if (row.failed()) failures.push_back(row.algorithm + ": " + row.failure);
    }
    EXPECT_THAT(failures, ::testing::UnorderedElementsAre("absent: it is absent", "fails: it fails to run"));
    EXPECT_THAT(engine.state()->tuning().scope(), ::testing::HasSubstr("; choosy 1"));
  }
  EXPECT_GT(fake_.count("cuEventElapsedTime"), 5);
}

TEST_F(TuningOnAGpu, OneMeasurementServesTwoWorkspaceLimits) {
  const auto library = std::make_shared<ChoosyLibrary>();
  std::vector<TuningRow> rows = tune_engine(engine(library)).layers[0].rows;
  {
    const auto database = TuningDatabase::open_to_write(*options_.tuning_db, [](const std::string&) {});
    for (TuningRow& row : rows) {
      row.workspace = row.algorithm == "works" ? 100 : 0;
      row.median_us = row.failed() ? 0 : row.algorithm == "works" ? 1 : 9;
      ASSERT_TRUE((*database)->put(row).ok());
    }
  }
  options_.strategy = Strategy::cached;
  EXPECT_EQ(picked(library), "works");
  options_.workspace_limit = 99;
  EXPECT_EQ(picked(library), "own");
  EXPECT_EQ(tune_engine(engine(library)).measured, 0);
  options_.workspace_limit = kMeasuredWorkspace + 1;  // more than was measured
  EXPECT_EQ(tune_engine(engine(library)).measured, 2);
}

// Constants that stay in the cache between runs are there in measurements, too, and the key says so.
TEST_F(TuningOnAGpu, ConstantsAreWarmWhereTheCacheHoldsTheModel) {
  const Engine engine = this->engine(std::make_shared<ChoosyLibrary>());
  EXPECT_THAT(tune_engine(engine).layers.at(0).call, ::testing::EndsWith(" warm"));
  const ir::Program& program = engine.state()->program();
  const ResolvedProgram resolved = *resolve(program, {{"n", 4}});
  const auto cached = [&](TargetKind kind, int64_t cache) {
    Target target;
    target.kind = kind;
    target.last_level_cache = cache;
    return keeps_constants_cached(program, resolved, Tuning(options_, target, [] { return std::string(); }));
  };
  constexpr int64_t kBytes = 16 + 2 * (16 + 4);  // the constant, and twice x and y
  EXPECT_TRUE(cached(TargetKind::cuda, kBytes));
  EXPECT_FALSE(cached(TargetKind::cuda, kBytes - 1));
  EXPECT_FALSE(cached(TargetKind::cpu, kBytes));
}

TEST_F(TuningOnAGpu, ReproducibleLeavesOutWhatIsNot) {
  const auto library = std::make_shared<ChoosyLibrary>();
  library->listed = {{"own", 0, false}, {"atomics", 0, false}, {"ordered"}};
  options_.strategy = Strategy::heuristic;
  EXPECT_EQ(picked(library), "own");
  options_.strategy = Strategy::reproducible;
  EXPECT_EQ(picked(library), "ordered");
  library->listed.pop_back();
  const Result<PlanStats> none = engine(library).plan(std::vector<TensorShape>{{4}});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().str(), ::testing::HasSubstr("no reproducible algorithm"));
}

}  // namespace
}  // namespace fusec::runtime
#endif
