// SPDX-License-Identifier: Apache-2.0
// Each function of fusec/c.h: with a NULL, with a handle of another type, and what embed.c does not show of it.
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "tests/c/case.h"

namespace fusec::c_test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(FUSEC_SOURCE_DIR "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Handles of all types, and wrong ones of each.
struct Fixture {
  Handle<fusec_options> options = quiet_options();
  Handle<fusec_model> model = double_model();
  Handle<fusec_builder> builder = make<fusec_builder>(fusec_builder_new);
  Handle<fusec_engine> engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  Handle<fusec_session> session = make<fusec_session>(fusec_session_new, engine.get());
  Handle<fusec_session_pool> pool = make<fusec_session_pool>(fusec_session_pool_new, engine.get(), size_t{1});
  fusec_value value = -1;

  Fixture() { EXPECT_OK(fusec_builder_input(builder.get(), "x", "f32", "[2]", &value)); }

  template <class T>
  T* wrong() const {
    void* const other = std::is_same_v<T, fusec_model> ? static_cast<void*>(engine.get()) : model.get();
    return static_cast<T*>(other);
  }
};

struct Misuse {
  const char* function;
  const char* parameter;
  std::function<fusec_error*()> call;
};

// A call for each pointer parameter that is NULL and must not be, and for each handle that is of another type.
std::vector<Misuse> misuses(Fixture& f) {
  static char* text;
  static fusec_model* new_model;
  static fusec_engine* new_engine;
  static fusec_session* new_session;
  static fusec_session_pool* new_pool;
  static void* memory;
  static size_t size;
  static int fit;
  static fusec_value value, x;
  x = f.value;
  static int64_t extents[2] = {1, 2};
  static float numbers[2] = {1, 2};
  static std::vector<int64_t> shape = {1, 2};
  static fusec_tensor tensor = floats(numbers, shape);
  static void* pointers[1] = {numbers};
  static const char* targets[1] = {"cpu:native"};
  static const char* nulls[1] = {nullptr};
  static fusec_managed_tensor* no_tensors[1] = {nullptr};
  fusec_options* const o = f.options.get();
  fusec_model* const m = f.model.get();
  fusec_builder* const b = f.builder.get();
  fusec_engine* const e = f.engine.get();
  fusec_session* const s = f.session.get();
  auto* const wo = f.wrong<fusec_options>();
  auto* const wm = f.wrong<fusec_model>();
  auto* const wb = f.wrong<fusec_builder>();
  auto* const we = f.wrong<fusec_engine>();
  auto* const ws = f.wrong<fusec_session>();
  fusec_session_pool* const p = f.pool.get();
  auto* const wp = f.wrong<fusec_session_pool>();
  static fusec_host host{sizeof(fusec_host), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  static fusec_host no_host{};
#define M(function, parameter, ...)                             \
  {                                                             \
#function, parameter, [=] { return function(__VA_ARGS__); } \
  }
  return {
      M(fusec_devices_json, "out", nullptr),
      M(fusec_options_new, "out", nullptr),
      M(fusec_options_set, "options", nullptr, "threads", "1"),
      M(fusec_options_set, "options", wo, "threads", "1"),
      M(fusec_options_set, "key", o, nullptr, "1"),
      M(fusec_options_set, "value", o, "threads", nullptr),
      M(fusec_options_keys_json, "out", nullptr),
      M(fusec_options_set_host, "options", nullptr, &host),
      M(fusec_options_set_host, "options", wo, &host),
      M(fusec_options_set_host, "host", o, &no_host),
      M(fusec_model_load_onnx, "path", nullptr, o, &new_model),
      M(fusec_model_load_onnx, "options", "x.onnx", wo, &new_model),
      M(fusec_model_load_onnx, "out", "x.onnx", o, nullptr),
      M(fusec_model_load_onnx_bytes, "bytes", nullptr, 1, nullptr, nullptr, 0, o, &new_model),
      M(fusec_model_load_onnx_bytes, "constant_names", "x", 1, nullptr, &tensor, 1, o, &new_model),
      M(fusec_model_load_onnx_bytes, "constant_names[0]", "x", 1, nulls, &tensor, 1, o, &new_model),
      M(fusec_model_load_onnx_bytes, "constants", "x", 1, targets, nullptr, 1, o, &new_model),
      M(fusec_model_load_onnx_bytes, "options", "x", 1, nullptr, nullptr, 0, wo, &new_model),
      M(fusec_model_load_onnx_bytes, "out", "x", 1, nullptr, nullptr, 0, o, nullptr),
      M(fusec_model_load_onnx_managed, "bytes", nullptr, 1, nullptr, nullptr, 0, o, &new_model),
      M(fusec_model_load_onnx_managed, "constant_names", "x", 1, nullptr, no_tensors, 1, o, &new_model),
      M(fusec_model_load_onnx_managed, "constant_names[0]", "x", 1, nulls, no_tensors, 1, o, &new_model),
      M(fusec_model_load_onnx_managed, "constants", "x", 1, targets, nullptr, 1, o, &new_model),
      M(fusec_model_load_onnx_managed, "constants[0]", "x", 1, targets, no_tensors, 1, o, &new_model),
      M(fusec_model_load_onnx_managed, "options", "x", 1, nullptr, nullptr, 0, wo, &new_model),
      M(fusec_model_load_onnx_managed, "out", "x", 1, nullptr, nullptr, 0, o, nullptr),
      M(fusec_onnx_support_json, "bytes", nullptr, 1, o, &text),
      M(fusec_onnx_support_json, "options", "x", 1, wo, &text),
      M(fusec_onnx_support_json, "out", "x", 1, o, nullptr),
      M(fusec_model_io_json, "model", nullptr, &text),
      M(fusec_model_io_json, "model", wm, &text),
      M(fusec_model_io_json, "out", m, nullptr),
      M(fusec_compile_package, "model", nullptr, targets, 1, "x.fsc", o),
      M(fusec_compile_package, "model", wm, targets, 1, "x.fsc", o),
      M(fusec_compile_package, "targets", m, nullptr, 1, "x.fsc", o),
      M(fusec_compile_package, "targets[0]", m, nulls, 1, "x.fsc", o),
      M(fusec_compile_package, "path", m, targets, 1, nullptr, o),
      M(fusec_compile_package, "options", m, targets, 1, "x.fsc", wo),
      M(fusec_compile_package_bytes, "model", nullptr, targets, 1, o, &memory, &size),
      M(fusec_compile_package_bytes, "model", wm, targets, 1, o, &memory, &size),
      M(fusec_compile_package_bytes, "targets", m, nullptr, 1, o, &memory, &size),
      M(fusec_compile_package_bytes, "targets[0]", m, nulls, 1, o, &memory, &size),
      M(fusec_compile_package_bytes, "options", m, targets, 1, wo, &memory, &size),
      M(fusec_compile_package_bytes, "bytes", m, targets, 1, o, nullptr, &size),
      M(fusec_compile_package_bytes, "size", m, targets, 1, o, &memory, nullptr),
      M(fusec_builder_new, "out", nullptr),
      M(fusec_builder_input, "builder", nullptr, "y", "f32", "[]", &value),
      M(fusec_builder_input, "builder", wb, "y", "f32", "[]", &value),
      M(fusec_builder_input, "name", b, nullptr, "f32", "[]", &value),
      M(fusec_builder_input, "dtype", b, "y", nullptr, "[]", &value),
      M(fusec_builder_input, "dtype", b, "y", "f8", "[]", &value),
      M(fusec_builder_input, "shape", b, "y", "f32", nullptr, &value),
      M(fusec_builder_input, "shape", b, "y", "f32", "n", &value),
      M(fusec_builder_input, "out", b, "y", "f32", "[]", nullptr),
      M(fusec_builder_range, "builder", nullptr, "n", 1, 2),
      M(fusec_builder_range, "builder", wb, "n", 1, 2),
      M(fusec_builder_range, "symbol", b, nullptr, 1, 2),
      M(fusec_builder_scalar, "builder", nullptr, "f32", 1, &value),
      M(fusec_builder_scalar, "builder", wb, "f32", 1, &value),
      M(fusec_builder_scalar, "dtype", b, nullptr, 1, &value),
      M(fusec_builder_scalar, "out", b, "f32", 1, nullptr),
      M(fusec_builder_constant, "builder", nullptr, &tensor, &value),
      M(fusec_builder_constant, "builder", wb, &tensor, &value),
      M(fusec_builder_constant, "tensor", b, nullptr, &value),
      M(fusec_builder_constant, "out", b, &tensor, nullptr),
      M(fusec_builder_weight, "builder", nullptr, "w", &tensor, &value),
      M(fusec_builder_weight, "builder", wb, "w", &tensor, &value),
      M(fusec_builder_weight, "name", b, nullptr, &tensor, &value),
      M(fusec_builder_weight, "tensor", b, "w", nullptr, &value),
      M(fusec_builder_weight, "out", b, "w", &tensor, nullptr),
      M(fusec_register_call, "name", nullptr, "cpu", nullptr, nullptr),
      M(fusec_register_call, "platform", "c.call", nullptr, nullptr, nullptr),
      M(fusec_builder_constant_managed, "builder", nullptr, nullptr, &value),
      M(fusec_builder_constant_managed, "builder", wb, nullptr, &value),
      M(fusec_builder_constant_managed, "tensor", b, nullptr, &value),
      M(fusec_builder_constant_managed, "out", b, nullptr, nullptr),
      M(fusec_builder_op, "builder", nullptr, "relu", &x, 1, "", &value),
      M(fusec_builder_op, "builder", wb, "relu", &x, 1, "", &value),
      M(fusec_builder_op, "op", b, nullptr, &x, 1, "", &value),
      M(fusec_builder_op, "args", b, "relu", nullptr, 1, "", &value),
      M(fusec_builder_op, "out", b, "relu", &x, 1, "", nullptr),
      M(fusec_builder_gradients, "builder", nullptr, x, -1, &x, 1, &value),
      M(fusec_builder_gradients, "builder", wb, x, -1, &x, 1, &value),
      M(fusec_builder_gradients, "y", b, -1, -1, &x, 1, &value),
      M(fusec_builder_gradients, "dy", b, x, 99, &x, 1, &value),
      M(fusec_builder_gradients, "wrt", b, x, -1, nullptr, 1, &value),
      M(fusec_builder_gradients, "out", b, x, -1, &x, 1, nullptr),
      M(fusec_builder_ops_json, "out", nullptr),
      M(fusec_builder_value_json, "builder", nullptr, 0, &text),
      M(fusec_builder_value_json, "builder", wb, 0, &text),
      M(fusec_builder_value_json, "value", b, 99, &text),
      M(fusec_builder_value_json, "value", b, -1, &text),
      M(fusec_builder_value_json, "out", b, 0, nullptr),
      M(fusec_builder_output, "builder", nullptr, "y", 0),
      M(fusec_builder_output, "builder", wb, "y", 0),
      M(fusec_builder_output, "name", b, nullptr, 0),
      M(fusec_builder_output, "name", b, "", 0),
      M(fusec_builder_output, "value", b, "y", 99),
      M(fusec_builder_finish, "builder", nullptr, &new_model),
      M(fusec_builder_finish, "builder", wb, &new_model),
      M(fusec_builder_finish, "out", b, nullptr),
      M(fusec_engine_compile, "model", nullptr, o, &new_engine),
      M(fusec_engine_compile, "model", wm, o, &new_engine),
      M(fusec_engine_compile, "options", m, wo, &new_engine),
      M(fusec_engine_compile, "out", m, o, nullptr),
      M(fusec_engine_load, "path", nullptr, o, &new_engine),
      M(fusec_engine_load, "options", "x.fsc", wo, &new_engine),
      M(fusec_engine_load, "out", "x.fsc", o, nullptr),
      M(fusec_engine_load_bytes, "bytes", nullptr, 1, o, &new_engine),
      M(fusec_engine_load_bytes, "options", "x", 1, wo, &new_engine),
      M(fusec_engine_load_bytes, "out", "x", 1, o, nullptr),
      M(fusec_package_fit, "bytes", nullptr, 1, o, &fit),
      M(fusec_package_fit, "options", "x", 1, wo, &fit),
      M(fusec_package_fit, "out", "x", 1, o, nullptr),
      M(fusec_engine_io_json, "engine", nullptr, &text),
      M(fusec_engine_io_json, "engine", we, &text),
      M(fusec_engine_io_json, "out", e, nullptr),
      M(fusec_engine_stats_json, "engine", nullptr, &text),
      M(fusec_engine_stats_json, "engine", we, &text),
      M(fusec_engine_stats_json, "out", e, nullptr),
      M(fusec_engine_counts, "engine", nullptr, nullptr, nullptr),
      M(fusec_engine_counts, "engine", we, nullptr, nullptr),
      M(fusec_engine_input, "engine", nullptr, 0, nullptr, nullptr, nullptr),
      M(fusec_engine_input, "engine", we, 0, nullptr, nullptr, nullptr),
      M(fusec_engine_input, "index", e, 1, nullptr, nullptr, nullptr),
      M(fusec_engine_output, "engine", nullptr, 0, nullptr, nullptr, nullptr),
      M(fusec_engine_output, "engine", we, 0, nullptr, nullptr, nullptr),
      M(fusec_engine_output, "index", e, 1, nullptr, nullptr, nullptr),
      M(fusec_engine_plan_json, "engine", nullptr, extents, &text),
      M(fusec_engine_plan_json, "engine", we, extents, &text),
      M(fusec_engine_plan_json, "input_extents", e, nullptr, &text),
      M(fusec_engine_plan_json, "out", e, extents, nullptr),
      M(fusec_engine_weights_json, "engine", nullptr, &text),
      M(fusec_engine_weights_json, "engine", we, &text),
      M(fusec_engine_weights_json, "out", e, nullptr),
      M(fusec_engine_set_weight, "engine", nullptr, "w", &tensor),
      M(fusec_engine_set_weight, "engine", we, "w", &tensor),
      M(fusec_engine_set_weight, "name", e, nullptr, &tensor),
      M(fusec_engine_set_weight, "data", e, "w", nullptr),
      M(fusec_session_pool_new, "engine", nullptr, 1, &new_pool),
      M(fusec_session_pool_new, "engine", we, 1, &new_pool),
      M(fusec_session_pool_new, "size", e, 0, &new_pool),
      M(fusec_session_pool_new, "out", e, 1, nullptr),
      M(fusec_session_pool_acquire, "pool", nullptr, &new_session),
      M(fusec_session_pool_acquire, "pool", wp, &new_session),
      M(fusec_session_pool_acquire, "out", p, nullptr),
      M(fusec_session_pool_release, "pool", nullptr, s),
      M(fusec_session_pool_release, "pool", wp, s),
      M(fusec_session_pool_release, "session", p, nullptr),
      M(fusec_session_pool_release, "session", p, ws),
      M(fusec_session_pool_release, "session", p, s),
      M(fusec_session_stats_json, "session", nullptr, &text),
      M(fusec_session_stats_json, "session", ws, &text),
      M(fusec_session_stats_json, "out", s, nullptr),
      M(fusec_session_profile_json, "session", nullptr, &tensor, 1, 1, &text),
      M(fusec_session_profile_json, "session", ws, &tensor, 1, 1, &text),
      M(fusec_session_profile_json, "inputs", s, nullptr, 1, 1, &text),
      M(fusec_session_profile_json, "out", s, &tensor, 1, 1, nullptr),
      M(fusec_session_new, "engine", nullptr, &new_session),
      M(fusec_session_new, "engine", we, &new_session),
      M(fusec_session_new, "out", e, nullptr),
      M(fusec_session_output_shapes, "session", nullptr, extents, extents),
      M(fusec_session_output_shapes, "session", ws, extents, extents),
      M(fusec_session_output_shapes, "input_extents", s, nullptr, extents),
      M(fusec_session_output_shapes, "output_extents", s, extents, nullptr),
      M(fusec_session_prepare, "session", nullptr, extents),
      M(fusec_session_prepare, "session", ws, extents),
      M(fusec_session_prepare, "input_extents", s, nullptr),
      M(fusec_session_run, "session", nullptr, &tensor, 1, &tensor, 1),
      M(fusec_session_run, "session", ws, &tensor, 1, &tensor, 1),
      M(fusec_session_run, "inputs", s, nullptr, 1, &tensor, 1),
      M(fusec_session_run, "outputs", s, &tensor, 1, nullptr, 1),
      M(fusec_session_run_async, "session", nullptr, &tensor, 1, &tensor, 1, nullptr),
      M(fusec_session_run_async, "session", ws, &tensor, 1, &tensor, 1, nullptr),
      M(fusec_session_run_async, "inputs", s, nullptr, 1, &tensor, 1, nullptr),
      M(fusec_session_run_async, "outputs", s, &tensor, 1, nullptr, 1, nullptr),
      M(fusec_session_run_raw, "session", nullptr, extents, pointers, pointers, nullptr),
      M(fusec_session_run_raw, "session", ws, extents, pointers, pointers, nullptr),
      M(fusec_session_run_raw, "input_extents", s, nullptr, pointers, pointers, nullptr),
      M(fusec_session_run_raw, "inputs", s, extents, nullptr, pointers, nullptr),
      M(fusec_session_run_raw, "outputs", s, extents, pointers, nullptr, nullptr),
  };
#undef M
}

TEST(CInterface, refuses_null_and_handles_of_another_type) {
  Fixture f;
  for (const Misuse& misuse : misuses(f)) {
    SCOPED_TRACE(misuse.function);
    expect_refused(misuse.call(), std::string("'") + misuse.parameter + "'");
  }
  fusec_builder* const not_a_builder = f.wrong<fusec_builder>();
  expect_refused(fusec_builder_output(not_a_builder, "y", 0),
                 "parameter 'builder' must be a handle of type builder, given is model");
}

// A function added to the header without a row above is found here.
TEST(CInterface, misuses_are_tested_of_every_function_that_answers_an_error) {
  const std::string header = read_file("include/fusec/c.h");
  std::set<std::string> declared, tested;
  const std::regex function("FUSEC_C_API fusec_error\\* (fusec_\\w+)\\(");
  for (std::sregex_iterator i(header.begin(), header.end(), function), end; i != end; ++i) declared.insert((*i)[1]);
  Fixture f;
  for (const Misuse& misuse : misuses(f)) tested.insert(misuse.function);
  EXPECT_EQ(declared, tested);
}

TEST(CInterface, free_functions_take_null_and_leave_handles_of_another_type) {
  fusec_error_free(nullptr);
  fusec_options_free(nullptr);
  fusec_model_free(nullptr);
  fusec_builder_free(nullptr);
  fusec_engine_free(nullptr);
  fusec_session_free(nullptr);
  fusec_session_pool_free(nullptr);
  fusec_free(nullptr);
  EXPECT_EQ(fusec_error_code(nullptr), FUSEC_OK);
  EXPECT_STREQ(fusec_error_message(nullptr), "");

  std::vector<std::string> said;
  fusec_set_log(
      [](void* user, int severity, const char* message) {
        EXPECT_EQ(severity, FUSEC_LOG_ERROR);
        static_cast<std::vector<std::string>*>(user)->push_back(message);
      },
      &said);
  const auto model = double_model();
  void* const handle = model.get();
  fusec_error_free(static_cast<fusec_error*>(handle));
  fusec_options_free(static_cast<fusec_options*>(handle));
  fusec_builder_free(static_cast<fusec_builder*>(handle));
  fusec_engine_free(static_cast<fusec_engine*>(handle));
  fusec_session_free(static_cast<fusec_session*>(handle));
  fusec_session_pool_free(static_cast<fusec_session_pool*>(handle));
  EXPECT_EQ(fusec_error_code(static_cast<fusec_error*>(handle)), FUSEC_INVALID_ARGUMENT);
  fusec_set_log(nullptr, nullptr);
  EXPECT_EQ(said.size(), 6u);
  EXPECT_EQ(read_json(fusec_model_io_json, model.get())["symbols"], Json({"n"}));
}

TEST(CInterface, warnings_go_to_the_log) {
  std::vector<std::string> said;
  fusec_set_log(
      [](void* user, int severity, const char* message) {
        if (severity == FUSEC_LOG_WARNING) static_cast<std::vector<std::string>*>(user)->push_back(message);
      },
      &said);
  const auto options = make<fusec_options>(fusec_options_new);
  EXPECT_OK(fusec_options_set(options.get(), "cache-dir", "/dev/null/cache"));
  const auto model = double_model();
  EXPECT_NE(make<fusec_engine>(fusec_engine_compile, model.get(), options.get()), nullptr);
  fusec_set_log(nullptr, nullptr);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said[0].find("without the kernel cache"), std::string::npos) << said[0];
}

TEST(CInterface, lists_devices_keys_and_ops) {
  const Json devices = read_json(fusec_devices_json);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0]["device"], "cpu");
  const Json keys = read_json(fusec_options_keys_json);
  const auto options = make<fusec_options>(fusec_options_new);
  std::set<std::string> used_by;
  for (const Json& key : keys) {
    used_by.insert(key["used_by"].get<std::string>());
    if (key["default"].is_null()) continue;
    EXPECT_OK(fusec_options_set(options.get(), key["key"].get<std::string>().c_str(),
                                key["default"].get<std::string>().c_str()));
  }
  EXPECT_EQ(used_by, (std::set<std::string>{"compile", "import", "load", "write"}));
  for (const auto& [key, value] : {std::pair{"fix", "N"},
                                   {"fix", "=2"},
                                   {"fix", "N=-1"},
                                   {"range", "N=5"},
                                   {"range", "N=5:4"},
                                   {"trust", "maybe"},
                                   {"random-weights", "-1"},
                                   {"verify-key", "absent.pem"},
                                   {"sign", "absent.pem"}}) {
    expect_refused(fusec_options_set(options.get(), key, value), value);
  }
  expect_refused(fusec_options_set(options.get(), "speed", "high"), "there is no option 'speed'");
}

