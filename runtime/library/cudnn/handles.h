// SPDX-License-Identifier: Apache-2.0
// cuDNN opened at run time: its functions, the handles of one library instance, and the plans that they make.
// Plans of convolutions and attention belong to the graph API; only frontend.cpp includes cudnn-frontend. Plans of the
// older functions (pooling, copies, fills and in-place epilogues) accept any strides, propagate NaN and run on every
// GPU, unlike graph API plans for single pointwise ops.
#pragma once

#include <cudnn.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "ir/support/shared_library.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

// The functions that are called directly. cudnn-frontend looks up those of the graph API itself.
// clang-format off
#define FUSEC_CUDNN(NEED, WANT)                                                                        \
  NEED(create, cudnnCreate) NEED(destroy, cudnnDestroy) NEED(set_stream, cudnnSetStream)               \
  NEED(error_string, cudnnGetErrorString) NEED(create_tensor, cudnnCreateTensorDescriptor)             \
  NEED(destroy_tensor, cudnnDestroyTensorDescriptor) NEED(set_tensor, cudnnSetTensorNdDescriptor)      \
  NEED(create_pooling, cudnnCreatePoolingDescriptor) NEED(destroy_pooling, cudnnDestroyPoolingDescriptor) \
  NEED(set_pooling, cudnnSetPoolingNdDescriptor) NEED(pooling_forward, cudnnPoolingForward)            \
  NEED(create_activation, cudnnCreateActivationDescriptor)                                             \
  NEED(destroy_activation, cudnnDestroyActivationDescriptor)                                           \
  NEED(set_activation, cudnnSetActivationDescriptor) NEED(activation_forward, cudnnActivationForward)  \
  NEED(add_tensor, cudnnAddTensor) NEED(transform_tensor, cudnnTransformTensor)                        \
  NEED(fill_tensor, cudnnSetTensor) NEED(version, cudnnGetVersion)
// clang-format on
FUSEC_FUNCTION_TABLE(Api, FUSEC_CUDNN);

// A handle serves one thread at a time. Plans are built, which takes up to seconds, with several handles side by side,
// and run with another one, so that a run waits only for other runs. A run never creates a handle, because stream
// capture forbids it.
class Handles {
 public:
  // `unsupported`: cuDNN is missing; `device`: it finds no GPU.
  static Result<std::shared_ptr<Handles>> open();
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  // Calls f(handle); no other thread uses the handle meanwhile.
  template <class F>
  auto build(const F& f) {
    const Builder builder(*this);
    return f(builder.handle);
  }
  // The same for work that is put on `stream`.
  template <class F>
  auto run(void* stream, const F& f) {
    const std::lock_guard lock(run_mutex_);
    const cudnnStatus_t status = api.set_stream(run_, static_cast<cudaStream_t>(stream));
    return status == CUDNN_STATUS_SUCCESS ? f(run_) : f(nullptr);
  }

  // ok, or `code` with cuDNN's message.
  Status check(cudnnStatus_t status, const char* what, StatusCode code) const;

  const Api api;

 private:
  // Borrows a handle for building.
  struct Builder {
    explicit Builder(Handles& of) : handles(of), handle(of.take_builder()) {}
    ~Builder() { handles.return_builder(handle); }
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;
    Handles& handles;
    cudnnHandle_t handle;
  };

  Handles(const Api& functions, cudnnHandle_t build, cudnnHandle_t run)
      : api(functions), builders_{build}, idle_{build}, run_(run) {}
  cudnnHandle_t take_builder();
  void return_builder(cudnnHandle_t handle);

  std::mutex build_mutex_, run_mutex_;
  std::condition_variable returned_;
  std::vector<cudnnHandle_t> builders_, idle_;  // idle_: the builders that no thread is using
  cudnnHandle_t run_;
};

// Tells cudnn-frontend which library to call; `library` is the handle from dlopen.
void use_library(void* library);

// The plan that the spec names, or else the first in cuDNN's heuristics that meets our numerics: f32 without TF32
// unless spec.tf32, no reduced precision, the same bits on every run, no engine in barred_engines. A named plan skips
// the heuristics. A plan in the cache (which may be null) is not built again.
Result<std::unique_ptr<CudnnPlan>> conv_plan(std::shared_ptr<Handles> handles, const ConvSpec& spec,
                                             const CudnnPlanCache* cache);

// The plan that the spec names, or else the first in the heuristics that gives the same bits on every run.
Result<std::unique_ptr<CudnnPlan>> attention_plan(std::shared_ptr<Handles> handles, const AttentionSpec& spec,
                                                  const CudnnPlanCache* cache);

// All plans of a convolution that meet our numerics, in the order of the heuristics.
Result<std::vector<CudnnPlanInfo>> plan_names(const std::shared_ptr<Handles>& handles, const ConvSpec& spec);
Result<std::vector<CudnnPlanInfo>> plan_names(const std::shared_ptr<Handles>& handles, const AttentionSpec& spec);

Result<std::unique_ptr<CudnnPlan>> pool_plan(std::shared_ptr<Handles> handles, const PoolSpec& spec);
Result<std::unique_ptr<CudnnPlan>> copy_plan(std::shared_ptr<Handles> handles, const TensorSpec& from,
                                             const TensorSpec& to);
Result<std::unique_ptr<CudnnPlan>> fill_plan(std::shared_ptr<Handles> handles, const TensorSpec& out, double value);
Result<std::unique_ptr<CudnnPlan>> epilogue_plan(std::shared_ptr<Handles> handles, const EpilogueSpec& epilogue,
                                                 const TensorSpec& out);

// The cuDNN backend for the device with this name (DeviceMemory::device_name). `device` if cuDNN is missing or finds no
// GPU.
Result<std::shared_ptr<Backend>> open_cudnn(const Options& options, const std::string& device_name);

}  // namespace fusec::runtime::cudnn
