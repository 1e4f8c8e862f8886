// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/device/device.h"
#include "runtime/plan/state.h"
#include "tests/environment.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::cuda_device_test {
namespace {

using testing::HasSubstr;

TEST(Device, NamesParse) {
  EXPECT_EQ(*parse_device("cpu"), Device{});
  EXPECT_EQ(*parse_device("cuda"), (Device{TargetKind::cuda, 0}));
  EXPECT_EQ(*parse_device("cuda:12"), (Device{TargetKind::cuda, 12}));
  EXPECT_EQ(to_string(*parse_device("cuda:12")), "cuda:12");
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:0"}) {
    EXPECT_EQ(parse_device(text).status().code(), StatusCode::invalid_argument) << text;
  }
}

TEST(Device, HostTensorsCopyWithStrides) {
  Tensor a = *make_tensor({}, DType::i32, {2, 3}), b = *make_tensor({}, DType::i32, {3, 2});
  for (int i = 0; i < 6; ++i) a.as<int32_t>()[i] = i;
  Tensor turned = Tensor::borrow(DType::i32, {2, 3}, b.data(), {1, 2});
  ASSERT_TRUE(copy(a, turned).ok());
  EXPECT_EQ(b.as<int32_t>()[1], 3);
  EXPECT_EQ(copy(a, b).code(), StatusCode::invalid_argument);
}

TEST(Device, AGpuTargetNeedsAGpu) {
  Options options;
  options.target = "sm_90";
  EXPECT_EQ(runtime::open_machine(options).status().str(),
            "invalid_argument: target sm_90 is a GPU's; the device is cpu");
}

#if FUSEC_WITH_CUDA
using runtime_test::FakeDriver;

constexpr Device kGpu{TargetKind::cuda, 0};

TEST(CudaDevice, FiguresAreTheDevicesOwn) {
  FakeDriver fake;
  const std::vector<DeviceInfo> all = devices();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].device, Device{});
  const DeviceInfo& gpu = all[2];
  EXPECT_EQ(gpu.device, (Device{TargetKind::cuda, 1}));
  EXPECT_EQ(gpu.name, "Fake GPU");
  EXPECT_EQ(gpu.driver, "13.0");
  EXPECT_EQ(gpu.memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(gpu.limits_source, "from the device");
  EXPECT_EQ(gpu.target.name, "sm_90");
  EXPECT_EQ(gpu.target.sm_count, 114);
  EXPECT_EQ(gpu.target.shared_bytes_per_block, 232448);
  EXPECT_EQ(gpu.target.last_level_cache, 50 << 20);
  EXPECT_NEAR(gpu.target.model.memory_copy, 0.9 * 3352, 1);
  EXPECT_TRUE(gpu_status().ok());
}

TEST(CudaDevice, UnknownArchitecturesAreTheClosestLowerOne) {
  FakeDriver fake;
  fake.memory_clock_khz = 0;
  fake.sm = 95;
  const DeviceInfo gpu = devices()[1];
  EXPECT_EQ(gpu.target.name, "sm_90");
  EXPECT_EQ(gpu.target.sm_count, 114);
  EXPECT_EQ(gpu.target.model.memory_copy, named_target("sm_90")->model.memory_copy);
  EXPECT_EQ(gpu.limits_source, "from the device, bandwidth from the table; sm_95 is treated as sm_90");
  fake.sm = 70;
  EXPECT_EQ(devices().size(), 1u);
  Options options;
  options.device = "cuda";
  EXPECT_EQ(runtime::open_machine(options).status().code(), StatusCode::unsupported);
}

TEST(CudaDevice, OptionsChooseDeviceAndTarget) {
  FakeDriver fake;
  Options options;
  options.device = "cuda:1";
  const auto machine = runtime::open_machine(options);
  ASSERT_TRUE(machine.ok()) << machine.status().str();
  EXPECT_EQ(machine->device.ordinal, 1);
  EXPECT_EQ(machine->target.sm, 90);
  options.target = "sm_80";
  EXPECT_EQ(runtime::open_machine(options).status().code(), StatusCode::invalid_argument);
  options.target = "x86-64-v3";
  EXPECT_EQ(runtime::open_machine(options).status().code(), StatusCode::invalid_argument);
  options = {};
  options.device = "cuda:2";
  EXPECT_THAT(runtime::open_machine(options).status().str(), HasSubstr("there is no cuda:2: the driver lists 2 GPUs"));
}