TEST(CInterface, sets_symbols_and_constants_of_onnx_models) {
  const std::string path = "samples/digits/digits.onnx";
  const std::string file = read_file(path);
  const Json support = read_json(fusec_onnx_support_json, file.data(), file.size(), nullptr);
  ASSERT_GE(support.size(), 4u);
  for (const Json& node : support) EXPECT_TRUE(node["supported"]) << node;
  const auto options = make<fusec_options>(fusec_options_new);
  EXPECT_OK(fusec_options_set(options.get(), "fix", "N=3"));
  const auto three = make<fusec_model>(fusec_model_load_onnx, path.c_str(), options.get());
  const Json io = read_json(fusec_model_io_json, three.get());
  EXPECT_EQ(io["inputs"][0]["shape"], Json({3, 1, 8, 8}));
  EXPECT_EQ(io["symbols"], Json::array());

  const auto limited = make<fusec_options>(fusec_options_new);
  EXPECT_OK(fusec_options_set(limited.get(), "range", "N=2:64"));
  const auto some = make<fusec_model>(fusec_model_load_onnx, path.c_str(), limited.get());
  EXPECT_EQ(read_json(fusec_model_io_json, some.get())["ranges"],
            Json::parse(R"([{"extent":"N","least":2,"most":64}])"));

  const std::string bytes = read_file(path);
  std::vector<float> image(64);
  std::vector<int64_t> shape = {1, 1, 8, 8};
  const fusec_tensor constant = floats(image.data(), shape);
  const char* const names[] = {"image"};
  fusec_model* fixed = nullptr;
  EXPECT_OK(fusec_model_load_onnx_bytes(bytes.data(), bytes.size(), names, &constant, 1, nullptr, &fixed));
  const Handle<fusec_model> owned(fixed);
  EXPECT_EQ(read_json(fusec_model_io_json, fixed)["inputs"], Json::array());
  const char* const absent[] = {"picture"};
  expect_refused(fusec_model_load_onnx_bytes(bytes.data(), bytes.size(), absent, &constant, 1, nullptr, &fixed),
                 "picture");
  EXPECT_EQ(fixed, nullptr);
}

