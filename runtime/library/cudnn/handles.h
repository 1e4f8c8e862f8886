// SPDX-License-Identifier: Apache-2.0
// cuDNN opened at run time: its functions, and the handles of one library instance.
#pragma once

#include <cudnn.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "ir/support/shared_library.h"

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

}  // namespace fusec::runtime::cudnn