// Its pools and attentions are generated code then.
TEST(CudaDevice, AMachineWithoutCudnnIsATargetWithoutIt) {
  FakeDriver fake;
  const testing_support::Environment hide("FUSEC_HIDE_LIBRARIES", "cudnn");
  Options options;
  options.device = "cuda";
  const auto machine = runtime::open_machine(options);
  ASSERT_TRUE(machine.ok()) << machine.status().str();
  EXPECT_EQ(machine->target.libraries, std::vector<std::string>{"cublaslt"});
}

TEST(CudaDevice, OneContextPerDeviceAndProcess) {
  FakeDriver fake;
  const auto a = *runtime::cuda::Context::open(0), b = *runtime::cuda::Context::open(0);
  EXPECT_EQ(a, b);
  EXPECT_EQ(fake.count("cuDevicePrimaryCtxRetain"), 1);
}

TEST(CudaDevice, TensorsCopyBetweenAllPlacesAndStrides) {
  FakeDriver fake;
  const std::vector<int64_t> shape = {3, 4, 5};
  Tensor from = *make_tensor({}, DType::i16, shape);
  for (int i = 0; i < 60; ++i) from.as<int16_t>()[i] = static_cast<int16_t>(i);
  const Device places[] = {{}, kGpu, {TargetKind::cuda, 1}};
  const std::vector<std::vector<int64_t>> strides = {{20, 5, 1}, {5, 15, 1}, {1, 3, 12}, {40, 10, 2}, {20, 1, 4}};
  for (const Device& place : places) {
    for (const Device& last : places) {
      for (const auto& in : strides) {
        for (const auto& out : strides) {
          const Tensor a_memory = *make_tensor(place, DType::i16, {200}),
                       b_memory = *make_tensor(last, DType::i16, {200});
          Tensor a = Tensor::borrow(DType::i16, shape, const_cast<void*>(a_memory.data()), in, place);
          Tensor b = Tensor::borrow(DType::i16, shape, const_cast<void*>(b_memory.data()), out, last);
          ASSERT_TRUE(copy(from, a).ok());
          ASSERT_TRUE(copy(a, b).ok());
          Tensor back = *make_tensor({}, DType::i16, shape);
          ASSERT_TRUE(copy(b, back).ok());
          for (int i = 0; i < 60; ++i)
            ASSERT_EQ(back.as<int16_t>()[i], i) << to_string(place) << " " << to_string(last);
        }
      }
    }
  }
}

TEST(CudaDevice, BroadcastAndReversedMemoryCopies) {
  FakeDriver fake;
  Tensor memory = *make_tensor(kGpu, DType::f32, {6});
  Tensor values = *make_tensor({}, DType::f32, {6});
  for (int i = 0; i < 6; ++i) values.as<float>()[i] = static_cast<float>(i);
  ASSERT_TRUE(copy(values, memory).ok());
  Tensor out = *make_tensor({}, DType::f32, {2, 3});
  ASSERT_TRUE(copy(Tensor::borrow(DType::f32, {2, 3}, memory.as<float>() + 5, {0, -2}, kGpu), out).ok());
  EXPECT_EQ(std::vector<float>(out.as<float>(), out.as<float>() + 6), (std::vector<float>{5, 3, 1, 5, 3, 1}));
}

TEST(CudaDevice, NewTensorsAreZero) {
  FakeDriver fake;
  const Tensor t = *make_tensor(kGpu, DType::f32, {3});
  Tensor h = *make_tensor({}, DType::f32, {3});
  h.as<float>()[1] = 7;
  ASSERT_TRUE(copy(t, h).ok());
  EXPECT_EQ(h.as<float>()[1], 0);
  EXPECT_EQ(make_tensor(kGpu, DType::f32, {-1}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(make_tensor(kGpu, DType::f32, {int64_t{1} << 62, 4}).status().code(), StatusCode::invalid_argument);
  EXPECT_TRUE(make_tensor(kGpu, DType::f32, {0, 4}).ok());
}

TEST(CudaLink, PtxIsTakenWhereTheCubinIsRefused) {
  FakeDriver fake;
  fake.refuse_cubins = true;
  runtime_test::ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, runtime_test::add_one, {}, 64, false, {}}),
           {runtime_test::flat(x), runtime_test::flat(y)});
  ASSERT_TRUE(gpu_engine(b, fake).ok());
  EXPECT_EQ(fake.count("cuLibraryLoadData"), 2);
  EXPECT_EQ(fake.count("cuFuncLoad"), 1);
  EXPECT_EQ(fake.count("cuFuncSetAttribute"), 1);  // more than 48 KB of shared memory
}