TEST(CInterface, refuses_tensors_that_break_the_rules) {
  Fixture f;
  float data[4] = {};
  std::vector<int64_t> shape = {2, 2}, negative = {2, -1}, huge = {INT64_MAX, 2};
  const fusec_tensor good = floats(data, shape);
  const auto refuse = [&](fusec_tensor bad, const char* says) {
    expect_refused(fusec_session_run(f.session.get(), &bad, 1, &good, 1), says);
    expect_refused(fusec_session_run(f.session.get(), &good, 1, &bad, 1), says);
  };
  const auto with = [&](const auto& change) {
    fusec_tensor t = good;
    change(t);
    return t;
  };
  EXPECT_OK(fusec_session_run(f.session.get(), &good, 1, &good, 1));
  refuse(with([](auto& t) { t.dtype.lanes = 2; }), "puts[0] has a dtype of code 2, 32 bits and 2 lanes");
  refuse(with([](auto& t) { t.dtype.code = 5; }), "puts[0] has a dtype of code 5");
  refuse(with([](auto& t) { t.device.type = 7; }), "puts[0] lies on a device of type 7");
  refuse(with([](auto& t) { t.ndim = -1; }), "puts[0] has ndim -1");
  refuse(with([](auto& t) { t.ndim = 65; }), "puts[0] has ndim 65");
  refuse(with([](auto& t) { t.shape = nullptr; }), "puts[0] has a shape that is NULL");
  refuse(with([](auto& t) { t.data = nullptr; }), "puts[0] has data that is NULL");
  refuse(with([&](auto& t) { t.shape = negative.data(); }), "puts[0] has the extent -1 on axis 1");
  refuse(with([&](auto& t) { t.shape = huge.data(); }), "puts[0] has more elements than 63 bits count");
  expect_refused(fusec_session_run(f.session.get(), &good, 0, &good, 1), "the model has 1 inputs, given are 0");
  expect_refused(fusec_session_run(f.session.get(), &good, 1, &good, 0), "the model has 1 outputs, given are 0");
  const int64_t wrong[] = {2, 3};
  void* pointers[] = {data};
  void* nulls[] = {nullptr};
  expect_refused(fusec_session_run_raw(f.session.get(), wrong, pointers, pointers, nullptr), "'x'");
  expect_refused(fusec_session_run_raw(f.session.get(), shape.data(), nulls, pointers, nullptr), "'inputs[0]' is NULL");
  expect_refused(fusec_session_run_raw(f.session.get(), shape.data(), pointers, nulls, nullptr),
                 "'outputs[0]' is NULL");
  expect_refused(fusec_session_prepare(f.session.get(), negative.data()), "'x'");
}

