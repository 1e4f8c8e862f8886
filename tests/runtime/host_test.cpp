// SPDX-License-Identifier: Apache-2.0
// What a host gives to engines: a log, progress and cancelling, memory, threads; and pools of sessions.
#include "fusec/host.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "fusec/session_pool.h"
#include "fusec/stats.h"
#include "fusec/version.h"
#include "runtime/cache/artifact.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChannels = 64;

Tensor numbers(std::vector<int64_t> shape) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = static_cast<float>(i % 7) - 3;
  return t;
}

// Several kernels and a product, so that there are an arena, a library call and more than one task.
Model model() {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {Dim::symbol("n"), kChannels});
  const Var h = b.relu(b.matmul(x, b.constant(numbers({kChannels, kChannels}))));
  b.output("y", b.softmax(h, -1));
  b.output("s", b.reduce_sum(b.exp(x * 0.125), {1}));
  return *b.finish();
}

class HostTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-host-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    options_.cache_dir = name;
    options_.threads = 2;
  }
  void TearDown() override { fs::remove_all(*options_.cache_dir); }

  Engine must_compile() {
    Result<Engine> engine = Engine::compile(model(), options_);
    if (!engine.ok()) throw std::runtime_error(engine.status().str());
    return *std::move(engine);
  }
  static std::vector<Tensor> must_run(Session& session, int64_t n) {
    const std::vector<Tensor> inputs{numbers({n, kChannels})};
    Result<std::vector<Tensor>> outputs = session.run(inputs);
    if (!outputs.ok()) throw std::runtime_error(outputs.status().str());
    return *std::move(outputs);
  }
  std::vector<Tensor> expected(int64_t n) const {
    Options plain;
    plain.cache_dir = options_.cache_dir;
    plain.threads = 2;
    const Engine engine = *Engine::compile(model(), plain);
    Session session = *Session::create(engine);
    return must_run(session, n);
  }
  static void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].shape(), b[i].shape());
      EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].bytes()), 0) << "output " << i;
    }
  }

  Options options_;
};

TEST_F(HostTest, messages_have_severities) {
  std::mutex mutex;
  std::map<Severity, std::vector<std::string>> said;
  options_.on_log = [&](Severity severity, const std::string& text) {
    const std::lock_guard lock(mutex);
    said[severity].push_back(text);
  };
  must_compile();
  EXPECT_NE(said[Severity::info].at(0).find("compiled for cpu"), std::string::npos);
  EXPECT_FALSE(said[Severity::debug].empty());
  EXPECT_TRUE(said[Severity::warning].empty());
  const std::string folder = *options_.cache_dir;
  options_.cache_dir = "/dev/null/none";
  must_compile();
  EXPECT_FALSE(said[Severity::warning].empty());
  // on_warning takes warnings where it is set.
  std::vector<std::string> warnings;
  options_.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  said.clear();
  must_compile();
  options_.cache_dir = folder;
  EXPECT_FALSE(warnings.empty());
  EXPECT_TRUE(said[Severity::warning].empty());
  EXPECT_FALSE(said[Severity::info].empty());
}

TEST_F(HostTest, progress_is_told_by_stage_and_never_goes_back) {
  std::vector<std::pair<std::string, double>> told;
  options_.on_progress = [&](const char* stage, double done) {
    told.emplace_back(stage, done);
    return false;
  };
  must_compile();
  std::set<std::string> stages;
  std::map<std::string, double> last;
  for (const auto& [stage, done] : told) {
    stages.insert(stage);
    EXPECT_GE(done, 0);
    EXPECT_LE(done, 1);
    EXPECT_GE(done, last[stage]) << stage;
    last[stage] = done;
  }
  for (const char* stage : {"optimize", "lower", "emit", "link"}) EXPECT_TRUE(stages.contains(stage)) << stage;
  EXPECT_GT(last["optimize"], 0.5);
}

