// SPDX-License-Identifier: Apache-2.0
// What the tests of the C interface share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fusec/c.h"

namespace fusec::c_test {

using Json = nlohmann::json;

// Empty where the call is ok, else the message. Frees the error.
inline std::string why(fusec_error* error) {
  std::string text = fusec_error_message(error);
  if (error != nullptr && text.empty()) text = "an error without a message";
  fusec_error_free(error);
  return text;
}

#define EXPECT_OK(call) EXPECT_EQ(::fusec::c_test::why(call), "")
#define ASSERT_OK(call) ASSERT_EQ(::fusec::c_test::why(call), "")

inline void expect_refused(fusec_error* error, const std::string& says, int code = FUSEC_INVALID_ARGUMENT) {
  EXPECT_EQ(fusec_error_code(error), code) << fusec_error_message(error);
  const std::string text = why(error);
  EXPECT_NE(text.find(says), std::string::npos) << "'" << text << "' does not say '" << says << "'";
}

// Of a call that has a text as its last parameter.
template <class F, class... Args>
Json read_json(F f, Args... args) {
  char* text = nullptr;
  EXPECT_OK(f(args..., &text));
  const Json json = text == nullptr ? Json() : Json::parse(text);
  fusec_free(text);
  return json;
}

struct Free {
  void operator()(fusec_options* p) const { fusec_options_free(p); }
  void operator()(fusec_model* p) const { fusec_model_free(p); }
  void operator()(fusec_builder* p) const { fusec_builder_free(p); }
  void operator()(fusec_engine* p) const { fusec_engine_free(p); }
  void operator()(fusec_session* p) const { fusec_session_free(p); }
  void operator()(fusec_session_pool* p) const { fusec_session_pool_free(p); }
};
template <class T>
using Handle = std::unique_ptr<T, Free>;

// A handle that the call makes, by its last parameter.
template <class T, class F, class... Args>
Handle<T> make(F f, Args... args) {
  T* made = nullptr;
  EXPECT_OK(f(args..., &made));
  return Handle<T>(made);
}

inline fusec_tensor floats(void* data, std::vector<int64_t>& shape) {
  return {data,
          {FUSEC_DEVICE_CPU, 0},
          static_cast<int32_t>(shape.size()),
          {FUSEC_DTYPE_FLOAT, 32, 1},
          shape.data(),
          nullptr,
          0};
}

// One thread, no kernel cache.
inline Handle<fusec_options> quiet_options() {
  auto options = make<fusec_options>(fusec_options_new);
  EXPECT_OK(fusec_options_set(options.get(), "threads", "1"));
  EXPECT_OK(fusec_options_set(options.get(), "no-cache", "true"));
  return options;
}

// y = x + x for x of "f32 [n, 2]".
inline Handle<fusec_model> double_model() {
  auto builder = make<fusec_builder>(fusec_builder_new);
  fusec_value v[2] = {-1, -1};
  EXPECT_OK(fusec_builder_input(builder.get(), "x", "f32", "[n, 2]", &v[0]));
  v[1] = v[0];
  EXPECT_OK(fusec_builder_op(builder.get(), "add", v, 2, nullptr, &v[1]));
  EXPECT_OK(fusec_builder_output(builder.get(), "y", v[1]));
  return make<fusec_model>(fusec_builder_finish, builder.get());
}

}  // namespace fusec::c_test