TEST(CInterface, profiles_a_session) {
  Fixture f;
  float data[4] = {};
  std::vector<int64_t> shape = {2, 2};
  const fusec_tensor tensor = floats(data, shape);
  const Json profile = read_json(fusec_session_profile_json, f.session.get(), &tensor, size_t{1}, int64_t{3});
  EXPECT_EQ(profile["source"], "threads");
  EXPECT_EQ(profile["runs"], 3);
  double parts = 0;
  for (const char* part : {"sum_us", "copies_us", "gaps_us", "host_us", "unexplained_us"})
    parts += profile[part].get<double>();
  EXPECT_NEAR(parts, profile["measured_us"].get<double>(), 1e-6);
  ASSERT_FALSE(profile["launches"].empty());
  EXPECT_FALSE(profile["launches"][0]["name"].get<std::string>().empty());
  EXPECT_EQ(read_json(fusec_session_profile_json, f.session.get(), &tensor, size_t{1}, int64_t{0})["runs"], 20);
  char* text = nullptr;
  expect_refused(fusec_session_profile_json(f.session.get(), &tensor, 1, -1, &text), "at least one run");
  EXPECT_EQ(text, nullptr);
}

TEST(CInterface, tensors_without_elements_need_no_memory) {
  Fixture f;
  const int64_t none[] = {0, 2};
  void* pointers[] = {nullptr};
  for (int i = 0; i < 2; ++i) EXPECT_OK(fusec_session_run_raw(f.session.get(), none, pointers, pointers, nullptr));
}