TEST_F(HostTest, a_compile_is_cancelled_at_any_point_and_started_again) {
  int asked = 0;
  options_.on_progress = [&](const char*, double) { return ++asked, false; };
  options_.use_cache = true;
  must_compile();
  const int points = asked;
  ASSERT_GT(points, 10);
  fs::remove_all(*options_.cache_dir);
  // Kernels of the first Engine are gone with it, so each compile makes them or finds them in the cache.
  for (int at = 1; at <= points; at += 3) {
    asked = 0;
    options_.on_progress = [&](const char*, double) { return ++asked >= at; };
    const Result<Engine> engine = Engine::compile(model(), options_);
    ASSERT_FALSE(engine.ok()) << at;
    EXPECT_EQ(engine.status().code(), StatusCode::cancelled) << engine.status().str();
    const std::string text = engine.status().str();
    EXPECT_EQ(text.find("in stage"), text.rfind("in stage")) << text << " names its stage once";
    EXPECT_NE(text.find("in stage"), std::string::npos) << text;
    EXPECT_EQ(asked, at) << "it was asked again after it had cancelled";
  }
  const auto cache = runtime::KernelCache::open(options_);
  ASSERT_NE(cache, nullptr);
  EXPECT_TRUE(cache->verify().empty());
  EXPECT_EQ(cache->stats().left_over, 0);
  options_.on_progress = nullptr;
  Session session = *Session::create(must_compile());
  expect_same(must_run(session, 5), expected(5));
}

TEST_F(HostTest, a_tuning_is_cancelled) {
  options_.strategy = Strategy::profile;
  options_.quick_tuning = true;
  bool tunes = false;
  options_.on_progress = [&](const char* stage, double) { return tunes = tunes || std::string(stage) == "tune"; };
  const Engine engine = must_compile();  // shapes are not known yet, so nothing is measured
  Session session = *Session::create(engine);
  const std::vector<Tensor> inputs{numbers({3, kChannels})};
  const Result<std::vector<Tensor>> outputs = session.run(inputs);
  if (!tunes) GTEST_SKIP() << "no library of this build has several algorithms";
  ASSERT_FALSE(outputs.ok());
  EXPECT_EQ(outputs.status().code(), StatusCode::cancelled);
}

struct CountingAllocator {
  std::mutex mutex;
  std::map<void*, int64_t> held;
  int64_t allocated = 0;
  int64_t refuse_from = INT64_MAX;  // bytes

  std::shared_ptr<const HostAllocator> hooks() {
    HostAllocator made;
    made.allocate = [this](const MemoryRequest& r) -> void* {
      EXPECT_EQ(r.device, Device{});
      EXPECT_EQ(r.stream, nullptr);
      EXPECT_GE(r.bytes, 1);
      const std::lock_guard lock(mutex);
      if (r.bytes >= refuse_from) return nullptr;
      void* const data =
          std::aligned_alloc(static_cast<std::size_t>(r.alignment),
                             static_cast<std::size_t>((r.bytes + r.alignment - 1) / r.alignment * r.alignment));
      std::memset(data, 0xff, static_cast<std::size_t>(r.bytes));
      held[data] = r.bytes;
      ++allocated;
      return data;
    };
    made.free = [this](void* memory, const Device&, void*) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(held.erase(memory), 1u);
      std::free(memory);
    };
    return std::make_shared<const HostAllocator>(std::move(made));
  }
};

TEST_F(HostTest, memory_of_runs_comes_from_the_host) {
  CountingAllocator memory;
  options_.allocator = memory.hooks();
  std::vector<Tensor> outputs;
  {
    Session session = *Session::create(must_compile());
    outputs = must_run(session, 100);
    EXPECT_GE(memory.allocated, 3);  // the arena and two outputs
    for (const Tensor& output : outputs) {
      EXPECT_TRUE(memory.held.contains(const_cast<void*>(output.data())));
    }
    const int64_t before = memory.allocated;
    std::vector<Tensor> again = outputs;
    ASSERT_TRUE(session.run(std::vector<Tensor>{numbers({100, kChannels})}, again).ok());
    EXPECT_EQ(memory.allocated, before);
    // A strided input is staged.
    Tensor wide = numbers({100, 2 * kChannels});
    const std::vector<Tensor> strided{Tensor::borrow(DType::f32, {100, kChannels}, wide.data(), {2 * kChannels, 1})};
    ASSERT_TRUE(session.run(strided, again).ok());
    EXPECT_EQ(memory.allocated, before + 1);
    outputs = must_run(session, 100);
  }
  EXPECT_EQ(memory.held.size(), 2u);  // the outputs outlive the Session
  expect_same(outputs, expected(100));
  outputs.clear();
  EXPECT_TRUE(memory.held.empty());
}

