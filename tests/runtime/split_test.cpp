// SPDX-License-Identifier: Apache-2.0
// A region that measured times take apart: planted times say that its two parts are faster than the fused kernel. The
// parts run in its place and give the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/select/select.h"
#include "ir/graph/model_internal.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/plan/bind.h"
#include "runtime/run/runner.h"

namespace fusec::runtime {
namespace {

constexpr const char* kGraph = R"(graph @main(%x: f32[256, 4096]) {
  %0 = gelu %x: f32[256, 4096]
  %1 = reduce_max %0 {axes = [1]}: f32[256]
  %2 = reshape %1 {shape = [256, 1]}: f32[256, 1]
  %3 = sub %0, %2: f32[256, 4096]
  return %3 as "y"
}
)";

class Split : public ::testing::Test {
 protected:
  Split() {
    options_.use_cache = false;
    fused_ = stages({}, Listing::all);
    const auto& candidates = variant(fused_).candidates;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].steps.size() == 2) split_ = i;
  }

  ir::Program stages(const compiler::TuningData& tuning, Listing listing) const {
    const ir::Graph graph = *ir::parse_graph(kGraph);
    auto made = run_stages(graph, target_, options_, Stage::select, {}, tuning, listing);
    EXPECT_TRUE(made.ok()) << made.status().str();
    return made->program;
  }
  static const ir::Variant& variant(const ir::Program& program) { return program.slots.at(0).variants.at(0); }

  // Times by which the split takes so many microseconds and all others 100.
  compiler::TuningData plant(double us) const {
    compiler::TuningData tuning;
    const auto& candidates = variant(fused_).candidates;
    std::vector<int64_t> extents;
    for (const Dim& extent : std::get<ir::KernelStep>(candidates[0].steps[0].v).extents)
      extents.push_back(extent.value());
    auto& times = tuning.candidates[compiler::candidate_key(fused_, candidates[0])][extents];
    for (std::size_t i = 0; i < candidates.size(); ++i)
      times[compiler::candidate_key(fused_, candidates[i])] = {i == split_ ? us : 100, false};
    return tuning;
  }

  Tensor run(const ir::Program& program) const {
    KernelCounts counts;
    const auto artifacts = obtain_kernels(program, picked_kernels(program), target_, Codegen::automatic, nullptr, false,
                                          2, nullptr, counts);
    EXPECT_TRUE(artifacts.ok()) << artifacts.status().str();
    const auto loaded = link(program, *artifacts, {});
    EXPECT_TRUE(loaded.ok()) << loaded.status().str();
    const auto op = make_plan_op(*bind(*loaded, {}, target_.threads));
    EXPECT_TRUE(op.ok()) << op.status().str();
    Tensor x = *ir::random_tensor(DType::f32, {256, 4096}, 1);
    Tensor y = *Tensor::make(DType::f32, {256, 4096});
    void* args[] = {x.data(), y.data()};
    EXPECT_TRUE((*op)->run(args, nullptr, {}).ok());
    return y;
  }

  const Target target_ = *host_target({});
  Options options_;
  ir::Program fused_;
  std::size_t split_ = 0;
};

TEST_F(Split, IsTakenWhereMeasuredTimesSayThatItIsFaster) {
  ASSERT_GT(split_, 0U) << "no candidate has two kernels";
  EXPECT_EQ(variant(fused_).picked, 0);
  const ir::Program parts = stages(plant(50), Listing::needed);
  ASSERT_EQ(variant(parts).candidates[static_cast<std::size_t>(variant(parts).picked)].steps.size(), 2U);
  EXPECT_EQ(picked_kernels(parts).size(), 2U);
  const Tensor one = run(fused_), two = run(parts);
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.bytes()), 0);
  const ir::Program whole = stages(plant(99), Listing::needed);  // a difference that is noise
  EXPECT_EQ(variant(whole).picked, 0);
}

TEST_F(Split, IsTimedLikeOtherCandidates) {
  ASSERT_GT(split_, 0U);
  const auto works = list_kernel_work(fused_, {});
  ASSERT_EQ(works.size(), 1U);
  const auto& candidates = works[0].program.slots[0].variants[0].candidates;
  ASSERT_EQ(candidates.size(), variant(fused_).candidates.size());
  EXPECT_EQ(candidates[split_].steps.size(), 2U);
  EXPECT_EQ(compiler::candidate_key(works[0].program, candidates[split_]),
            compiler::candidate_key(fused_, variant(fused_).candidates[split_]));
  ir::Program alone = works[0].program;
  alone.slots[0].variants[0].picked = static_cast<int>(split_);
  const Tensor one = run(fused_), two = run(alone);
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.bytes()), 0);
}

}  // namespace
}  // namespace fusec::runtime