TEST(CInterface, page_shows_the_sample) {
  EXPECT_NE(read_file("docs/c.md").find("```c\n" + read_file("samples/c/main.c") + "```\n"), std::string::npos)
      << "docs/c.md does not have samples/c/main.c as it is";
}

TEST(CInterface, handles_may_be_freed_in_any_order) {
  Fixture f;
  f.model.reset();
  f.options.reset();
  f.engine.reset();
  float x[] = {1, 2}, y[] = {0, 0};
  const int64_t extents[] = {1, 2};
  void* in[] = {x};
  void* out[] = {y};
  EXPECT_OK(fusec_session_run_raw(f.session.get(), extents, in, out, nullptr));
  EXPECT_EQ(y[1], 4);
}

struct Managed {
  int64_t shape[1] = {2};
  alignas(64) float data[2] = {3, 4};
  int deleted = 0;
  fusec_managed_tensor tensor{};
  Managed() {
    tensor.version = {1, 1};
    tensor.manager_ctx = this;
    tensor.deleter = [](fusec_managed_tensor* self) { ++static_cast<Managed*>(self->manager_ctx)->deleted; };
    tensor.tensor = {data, {FUSEC_DEVICE_CPU, 0}, 1, {FUSEC_DTYPE_FLOAT, 32, 1}, shape, nullptr, 0};
  }
};