TEST_F(HostTest, a_refused_allocation_is_out_of_memory_and_the_next_run_may_succeed) {
  CountingAllocator memory;
  options_.allocator = memory.hooks();
  Session session = *Session::create(must_compile());
  memory.refuse_from = 1;
  const std::vector<Tensor> inputs{numbers({64, kChannels})};
  const Result<std::vector<Tensor>> refused = session.run(inputs);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::out_of_memory);
  EXPECT_NE(refused.status().message().find("host's allocator"), std::string::npos) << refused.status().str();
  memory.refuse_from = INT64_MAX;
  expect_same(must_run(session, 64), expected(64));
}

struct CountingThreads {
  std::atomic<int64_t> regions{0}, tasks{0};
  int threads = 3;
  bool backwards = false;  // the ranges, one by one on one thread

  std::shared_ptr<const HostThreads> hooks() {
    HostThreads made;
    made.count = [this] { return threads; };
    made.parallel_for = [this](int64_t n, void (*body)(void*, int64_t, int64_t), void* argument) {
      ++regions;
      tasks += n;
      if (backwards) {
        for (int64_t i = n; i-- > 0;) body(argument, i, i + 1);
        return;
      }
      std::vector<std::jthread> helpers;
      for (int64_t i = 1; i < n; ++i) helpers.emplace_back([=] { body(argument, i, i + 1); });
      body(argument, 0, 1);
    };
    return std::make_shared<const HostThreads>(std::move(made));
  }
};

TEST_F(HostTest, runs_are_split_by_the_host) {
  CountingThreads threads;
  options_.host_threads = threads.hooks();
  options_.threads = 0;
  const Engine engine = must_compile();
  EXPECT_EQ(engine.threads(), 3);
  Session session = *Session::create(engine);
  const std::vector<Tensor> results = must_run(session, 4000);
  EXPECT_GT(threads.regions, 0);
  EXPECT_GT(threads.tasks, threads.regions.load());
  // In any order, and one range after the other.
  threads.backwards = true;
  expect_same(must_run(session, 4000), results);
  // Where the host has fewer threads than before, another plan is bound.
  threads.threads = 1;
  expect_same(must_run(session, 4000), results);
  threads.threads = 3;
  options_.threads = 2;
  EXPECT_EQ(must_compile().threads(), 2);
}

TEST_F(HostTest, a_pool_lends_each_session_to_one_thread) {
  const Engine engine = must_compile();
  const std::vector<Tensor> want = expected(3);
  const SessionPool pool = *SessionPool::create(engine, 2);
  EXPECT_EQ(pool.size(), 2u);
  EXPECT_EQ(pool.idle(), 0u);
  std::mutex mutex;
  std::set<const Session*> out, seen;
  std::vector<std::jthread> callers;
  for (int t = 0; t < 6; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const SessionPool::Lease lease = *pool.acquire();
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(out.insert(&*lease).second) << "a session is out twice";
          EXPECT_LE(out.size(), 2u);
          seen.insert(&*lease);
        }
        expect_same(must_run(*lease, 3), want);
        const std::lock_guard lock(mutex);
        out.erase(&*lease);
      }
    });
  }
  callers.clear();
  EXPECT_LE(seen.size(), 2u);
  EXPECT_EQ(pool.idle(), seen.size());
  EXPECT_EQ(SessionPool::create(engine, 0).status().code(), StatusCode::invalid_argument);
}

TEST_F(HostTest, statistics_are_json) {
  const Engine engine = must_compile();
  Session session = *Session::create(engine);
  must_run(session, 3);
  EXPECT_NE(to_json(engine.stats()).find("\"distinct_kernels\":"), std::string::npos);
  const std::vector<TensorShape> shapes{{3, kChannels}};
  EXPECT_NE(to_json(*engine.plan(shapes)).find("\"symbols\":{\"n\":3}"), std::string::npos);
  EXPECT_NE(to_json(session.stats()).find("\"runs\":1"), std::string::npos);
  EXPECT_STREQ(version(), "0.1.0");
}

}  // namespace
}  // namespace fusec
