// SPDX-License-Identifier: Apache-2.0
// The C interface with tensors on a GPU. The driver is opened as a binding would have it: by another library.
#include <dlfcn.h>

#include "tests/c/case.h"

namespace fusec::c_test {
namespace {

bool has_gpu() {
  for (const Json& device : read_json(fusec_devices_json)) {
    if (device["device"] == "cuda:0") return true;
  }
  return false;
}

template <class... Args>
void call(const char* name, Args... args) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(driver, name));
  ASSERT_NE(function, nullptr) << name;
  EXPECT_EQ(function(args...), 0) << name;
}

// The GPU's context, a stream, and two floats of its memory.
struct Gpu {
  Gpu() {
    int device = -1;
    call("cuInit", 0u);
    call("cuDeviceGet", &device, 0);
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxSetCurrent", context);
    call("cuStreamCreate", &stream, 1u);  // apart from the default stream
    for (uint64_t* memory : {&x, &y}) call("cuMemAlloc_v2", memory, std::size_t{8});
  }
  ~Gpu() {
    for (const uint64_t memory : {x, y}) call("cuMemFree_v2", memory);
  }
  void put(const float (&values)[2]) { call("cuMemcpyHtoD_v2", x, static_cast<const void*>(values), std::size_t{8}); }
  // What is in y once the stream is done; y is cleared.
  std::vector<float> take() {
    std::vector<float> out(2);
    call("cuStreamSynchronize", stream);
    call("cuMemcpyDtoH_v2", static_cast<void*>(out.data()), y, std::size_t{8});
    call("cuMemsetD8_v2", y, static_cast<unsigned char>(0), std::size_t{8});
    return out;
  }
  void* context = nullptr;
  void* stream = nullptr;
  uint64_t x = 0, y = 0;
};

TEST(CGpu, runs_on_memory_of_the_host_and_of_the_gpu) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  Gpu gpu;
  const auto options = quiet_options();
  ASSERT_OK(fusec_options_set(options.get(), "device", "cuda:0"));
  const auto model = double_model();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  ASSERT_NE(session, nullptr);

  float x[2] = {1, 2}, y[2] = {};
  std::vector<int64_t> shape = {1, 2};
  const fusec_tensor host_x = floats(x, shape), host_y = floats(y, shape);
  ASSERT_OK(fusec_session_run(session.get(), &host_x, 1, &host_y, 1));
  EXPECT_EQ(y[1], 4);

  fusec_tensor gpu_x = host_x, gpu_y = host_y;
  gpu_x.data = reinterpret_cast<void*>(gpu.x);
  gpu_y.data = reinterpret_cast<void*>(gpu.y);
  gpu_x.device = gpu_y.device = {FUSEC_DEVICE_CUDA, 0};
  gpu.put({3, 4});
  ASSERT_OK(fusec_session_run_async(session.get(), &gpu_x, 1, &gpu_y, 1, gpu.stream));
  EXPECT_EQ(gpu.take(), (std::vector<float>{6, 8}));
  void* in[] = {gpu_x.data};
  void* out[] = {gpu_y.data};
  for (int i = 0; i < 4; ++i) {  // a graph is captured and replayed
    const float value = static_cast<float>(i);
    gpu.put({value, 2 * value});
    ASSERT_OK(fusec_session_run_raw(session.get(), shape.data(), in, out, gpu.stream));
    EXPECT_EQ(gpu.take(), (std::vector<float>{2 * value, 4 * value}));
  }
  EXPECT_NE(why(fusec_session_run_async(session.get(), &host_x, 1, &gpu_y, 1, gpu.stream)), "");
}

TEST(CGpu, copies_constants_from_the_gpu) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  Gpu gpu;
  gpu.put({5, 6});
  auto builder = make<fusec_builder>(fusec_builder_new);
  std::vector<int64_t> shape = {2};
  fusec_tensor constant = floats(reinterpret_cast<void*>(gpu.x), shape);
  constant.device = {FUSEC_DEVICE_CUDA, 0};
  fusec_value value = -1;
  ASSERT_OK(fusec_builder_constant(builder.get(), &constant, &value));
  ASSERT_OK(fusec_builder_output(builder.get(), "y", value));
  const auto model = make<fusec_model>(fusec_builder_finish, builder.get());
  const auto options = quiet_options();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  float y[2] = {};
  void* out[] = {y};
  ASSERT_OK(fusec_session_run_raw(session.get(), nullptr, nullptr, out, nullptr));
  EXPECT_EQ(y[0], 5);
  EXPECT_EQ(y[1], 6);
}

}  // namespace
}  // namespace fusec::c_test
