// SPDX-License-Identifier: Apache-2.0
// Runs on a stream that the caller captures.
#if FUSEC_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/callers_graph.h"
#include "tests/runtime/cuda_session_case.h"

namespace fusec::cuda_session_test {
namespace {

using namespace runtime_test::session;
using runtime_test::CallersGraph;
using runtime_test::FakeDriver;
using runtime_test::gpu_engine;
using testing::HasSubstr;

TEST(CudaCapture, ARunBecomesAPartOfTheCallersGraph) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(3), fake));
  Tensor x = on_gpu(iota(4)), y = on_gpu(std::vector<float>(4));
  ASSERT_TRUE(session.prepare(std::vector<TensorShape>{{4}}).ok());
  CallersGraph graph;
  const int records = fake.count("cuEventRecord");
  ASSERT_TRUE(session.run_async(std::span(&x, 1), std::span(&y, 1), graph.stream()).ok());
  EXPECT_EQ(fake.count("cuEventRecord"), records);
  EXPECT_TRUE(fake.waits.empty());
  ASSERT_EQ(graph.end(), CUDA_SUCCESS);
  EXPECT_EQ(copy_values(y), std::vector<float>(4));  // nothing has run
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  EXPECT_EQ(copy_values(y), plus(iota(4), 3));
  // Larger shapes move the session's memory, and twenty sets of shapes replace what was ready; the graph goes on.
  for (std::size_t n = 1000; n < 1020; ++n) {
    const Tensor large = on_gpu(iota(n));
    Tensor out = on_gpu(std::vector<float>(n));
    ASSERT_TRUE(run(session, large, out).ok());
    EXPECT_EQ(copy_values(out), plus(iota(n), 3));
  }
  ASSERT_TRUE(copy(host(plus(iota(4), 10)), x).ok());
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  EXPECT_EQ(copy_values(y), plus(iota(4), 13));
}

TEST(CudaCapture, WhatWouldAllocateOrCopyIsRefusedInACapture) {
  FakeDriver fake;
  Session session = *Session::create(*gpu_engine(chain(2), fake));
  const Tensor x = on_gpu(iota(8));
  Tensor y = on_gpu(std::vector<float>(8)), none;
  CallersGraph graph;
  const auto record = [&](const Tensor& in, Tensor& out) {
    return session.run_async(std::span(&in, 1), std::span(&out, 1), graph.stream()).str();
  };
  EXPECT_THAT(record(x, y), HasSubstr("this session has not seen these input shapes"));
  ASSERT_EQ(graph.end(), CUDA_SUCCESS);  // it was not broken
  ASSERT_TRUE(session.prepare(std::vector<TensorShape>{{4}}).ok());
  CallersGraph other;
  const auto record_other = [&](const Tensor& in, Tensor& out) {
    return session.run_async(std::span(&in, 1), std::span(&out, 1), other.stream()).str();
  };
  const Tensor strided = Tensor::borrow(DType::f32, {4}, const_cast<void*>(x.data()), {2}, kGpu);
  Tensor four = Tensor::borrow(DType::f32, {4}, y.data(), {}, kGpu);
  EXPECT_EQ(record_other(strided, four),
            "invalid_argument: input 'x' cannot be used where it lies (it is not row-major), and a run that is "
            "captured makes and copies nothing");
  const Tensor dense = Tensor::borrow(DType::f32, {4}, const_cast<void*>(x.data()), {}, kGpu);
  EXPECT_THAT(record_other(dense, none), HasSubstr("output 'y' cannot be used where it lies (it has no memory)"));
  ASSERT_EQ(other.end(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace fusec::cuda_session_test
#endif
