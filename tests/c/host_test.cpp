// SPDX-License-Identifier: Apache-2.0
// What a host gives by the C interface: a log, memory, threads, progress, weights, custom calls and pools.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/c/case.h"

namespace fusec::c_test {
namespace {

struct Hooks {
  std::mutex mutex;
  std::set<void*> held;
  std::atomic<int> allocations{0}, regions{0}, asked{0};
  int cancel_at = -1;
  bool refuse = false;

  fusec_host host() {
    fusec_host h{};
    h.struct_size = sizeof h;
    h.user = this;
    h.alloc = [](void* user, int32_t type, int32_t, size_t bytes, size_t alignment, void*) -> void* {
      auto& hooks = *static_cast<Hooks*>(user);
      EXPECT_EQ(type, FUSEC_DEVICE_CPU);
      const std::lock_guard lock(hooks.mutex);
      if (hooks.refuse) return nullptr;
      ++hooks.allocations;
      void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      hooks.held.insert(memory);
      return memory;
    };
    h.free = [](void* user, void* memory, int32_t, int32_t, void*) {
      auto& hooks = *static_cast<Hooks*>(user);
      const std::lock_guard lock(hooks.mutex);
      EXPECT_EQ(hooks.held.erase(memory), 1u);
      std::free(memory);
    };
    h.num_threads = [](void*) { return 2; };
    h.parallel_for = [](void* user, int64_t n, void (*body)(void*, int64_t, int64_t), void* argument) {
      ++static_cast<Hooks*>(user)->regions;
      body(argument, 0, n);
    };
    h.progress = [](void* user, const char*, double) -> int {
      auto& hooks = *static_cast<Hooks*>(user);
      return ++hooks.asked == hooks.cancel_at ? 1 : 0;
    };
    return h;
  }
};

// y = softmax(x + x) of "f32 [n, 64]": a kernel of rows.
Handle<fusec_model> rows_model() {
  auto builder = make<fusec_builder>(fusec_builder_new);
  fusec_value v[2] = {-1, -1};
  EXPECT_OK(fusec_builder_input(builder.get(), "x", "f32", "[n, 64]", &v[0]));
  EXPECT_OK(fusec_builder_op(builder.get(), "softmax", v, 1, "axis=-1", &v[1]));
  EXPECT_OK(fusec_builder_op(builder.get(), "reduce_sum", &v[1], 1, "axes=[0]", &v[1]));
  EXPECT_OK(fusec_builder_output(builder.get(), "y", v[1]));
  return make<fusec_model>(fusec_builder_finish, builder.get());
}

std::vector<float> run_rows(fusec_session* session, int64_t rows) {
  std::vector<float> in(static_cast<std::size_t>(64 * rows), 0.5F), out(64);
  std::vector<int64_t> in_shape{rows, 64}, out_shape{64};
  const fusec_tensor input = floats(in.data(), in_shape), output = floats(out.data(), out_shape);
  EXPECT_OK(fusec_session_run(session, &input, 1, &output, 1));
  return out;
}

TEST(CHost, memory_threads_and_progress_are_those_of_the_host) {
  Hooks hooks;
  const fusec_host host = hooks.host();
  const auto options = make<fusec_options>(fusec_options_new);
  EXPECT_OK(fusec_options_set(options.get(), "no-cache", "true"));
  EXPECT_OK(fusec_options_set_host(options.get(), &host));
  const auto model = rows_model();
  {
    const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
    EXPECT_GT(hooks.asked, 5);
    const auto session = make<fusec_session>(fusec_session_new, engine.get());
    const std::vector<float> got = run_rows(session.get(), 4096);
    for (const float value : got) EXPECT_NEAR(value, 64, 1e-2);
    EXPECT_GT(hooks.allocations, 0);
    EXPECT_GT(hooks.regions, 0);
    EXPECT_EQ(read_json(fusec_session_stats_json, session.get())["runs"], 1);
    const int64_t extents[2] = {4096, 64};
    const Json plan = read_json(fusec_engine_plan_json, engine.get(), extents);
    EXPECT_EQ(plan["symbols"]["n"], 4096);
    EXPECT_FALSE(plan["steps"].empty());
    hooks.refuse = true;
    const auto other = make<fusec_session>(fusec_session_new, engine.get());
    expect_refused(fusec_session_prepare(other.get(), extents), "allocator", FUSEC_OUT_OF_MEMORY);
  }
  EXPECT_TRUE(hooks.held.empty());
  EXPECT_OK(fusec_options_set_host(options.get(), nullptr));
  hooks.asked = 0;
  EXPECT_NE(make<fusec_engine>(fusec_engine_compile, model.get(), options.get()), nullptr);
  EXPECT_EQ(hooks.asked, 0);
}

TEST(CHost, a_cancelled_compile_is_an_error_of_its_own) {
  Hooks hooks;
  hooks.cancel_at = 3;
  const fusec_host host = hooks.host();
  const auto options = quiet_options();
  EXPECT_OK(fusec_options_set_host(options.get(), &host));
  const auto model = rows_model();
  fusec_engine* engine = nullptr;
  expect_refused(fusec_engine_compile(model.get(), options.get(), &engine), "cancelled", FUSEC_CANCELLED);
  EXPECT_EQ(engine, nullptr);
  EXPECT_EQ(hooks.asked, 3);
  EXPECT_NE(make<fusec_engine>(fusec_engine_compile, model.get(), options.get()), nullptr);
}

TEST(CHost, struct_size_says_which_members_there_are) {
  const auto options = quiet_options();
  fusec_host host{};
  expect_refused(fusec_options_set_host(options.get(), &host), "struct_size of 0");
  Hooks hooks;
  host = hooks.host();
  host.free = nullptr;
  expect_refused(fusec_options_set_host(options.get(), &host), "only one of alloc and free");
  host = hooks.host();
  host.num_threads = nullptr;
  expect_refused(fusec_options_set_host(options.get(), &host), "only one of num_threads and parallel_for");
  // Of an earlier version, which ends before `progress`.
  host = hooks.host();
  host.struct_size = offsetof(fusec_host, progress);
  EXPECT_OK(fusec_options_set_host(options.get(), &host));
  const auto model = rows_model();
  EXPECT_NE(make<fusec_engine>(fusec_engine_compile, model.get(), options.get()), nullptr);
  EXPECT_EQ(hooks.asked, 0);
  // Of a later one, with and without a value in what is not known here.
  struct {
    fusec_host known;
    void* later = nullptr;
  } larger{hooks.host()};
  larger.known.struct_size = sizeof larger;
  EXPECT_OK(fusec_options_set_host(options.get(), &larger.known));
  larger.later = &larger;
  expect_refused(fusec_options_set_host(options.get(), &larger.known), "later version");
}

TEST(CHost, messages_have_severities) {
  static std::mutex mutex;
  std::map<int, int> said;
  fusec_set_log(
      [](void* user, int severity, const char*) {
        const std::lock_guard lock(mutex);
        ++(*static_cast<std::map<int, int>*>(user))[severity];
      },
      &said);
  const auto options = quiet_options();
  const auto model = rows_model();
  EXPECT_NE(make<fusec_engine>(fusec_engine_compile, model.get(), options.get()), nullptr);
  fusec_set_log(nullptr, nullptr);
  EXPECT_GT(said[FUSEC_LOG_DEBUG], 0);
  EXPECT_EQ(said[FUSEC_LOG_INFO], 1);
  EXPECT_EQ(said[FUSEC_LOG_WARNING], 0);
}

// Two threads that meet in the log function, and leave it a while later.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int in = 0, out = 0;

