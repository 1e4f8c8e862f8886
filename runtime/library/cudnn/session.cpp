// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/cudnn/session.h"

#include <dlfcn.h>

#include "runtime/library/cudnn/frontend.h"
#include "runtime/library/find_library.h"

namespace fusec::runtime::cudnn {
namespace {

template <class F>
void find(void* library, const char* name, F& function, std::string& missing) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
}

Result<Api> api_of(const OpenLibrary& library) {
  Api api;
  std::string missing;
  void* const from = library.handle;
  find(from, "cudnnCreate", api.create, missing);
  find(from, "cudnnDestroy", api.destroy, missing);
  find(from, "cudnnSetStream", api.set_stream, missing);
  find(from, "cudnnGetErrorString", api.error_string, missing);
  find(from, "cudnnCreateTensorDescriptor", api.create_tensor, missing);
  find(from, "cudnnDestroyTensorDescriptor", api.destroy_tensor, missing);
  find(from, "cudnnSetTensorNdDescriptor", api.set_tensor, missing);
  find(from, "cudnnCreatePoolingDescriptor", api.create_pooling, missing);
  find(from, "cudnnDestroyPoolingDescriptor", api.destroy_pooling, missing);
  find(from, "cudnnSetPoolingNdDescriptor", api.set_pooling, missing);
  find(from, "cudnnPoolingForward", api.pooling_forward, missing);
  find(from, "cudnnCreateActivationDescriptor", api.create_activation, missing);
  find(from, "cudnnDestroyActivationDescriptor", api.destroy_activation, missing);
  find(from, "cudnnSetActivationDescriptor", api.set_activation, missing);
  find(from, "cudnnActivationForward", api.activation_forward, missing);
  find(from, "cudnnAddTensor", api.add_tensor, missing);
  find(from, "cudnnTransformTensor", api.transform_tensor, missing);
  find(from, "cudnnGetVersion", api.version, missing);
  if (!missing.empty()) return Status(StatusCode::device, library.path + " lacks " + missing);
  return api;
}

}  // namespace

Result<std::shared_ptr<Session>> Session::open() {
  FUSEC_ASSIGN(const OpenLibrary library, find_library({"libcudnn.so.9"}));
  FUSEC_ASSIGN(const Api api, api_of(library));
  cudnnHandle_t build = nullptr, run = nullptr;
  cudnnStatus_t status = api.create(&build);
  if (status == CUDNN_STATUS_SUCCESS) status = api.create(&run);
  if (status != CUDNN_STATUS_SUCCESS) {
    if (build != nullptr) api.destroy(build);
    return Status(StatusCode::device, library.path + " does not start: " + api.error_string(status));
  }
  use_library(library.handle);
  return std::shared_ptr<Session>(new Session(api, build, run));
}

Session::~Session() {
  api.destroy(run_);
  api.destroy(build_);
}

Status Session::check(cudnnStatus_t status, const char* what, StatusCode code) const {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  return Status(code, std::string("cuDNN ") + what + ": " + api.error_string(status));
}

}  // namespace fusec::runtime::cudnn
