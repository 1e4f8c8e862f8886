// SPDX-License-Identifier: Apache-2.0
// Options by key.
#include "fusec/options.h"

#include <gtest/gtest.h>

#include <set>

namespace fusec {
namespace {

TEST(OptionKeys, have_distinct_names_and_helps) {
  std::set<std::string> names, helps;
  for (const OptionKey& key : option_keys()) {
    EXPECT_TRUE(names.insert(key.key).second) << key.key;
    EXPECT_TRUE(helps.insert(key.help).second) << key.key;
    EXPECT_STRNE(key.accepts, "") << key.key;
  }
}

TEST(OptionKeys, take_their_own_defaults_and_change_nothing) {
  const Options fresh;
  Options options;
  for (const OptionKey& key : option_keys()) {
    if (std::string_view(key.initial).empty()) continue;
    EXPECT_TRUE(set_option(options, key.key, key.initial).ok()) << key.key;
  }
  EXPECT_EQ(options.numerics, fresh.numerics);
  EXPECT_EQ(options.threads, fresh.threads);
  EXPECT_EQ(options.use_cache, fresh.use_cache);
  EXPECT_EQ(options.cache_limit, fresh.cache_limit);
  EXPECT_EQ(options.fuse, fresh.fuse);
  EXPECT_EQ(options.use_library, fresh.use_library);
  EXPECT_EQ(options.device, fresh.device);
  EXPECT_EQ(options.codegen, fresh.codegen);
  EXPECT_EQ(options.specialize, fresh.specialize);
  EXPECT_EQ(options.precision, fresh.precision);
  EXPECT_EQ(options.tf32, fresh.tf32);
  EXPECT_EQ(options.batch_invariant, fresh.batch_invariant);
  EXPECT_EQ(options.cuda_graph, fresh.cuda_graph);
  EXPECT_EQ(options.workspace_limit, fresh.workspace_limit);
  EXPECT_EQ(options.strategy, fresh.strategy);
}

TEST(OptionKeys, set_the_members_that_they_are_for) {
  Options o;
  for (const auto& [key, value] : {std::pair{"device", "cuda:1"},
                                   {"target", "sm_90"},
                                   {"threads", "3"},
                                   {"numerics", "exact"},
                                   {"precision", "bf16"},
                                   {"keep-f32", "*/norm/*"},
                                   {"no-library", "true"},
                                   {"batch-invariant", "1"},
                                   {"no-fusion", "1"},
                                   {"codegen", "nvrtc"},
                                   {"compile-limit", "1.5"},
                                   {"disable-pass", "a"},
                                   {"disable-pass", "b"},
                                   {"replaceable-weights", "w"},
                                   {"replaceable-weights", "*"},
                                   {"cache-dir", "/x"},
                                   {"shared-cache-dir", "/s"},
                                   {"cache-server", "redis://me:secret@cache:7000/2?expire=1d"},
                                   {"cache-limit", "500M"},
                                   {"no-cache", "true"},
                                   {"tf32", "true"},
                                   {"workspace-limit", "0.5"},
                                   {"tuning-db", "t.sqlite"},
                                   {"no-cuda-graph", "true"},
                                   {"specialize", "background"},
                                   {"tune", "quick"}}) {
    ASSERT_TRUE(set_option(o, key, value).ok()) << key;
  }
  EXPECT_EQ(o.device, "cuda:1");
  EXPECT_EQ(o.target, "sm_90");
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.numerics, Numerics::exact);
  EXPECT_EQ(o.precision, DType::bf16);
  EXPECT_EQ(o.keep_f32, (std::vector<std::string>{"*/norm/*"}));
  EXPECT_FALSE(o.use_library);
  EXPECT_TRUE(o.batch_invariant);
  EXPECT_FALSE(o.fuse);
  EXPECT_EQ(o.codegen, Codegen::nvrtc);
  EXPECT_EQ(o.compile_seconds, 1.5);
  EXPECT_EQ(o.disabled_passes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.replaceable_weights, (std::vector<std::string>{"w", "*"}));
  EXPECT_EQ(o.cache_dir, "/x");
  EXPECT_EQ(o.shared_cache_dir, "/s");
  EXPECT_EQ(o.cache_server, "redis://me:secret@cache:7000/2?expire=1d");
  EXPECT_EQ(o.cache_limit, int64_t{500} << 20);
  EXPECT_FALSE(o.use_cache);
  EXPECT_TRUE(o.tf32);
  EXPECT_EQ(o.workspace_limit, 512 << 10);
  EXPECT_EQ(o.tuning_db, "t.sqlite");
  EXPECT_FALSE(o.cuda_graph);
  EXPECT_EQ(o.specialize, Specialize::background);
  EXPECT_EQ(o.strategy, Strategy::profile);
  EXPECT_TRUE(o.quick_tuning);
  EXPECT_GT(o.tuning_seconds, 0);
}

TEST(OptionKeys, refuse_what_they_do_not_accept_and_say_what_they_do) {
  for (const auto& [key, value, says] : {std::tuple{"numerics", "sloppy", "numerics sloppy is not one of precise,"},
                                         {"tf32", "yes", "tf32 yes is not one of true, false"},
                                         {"threads", "-1", "threads is negative"},
                                         {"threads", "two", "threads is an integer"},
                                         {"threads", "2x", "threads is an integer"},
                                         {"workspace-limit", "nan", "a number of MiB"},
                                         {"compile-limit", "-1", "a number of seconds"},
                                         {"cache-server", "http://x", "begins with redis:// or unix://"},
                                         {"cache-limit", "2T", "cache-limit '2T' is no size"},
                                         {"device", "gpu", "device gpu is not one of cpu, cuda"},
                                         {"precision", "f8", "is not one of f32, f16, bf16"},
                                         {"speed", "high", "there is no option 'speed'; there are device,"}}) {
    Options options;
    const Status status = set_option(options, key, value);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << key;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace fusec