TEST(CudaLink, FunctionsThatAreMissingAreNamed) {
  FakeDriver fake;
  runtime_test::ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  b.launch(b.kernel({"k", 1, 1, runtime_test::add_one, {}, 0, false, {}}),
           {runtime_test::flat(x), runtime_test::flat(y)});
  fake.fail(7, CUDA_ERROR_NOT_FOUND);
  const Status status = gpu_engine(b, fake).status();
  EXPECT_EQ(status.code(), StatusCode::device);
  EXPECT_THAT(status.str(), HasSubstr("while loading"));
}

TEST(CudaLink, ManyConstantsGoUpTogether) {
  FakeDriver fake;
  runtime_test::ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  std::vector<ir::AllocId> constants;
  for (int i = 0; i < 50; ++i) constants.push_back(b.constant({static_cast<float>(i), 1}));
  const ir::AllocId large = b.constant(std::vector<float>(3 << 20, 2.0f));
  b.launch(b.kernel({"k", 2, 1, runtime_test::add, {}, 0, false, {}}),
           {runtime_test::flat(constants[7], 2), runtime_test::flat(large, 3 << 20), runtime_test::flat(y)});
  (void)x;
  const Engine engine = *gpu_engine(b, fake);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 2);
  Session session = *Session::create(engine);
  const Tensor in = *Tensor::make(DType::f32, {2});
  const auto out = session.run(std::span(&in, 1));
  ASSERT_TRUE(out.ok()) << out.status().str();
  EXPECT_EQ((*out)[0].as<float>()[0], 9);
}

// The sum of an input of two and the first two of `constant`, `small` behind it.
Engine with_constants(FakeDriver& fake, const std::vector<float>& large, float small) {
  runtime_test::ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y");
  const ir::AllocId first = b.constant(large);
  b.constant({small});
  b.launch(
      b.kernel({"k", 2, 1, runtime_test::add, {}, 0, false, {}}),
      {runtime_test::flat(x, 2), runtime_test::flat(first, static_cast<int64_t>(large.size())), runtime_test::flat(y)});
  return *gpu_engine(b, fake);
}

TEST(CudaLink, EnginesShareLargeConstants) {
  FakeDriver fake;
  std::vector<float> values(1 << 18, 2.0f);
  std::optional<Engine> first = with_constants(fake, values, 1), second = with_constants(fake, values, 3);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 3);  // the large one, and the small ones of both
  const auto constants = [](const Engine& engine) -> const std::vector<Tensor>& {
    return engine.state()->program().constants;
  };
  EXPECT_EQ(constants(*first)[0].data(), constants(*second)[0].data());
  EXPECT_NE(constants(*first)[1].data(), constants(*second)[1].data());
  values[77] = 5;  // between the elements that are compared first
  const Engine other = with_constants(fake, values, 1);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 4);  // its small ones are those of the first
  first.reset();
  {
    Session session = *Session::create(*second);
    const Tensor in = *Tensor::make(DType::f32, {2});
    const auto out = session.run(std::span(&in, 1));
    ASSERT_TRUE(out.ok()) << out.status().str();
    EXPECT_EQ((*out)[0].as<float>()[0], 2);
  }
  second.reset();
  const Engine again = with_constants(fake, std::vector<float>(1 << 18, 2.0f), 1);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 5);  // nobody had it any more
}

// As of one model for two batches: a constant of 20 KB is the same, and one of few bytes is not.
TEST(CudaLink, EnginesShareConstantsOfSomeKilobytes) {
  FakeDriver fake;
  const std::vector<float> values(5000, 2.0f);
  const Engine first = with_constants(fake, values, 1), second = with_constants(fake, values, 3);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 3);
  const Engine third = with_constants(fake, std::vector<float>(3000, 2.0f), 1);
  EXPECT_EQ(fake.count("cuMemcpyHtoD"), 4);  // 12 KB and the other are one, which no other has
}
#endif

}  // namespace
}  // namespace fusec::cuda_device_test
