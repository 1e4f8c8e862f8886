// SPDX-License-Identifier: Apache-2.0
#pragma once
#if FUSEC_WITH_CUDA
#include <gtest/gtest.h>

#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/handles.h"

namespace fusec::runtime_test {

// A graph of the caller: begun on a stream, and launched as often as it likes.
class CallersGraph {
 public:
  explicit CallersGraph(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    EXPECT_EQ(driver_.cuStreamBeginCapture(stream(), mode), CUDA_SUCCESS);
  }
  ~CallersGraph() {
    if (exec_ != nullptr) driver_.cuGraphExecDestroy(exec_);
  }
  CUstream stream() const { return stream_.get(); }
  CUresult end() {
    CUgraph graph = nullptr;
    const CUresult ended = driver_.cuStreamEndCapture(stream(), &graph);
    if (ended != CUDA_SUCCESS) return ended;
    EXPECT_EQ(driver_.cuGraphInstantiate(&exec_, graph, 0), CUDA_SUCCESS);
    return driver_.cuGraphDestroy(graph);
  }
  CUresult launch() const { return driver_.cuGraphLaunch(exec_, stream()); }
  CUresult wait() const { return driver_.cuStreamSynchronize(stream()); }

 private:
  const runtime::cuda::Driver& driver_ = **runtime::cuda::driver();
  const runtime::cuda::ContextPtr context_ = *runtime::cuda::Context::open(0);
  const runtime::cuda::Current current_{*context_};
  const runtime::cuda::Stream stream_ = *runtime::cuda::make_stream(context_);
  CUgraphExec exec_ = nullptr;
};

}  // namespace fusec::runtime_test
#endif