TEST(CInterface, models_share_managed_constants) {
  const std::string bytes = read_file("samples/digits/digits.onnx");
  std::vector<float> pixels(64, 0.5F);
  int64_t shape[] = {1, 1, 8, 8};
  Managed image;
  image.tensor.tensor.data = pixels.data();
  image.tensor.tensor.ndim = 4;
  image.tensor.tensor.shape = shape;
  fusec_managed_tensor* constant = &image.tensor;
  const char* const names[] = {"image"};
  const char* const absent[] = {"picture"};
  fusec_model* model = nullptr;
  const auto load = [&](const char* const* given) {
    return fusec_model_load_onnx_managed(bytes.data(), bytes.size(), given, &constant, 1, nullptr, &model);
  };
  expect_refused(load(absent), "picture");
  image.tensor.tensor.byte_offset = 1;
  expect_refused(load(names),
                 "constants[0] is not aligned to its elements; give its tensor to fusec_model_load_onnx_bytes");
  image.tensor.tensor.byte_offset = 0;
  EXPECT_EQ(image.deleted, 0);
  EXPECT_OK(load(names));
  Handle<fusec_model> owned(model);
  EXPECT_EQ(read_json(fusec_model_io_json, model)["inputs"], Json::array());
  EXPECT_EQ(image.deleted, 0);
  owned.reset();
  EXPECT_EQ(image.deleted, 1);
}