  bool wait_for_both() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return in == 2; });
  }
  void come() {
    {
      const std::lock_guard lock(mutex);
      ++in;
    }
    changed.notify_all();
    EXPECT_TRUE(wait_for_both());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex);
    ++out;
  }
};

TEST(CHost, threads_log_at_once) {
  Meeting meeting;
  const auto model = rows_model();
  const auto make_mistake = [&] { fusec_options_free(reinterpret_cast<fusec_options*>(model.get())); };
  fusec_set_log([](void* user, int, const char*) { static_cast<Meeting*>(user)->come(); }, &meeting);
  std::thread one(make_mistake), other(make_mistake);
  EXPECT_TRUE(meeting.wait_for_both());
  fusec_set_log(nullptr, nullptr);
  EXPECT_EQ(meeting.out, 2);  // no call is left
  one.join();
  other.join();
}

TEST(CHost, weights_are_replaced) {
  auto builder = make<fusec_builder>(fusec_builder_new);
  std::vector<float> weight(4 * 3, 1.0F);
  std::vector<int64_t> shape{4, 3};
  const fusec_tensor first = floats(weight.data(), shape);
  fusec_value v[2] = {-1, -1};
  EXPECT_OK(fusec_builder_input(builder.get(), "x", "f32", "[n, 4]", &v[0]));
  EXPECT_OK(fusec_builder_weight(builder.get(), "w", &first, &v[1]));
  EXPECT_OK(fusec_builder_op(builder.get(), "matmul", v, 2, "", &v[1]));
  EXPECT_OK(fusec_builder_output(builder.get(), "y", v[1]));
  const auto model = make<fusec_model>(fusec_builder_finish, builder.get());
  const auto options = quiet_options();
  EXPECT_OK(fusec_options_set(options.get(), "replaceable-weights", "w"));
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const Json weights = read_json(fusec_engine_weights_json, engine.get());
  EXPECT_EQ(weights, Json::parse(R"([{"name": "w", "dtype": "f32", "shape": [4, 3]}])"));
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  const auto run = [&] {
    std::vector<float> in{1, 2, 3, 4}, out(3);
    const int64_t extents[2] = {1, 4};
    void *inputs[1] = {in.data()}, *outputs[1] = {out.data()};
    EXPECT_OK(fusec_session_run_raw(session.get(), extents, inputs, outputs, nullptr));
    return out;
  };
  EXPECT_EQ(run(), std::vector<float>(3, 10));
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 3);
  EXPECT_OK(fusec_engine_set_weight(engine.get(), "w", &first));
  weight.assign(weight.size(), 99);
  EXPECT_EQ(run(), (std::vector<float>{0, 10, 20}));
  expect_refused(fusec_engine_set_weight(engine.get(), "v", &first), "no weight 'v'");
  std::vector<int64_t> wrong{3, 4};
  const fusec_tensor other = floats(weight.data(), wrong);
  expect_refused(fusec_engine_set_weight(engine.get(), "w", &other), "must be f32[4, 3]");
  const auto plain = make<fusec_engine>(fusec_engine_compile, model.get(), nullptr);
  expect_refused(fusec_engine_set_weight(plain.get(), "w", &first), "--replaceable-weights");
}

