// SPDX-License-Identifier: Apache-2.0
// The C interface without memory, and its runs without allocations.
#include <mutex>

#include "tests/c/case.h"
#include "tests/oom/fail_malloc.h"

namespace fusec::c_test {
namespace {

TEST(CMemory, raw_runs_allocate_nothing_once_the_extents_were_seen) {
  const auto options = quiet_options();
  const auto model = double_model();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  ASSERT_NE(session, nullptr);
  constexpr int64_t kShapes = 16;
  float data[2][2 * kShapes] = {};
  float other[2][2 * kShapes] = {};
  fusec_error* error = nullptr;
  int64_t count = 0;
  for (int round = 0; round < 3; ++round) {
    oom_test::arm(0, oom_test::Mode::once);
    for (int64_t n = 1; n <= kShapes && error == nullptr; ++n) {
      const int64_t extents[] = {n, 2};
      float(*const memory)[2 * kShapes] = round == 1 ? data : other;  // other pointers in the last round
      memory[0][0] = static_cast<float>(n);
      void* in[] = {memory[0]};
      void* out[] = {memory[1]};
      error = fusec_session_run_raw(session.get(), extents, in, out, nullptr);
      if (memory[1][0] != static_cast<float>(2 * n)) ADD_FAILURE() << n;
    }
    count = oom_test::disarm();
    EXPECT_OK(error);
    EXPECT_EQ(count > 0, round == 0) << count << " allocations in round " << round;
  }
}

// Calls `work` while all allocations from the n-th on fail, for every n. It answers ok or out_of_memory.
template <class Work>
void starve(const char* what, const Work& work) {
  for (int64_t n = 1; n < 100000; ++n) {
    oom_test::arm(n, oom_test::Mode::always);
    fusec_error* const error = work();
    oom_test::disarm();
    const bool starved = oom_test::has_failed();
    const int code = fusec_error_code(error);
    const std::string message = why(error);
    if (code == FUSEC_OK) {
      if (!starved) return;
      continue;  // what lacked memory could do without
    }
    ASSERT_EQ(code, FUSEC_OUT_OF_MEMORY) << what << " at allocation " << n << ": " << message;
  }
  FAIL() << what << " never has enough memory";
}

// glibc opens libgcc when the first exception passes its pthread_once, and ends the process where it cannot.
void warm_up_call_once() {
  std::once_flag flag;
  try {
    std::call_once(flag, [] { throw 1; });
  } catch (int) {
  }
}

TEST(CMemory, without_memory_calls_answer_out_of_memory) {
  warm_up_call_once();
  const auto options = quiet_options();
  const auto model = double_model();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  float data[2] = {1, 2};
  std::vector<int64_t> shape = {1, 2};
  const fusec_tensor tensor = floats(data, shape);
  starve("options", [] {
    fusec_options* made = nullptr;
    fusec_error* error = fusec_options_new(&made);
    if (error == nullptr)
      error = fusec_options_set(made, "cache-dir", "/a/folder/with/a/name/that/is/longer/than/a/short/string");
    fusec_options_free(made);
    return error;
  });
  starve("keys", [] {
    char* text = nullptr;
    fusec_error* const error = fusec_options_keys_json(&text);
    fusec_free(text);
    return error;
  });
  starve("a builder", [&] {
    fusec_builder* builder = nullptr;
    fusec_model* made = nullptr;
    fusec_value v[2] = {-1, -1};
    fusec_error* error = fusec_builder_new(&builder);
    if (error == nullptr) error = fusec_builder_input(builder, "x", "f32", "[n, 2]", &v[0]);
    if (error == nullptr) error = fusec_builder_constant(builder, &tensor, &v[1]);
    if (error == nullptr) error = fusec_builder_op(builder, "add", v, 2, "", &v[0]);
    if (error == nullptr) error = fusec_builder_op(builder, "softmax", v, 1, "axis=-1", &v[0]);
    if (error == nullptr) error = fusec_builder_output(builder, "y", v[0]);
    if (error == nullptr) error = fusec_builder_finish(builder, &made);
    fusec_builder_free(builder);
    fusec_model_free(made);
    return error;
  });
  starve("a session", [&] {
    fusec_session* session = nullptr;
    int64_t extents[2] = {};
    void* pointers[] = {data};
    fusec_error* error = fusec_session_new(engine.get(), &session);
    if (error == nullptr) error = fusec_session_output_shapes(session, shape.data(), extents);
    if (error == nullptr) error = fusec_session_run(session, &tensor, 1, &tensor, 1);
    if (error == nullptr) error = fusec_session_run_raw(session, shape.data(), pointers, pointers, nullptr);
    fusec_session_free(session);
    return error;
  });
}

TEST(CMemory, a_refusal_without_memory_is_an_error_all_the_same) {
  oom_test::arm(1, oom_test::Mode::always);
  fusec_error* const error = fusec_options_set(nullptr, "a", "b");
  oom_test::disarm();
  EXPECT_EQ(fusec_error_code(error), FUSEC_OUT_OF_MEMORY);
  EXPECT_STREQ(fusec_error_message(error), "out of memory");
  fusec_error_free(error);
}

}  // namespace
}  // namespace fusec::c_test