TEST(CInterface, managed_constants_live_until_the_last_user_is_freed) {
  Managed managed;
  auto builder = make<fusec_builder>(fusec_builder_new);
  fusec_value value = -1;
  EXPECT_OK(fusec_builder_constant_managed(builder.get(), &managed.tensor, &value));
  EXPECT_OK(fusec_builder_output(builder.get(), "y", value));
  auto model = make<fusec_model>(fusec_builder_finish, builder.get());
  builder.reset();
  EXPECT_EQ(managed.deleted, 0);
  model.reset();
  EXPECT_EQ(managed.deleted, 1);

  builder = make<fusec_builder>(fusec_builder_new);
  const auto refuse = [&](const auto& change, const char* says) {
    Managed bad;
    change(bad.tensor);
    expect_refused(fusec_builder_constant_managed(builder.get(), &bad.tensor, &value), says);
    EXPECT_EQ(bad.deleted, 0);
  };
  int64_t two[] = {2};
  refuse([](auto& t) { t.version.major = 2; }, "another DLPack than 1.x");
  refuse([](auto& t) { t.tensor.device.type = FUSEC_DEVICE_CUDA; }, "lies on a GPU");
  refuse([](auto& t) { t.tensor.byte_offset = 1; }, "is not aligned to its elements");
  refuse([&](auto& t) { t.tensor.strides = two; }, "is not dense");
  builder.reset();
}

