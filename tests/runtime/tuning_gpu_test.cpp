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
    return {{"own"}, {"absent"}, {"fails"}, {"works", 100}};
  }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    EXPECT_NE(FakeDriver::current(), nullptr);
    if (call.algorithm == "absent") return Status(StatusCode::unsupported, "it is absent");
    return std::unique_ptr<LibraryOp>(
        std::make_unique<CountedOp>(call.algorithm.empty() ? "own" : call.algorithm, runs));
  }
  int listings = 0, runs = 0;
};

TEST(TuningOnAGpu, TimesByEventsAndKeepsFailures) {
  std::string dir = (fs::temp_directory_path() / "fusec-tune-XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  {
    FakeDriver fake;
    ProgramBuilder b;
    const ir::AllocId x = b.input("x"), w = b.constant({1, 2, 3, 4}), y = b.output("y", 1);
    ir::LibraryStep product;
    product.op = ir::TensorOp::matmul;
    product.attrs = {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}};
    product.args = {flat(x), flat(w), flat(y, 1)};
    product.args[2].shape.clear(), product.args[2].strides.clear();
    b.slot({ProgramBuilder::variant({}, {{product, "/fc"}})});
    Options options;
    options.tuning_db = dir + "/t.sqlite";
    for (const bool again : {false, true}) {
      const auto library = std::make_shared<ChoosyLibrary>();
      const Engine engine = *gpu_engine(b, fake, options, {library});
      const EngineState& state = *engine.state();
      const ResolvedProgram resolved = *resolve(state.program(), {{"n", 4}});
      const auto report = tune(*state.loaded, resolved, 1, state.tuning(), {0, true});
      ASSERT_TRUE(report.ok()) << report.status().str();
      EXPECT_EQ(report->measured, again ? 0 : 2);
      EXPECT_EQ(report->failed, again ? 0 : 2);
      EXPECT_EQ(report->reused, again ? 4 : 0);
      EXPECT_EQ(library->listings, again ? 0 : 1);
      EXPECT_EQ(library->runs > 0, !again);
      ASSERT_EQ(report->layers.size(), 1u);
      EXPECT_EQ(default_row(report->layers[0].rows)->algorithm, "own");
      std::vector<std::string> failures;
      for (const TuningRow& row : report->layers[0].rows) {
        if (row.failed()) failures.push_back(row.algorithm + ": " + row.failure);
      }
      EXPECT_THAT(failures, ::testing::UnorderedElementsAre("absent: it is absent", "fails: it fails to run"));
      EXPECT_THAT(state.tuning().scope(), ::testing::HasSubstr("; choosy 1"));
    }
    EXPECT_GT(fake.count("cuEventElapsedTime"), 5);
  }
  fs::remove_all(dir);
}

}  // namespace
}  // namespace fusec::runtime
#endif
