// SPDX-License-Identifier: Apache-2.0
// Steps that depend on no input on a GPU: they are launched once per plan, outside the graphs.
#if FUSEC_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fusec/device.h"
#include "fusec/session.h"
#include "tests/runtime/cuda_fake.h"

namespace fusec::cuda_once_test {
namespace {

using runtime_test::add;
using runtime_test::add_one;
using runtime_test::FakeDriver;
using runtime_test::flat;
using runtime_test::gpu_engine;
using runtime_test::ProgramBuilder;
using testing::HasSubstr;

std::vector<float> iota(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

Tensor on_gpu(std::vector<float> values) {
  const Tensor host = Tensor::borrow(DType::f32, {static_cast<int64_t>(values.size())}, values.data());
  Tensor t = *make_tensor({TargetKind::cuda, 0}, DType::f32, host.shape());
  EXPECT_TRUE(copy(host, t).ok());
  return t;
}

std::vector<float> copy_values(const Tensor& t) {
  Tensor h = *Tensor::make(t.dtype(), t.shape());
  EXPECT_TRUE(copy(t, h).ok());
  return {h.as<float>(), h.as<float>() + h.num_elements()};
}

Status run(Session& session, const Tensor& x, Tensor& y) { return session.run(std::span(&x, 1), std::span(&y, 1)); }

// t = c + 1; y = x + t.
ProgramBuilder with_table() {
  ProgramBuilder b;
  const ir::AllocId x = b.input("x"), y = b.output("y"), c = b.constant(iota(20)), t = b.temporary();
  b.launch(b.kernel({"table", 1, 1, add_one, {}, 0, false, {}}), {flat(c), flat(t)}, "table");
  b.launch(b.kernel({"sum", 2, 1, add, {}, 0, false, {}}), {flat(x), flat(t), flat(y)}, "sum");
  return b;
}

TEST(CudaOnce, WhatDependsOnNoInputIsLaunchedOnceAndNotCaptured) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(with_table(), fake));
  const Tensor x = on_gpu(iota(6)), large = on_gpu(iota(20));
  Tensor y = on_gpu(std::vector<float>(6)), large_y = on_gpu(std::vector<float>(20));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 3);  // the table, one run on the stream, one in the capture
  EXPECT_EQ(fake.count("cuGraphLaunch"), 3);
  std::vector<float> expected = iota(6);
  for (float& v : expected) v += v + 1;
  EXPECT_EQ(copy_values(y), expected);
  ASSERT_TRUE(run(session, large, large_y).ok());
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 5);  // the table of the other shapes
  EXPECT_EQ(copy_values(large_y).back(), 19 + 20);
  ASSERT_TRUE(run(session, x, y).ok());
  EXPECT_EQ(copy_values(y), expected);
}

TEST(CudaOnce, ProfilesGiveNoTimeToStepsThatRunOnce) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(with_table(), fake));
  const Tensor x = on_gpu(iota(6));
  const auto stats = session.profile(std::span(&x, 1));
  ASSERT_TRUE(stats.ok()) << stats.status().str();
  EXPECT_EQ(stats->launches, 1);
  EXPECT_TRUE(stats->steps.at(0).once);
  EXPECT_EQ(fake.count("cuLaunchKernelEx"), 2);
}

// Sets the status word where an element is negative.
void checked(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local) {
  for (int64_t i = begin; i < end; ++i)
    if (static_cast<const float*>(args->buffers[0])[i] < 0) *args->status = 1;
  add_one(args, begin, end, local);
}

TEST(CudaOnce, AnIndexOutOfRangeInAStepThatRunsOnceFailsEveryRun) {
  FakeDriver fake;
  ProgramBuilder b;
  std::vector<float> plus_minus = iota(20);
  plus_minus[3] = -1;
  const ir::AllocId x = b.input("x"), y = b.output("y"), c = b.constant(plus_minus), t = b.temporary();
  b.launch(b.kernel({"table", 1, 1, checked, {}, 0, true, {}}), {flat(c), flat(t)}, "table");
  b.launch(b.kernel({"sum", 2, 1, add, {}, 0, false, {}}), {flat(x), flat(t), flat(y)}, "sum");
  Session session = *Session::create(*gpu_engine(b, fake));
  const Tensor in = on_gpu(iota(6));
  for (int i = 0; i < 2; ++i) {
    const Status status = session.run(std::span(&in, 1)).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_THAT(status.str(), HasSubstr("an index is out of range in 'table'"));
  }
}

}  // namespace
}  // namespace fusec::cuda_once_test
#endif