// output = inputs[0] + the length of the attributes
int add_length(void* user, const fusec_tensor* inputs, size_t input_count, const fusec_tensor* output,
               const char* attributes, void* stream) {
  ++*static_cast<std::atomic<int>*>(user);
  EXPECT_EQ(input_count, 1u);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(output->ndim, 2);
  EXPECT_EQ(output->strides, nullptr);
  if (std::strcmp(attributes, "fail") == 0) return FUSEC_DEVICE;
  const int64_t elements = output->shape[0] * output->shape[1];
  for (int64_t i = 0; i < elements; ++i) {
    static_cast<float*>(output->data)[i] =
        static_cast<const float*>(inputs[0].data)[i] + static_cast<float>(std::strlen(attributes));
  }
  return FUSEC_OK;
}

Handle<fusec_model> call_model(const char* attributes) {
  auto builder = make<fusec_builder>(fusec_builder_new);
  fusec_value v = -1;
  EXPECT_OK(fusec_builder_input(builder.get(), "x", "f32", "[n, 2]", &v));
  EXPECT_OK(fusec_builder_op(builder.get(), "custom_call", &v, 1, attributes, &v));
  EXPECT_OK(fusec_builder_output(builder.get(), "y", v));
  return make<fusec_model>(fusec_builder_finish, builder.get());
}

TEST(CHost, functions_of_the_host_are_called_by_models) {
  std::atomic<int> calls = 0;
  EXPECT_OK(fusec_register_call("c.add", "cpu", add_length, &calls));
  const auto options = quiet_options();
  const auto run = [&](const char* attributes, float expected, int code) {
    const auto model = call_model(attributes);
    const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
    const auto session = make<fusec_session>(fusec_session_new, engine.get());
    float in[2] = {1, 2}, out[2] = {0, 0};
    std::vector<int64_t> shape{1, 2};
    const fusec_tensor input = floats(in, shape), output = floats(out, shape);
    fusec_error* const error = fusec_session_run(session.get(), &input, 1, &output, 1);
    EXPECT_EQ(fusec_error_code(error), code) << fusec_error_message(error);
    fusec_error_free(error);
    if (code == FUSEC_OK) {
      EXPECT_EQ(out[0], 1 + expected);
      EXPECT_EQ(out[1], 2 + expected);
    }
  };
  run("name=c.add dtype=f32 shape=[n, 2] attributes=\"a=1 b=\\\"two\\\"\"", 11, FUSEC_OK);
  run("name=c.add dtype=f32 shape=[n, 2]", 0, FUSEC_OK);
  run("name=c.add dtype=f32 shape=[n, 2] attributes=fail", 0, FUSEC_DEVICE);
  EXPECT_EQ(calls, 3);
  EXPECT_OK(fusec_register_call("c.add", "cpu", nullptr, nullptr));
  const auto model = call_model("name=c.add dtype=f32 shape=[n, 2]");
  fusec_engine* engine = nullptr;
  expect_refused(fusec_engine_compile(model.get(), options.get(), &engine), "'c.add' on cpu", FUSEC_UNSUPPORTED);
  expect_refused(fusec_register_call("c.add", "npu", add_length, nullptr), "must be cpu or cuda");
}

TEST(CHost, a_pool_lends_sessions) {
  const auto model = double_model();
  const auto options = quiet_options();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  fusec_session_pool* pool = nullptr;
  ASSERT_OK(fusec_session_pool_new(engine.get(), 2, &pool));
  std::atomic<int> out = 0;
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        fusec_session* session = nullptr;
        EXPECT_OK(fusec_session_pool_acquire(pool, &session));
        EXPECT_LE(++out, 2);
        float in[2] = {1, 2}, result[2] = {0, 0};
        const int64_t extents[2] = {1, 2};
        void *inputs[1] = {in}, *outputs[1] = {result};
        EXPECT_OK(fusec_session_run_raw(session, extents, inputs, outputs, nullptr));
        EXPECT_EQ(result[1], 4);
        --out;
        EXPECT_OK(fusec_session_pool_release(pool, session));
      }
    });
  }
  callers.clear();
  const auto own = make<fusec_session>(fusec_session_new, engine.get());
  expect_refused(fusec_session_pool_release(pool, own.get()), "was not acquired from this pool");
  fusec_session_pool* none = nullptr;
  expect_refused(fusec_session_pool_new(engine.get(), 0, &none), "'size'");
  fusec_session_pool_free(pool);
}

}  // namespace
}  // namespace fusec::c_test
