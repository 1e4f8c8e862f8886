// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if FUSEC_WITH_CUDA

#include <cstdlib>
#include <filesystem>
#include <set>

#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {
namespace {

namespace fs = std::filesystem;

ConvSpec a_spec() {
  ConvSpec spec;
  spec.in = {DType::f16, {1, 8, 5, 5}, {200, 1, 40, 8}};
  spec.filter = {DType::f16, {4, 8, 3, 3}, {72, 1, 24, 8}};
  spec.out = {DType::f16, {1, 4, 3, 3}, {36, 1, 12, 4}};
  spec.window = {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  spec.epilogues = {{spec.out}, {std::nullopt}};
  return spec;
}

TEST(CudnnPlanCache, KeepsPlansOfOneSpecDeviceAndVersion) {
  std::string dir = (fs::temp_directory_path() / "fusec-plans-XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  Options options;
  options.cache_dir = dir;
  const auto cache = CudnnPlanCache::open(options, "a GPU", "91900");
  ASSERT_NE(cache, nullptr);
  const ConvSpec spec = a_spec();
  EXPECT_FALSE(cache->load(to_text(spec)));
  const StoredPlan plan{"eng1_k2=3", std::string("text\n\0more", 10)};
  cache->store(to_text(spec), plan);
  const auto again = CudnnPlanCache::open(options, "a GPU", "91900")->load(to_text(spec));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->name, plan.name);
  EXPECT_EQ(again->text, plan.text);
  ConvSpec refused = spec;
  refused.in.alignment = 2;
  cache->store(to_text(refused), {"two\nlines", ""});
  EXPECT_EQ(cache->load(to_text(refused))->name, "two lines");
  EXPECT_EQ(cache->load(to_text(refused))->text, "");
  EXPECT_FALSE(CudnnPlanCache::open(options, "another GPU", "91900")->load(to_text(spec)));
  EXPECT_FALSE(CudnnPlanCache::open(options, "a GPU", "91901")->load(to_text(spec)));
  std::vector<ConvSpec> others(10, spec);
  others[0].in.alignment = 8, others[1].filter.strides[0] = 80, others[2].out.dims[0] = 2,
  others[3].window.before = {1, 1};
  others[4].epilogues.pop_back(), others[5].epilogues.emplace_back(),
      others[6].tf32 = true, others[7].workspace_limit = 1, others[8].plan = "eng2", others[9].exact = true;
  for (const ConvSpec& other : others) EXPECT_FALSE(cache->load(to_text(other)));
  fs::remove_all(dir);
}

TEST(CudnnPlanCache, SpecsOfAttentionDiffer) {
  AttentionSpec spec;
  spec.query = spec.key = spec.value = spec.out = {DType::f16, {1, 2, 8, 16}, {256, 128, 16, 1}};
  std::vector<AttentionSpec> all(9, spec);
  all[1].query.strides[0] = 512, all[2].key.dims[1] = 1, all[3].value.alignment = 8, all[4].out.strides[1] = 16;
  all[5].mask = spec.query, all[6].scale = 0.5, all[7].workspace_limit = 1, all[8].causal = true;
  std::set<std::string> texts;
  for (const AttentionSpec& one : all) texts.insert(to_text(one));
  EXPECT_EQ(texts.size(), all.size());
}

TEST(CudnnPlanCache, IsAbsentWithoutACacheOrAName) {
  Options options;
  EXPECT_EQ(CudnnPlanCache::open(options, "", "91900"), nullptr);
  options.use_cache = false;
  EXPECT_EQ(CudnnPlanCache::open(options, "a GPU", "91900"), nullptr);
}

}  // namespace
}  // namespace fusec::runtime::cudnn

#endif