TEST(CInterface, copies_strided_constants) {
  auto builder = make<fusec_builder>(fusec_builder_new);
  float data[] = {1, 9, 2, 9};
  std::vector<int64_t> shape = {2}, two = {2};
  fusec_tensor tensor = floats(data, shape);
  tensor.strides = two.data();
  fusec_value value = -1;
  ASSERT_OK(fusec_builder_constant(builder.get(), &tensor, &value));
  data[0] = data[2] = 0;
  ASSERT_OK(fusec_builder_output(builder.get(), "y", value));
  const auto model = make<fusec_model>(fusec_builder_finish, builder.get());
  const auto options = quiet_options();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  float y[2] = {};
  void* out[] = {y};
  ASSERT_OK(fusec_session_run_raw(session.get(), nullptr, nullptr, out, nullptr));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 2);
}

// More sets of extents than are kept, and sessions of several threads over one engine.
TEST(CInterface, runs_many_shapes_on_many_threads) {
  Fixture f;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&f] {
      const auto session = make<fusec_session>(fusec_session_new, f.engine.get());
      for (int64_t n = 1; n <= 40; ++n) {
        std::vector<float> x(static_cast<std::size_t>(2 * n), static_cast<float>(n)), y(x.size());
        const int64_t extents[] = {n, 2};
        void* in[] = {x.data()};
        void* out[] = {y.data()};
        EXPECT_OK(fusec_session_run_raw(session.get(), extents, in, out, nullptr));
        EXPECT_EQ(y.back(), static_cast<float>(2 * n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fusec::c_test
