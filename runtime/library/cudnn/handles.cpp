// SPDX-License-Identifier: Apache-2.0
// Opens cuDNN with dlopen and manages its handles: up to eight for building plans and one for running them.

#include "runtime/library/cudnn/handles.h"

#include "ir/support/shared_library.h"

namespace fusec::runtime::cudnn {
namespace {

constexpr std::size_t kMaxBuilders = 8;

}  // namespace

Result<std::shared_ptr<Handles>> Handles::open() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kCudnn));
  FUSEC_ASSIGN(const Api api, load_functions<Api>(library, "cuDNN 9 is needed"));
  cudnnHandle_t build = nullptr, run = nullptr;
  cudnnStatus_t status = api.create(&build);
  if (status == CUDNN_STATUS_SUCCESS) status = api.create(&run);
  if (status != CUDNN_STATUS_SUCCESS) {
    if (build != nullptr) api.destroy(build);
    return Status(StatusCode::device, library.path() + " does not start: " + api.error_string(status));
  }
  use_library(library.handle());
  return std::shared_ptr<Handles>(new Handles(api, build, run));
}

Handles::~Handles() {
  api.destroy(run_);
  for (cudnnHandle_t builder : builders_) api.destroy(builder);
}

// Creates another builder if all are in use. If cuDNN cannot create one, it waits.
cudnnHandle_t Handles::take_builder() {
  std::unique_lock lock(build_mutex_);
  cudnnHandle_t made = nullptr;
  if (idle_.empty() && builders_.size() < kMaxBuilders && api.create(&made) == CUDNN_STATUS_SUCCESS) {
    builders_.push_back(made);
    return made;
  }
  returned_.wait(lock, [&] { return !idle_.empty(); });
  cudnnHandle_t const handle = idle_.back();
  idle_.pop_back();
  return handle;
}

void Handles::return_builder(cudnnHandle_t handle) {
  {
    const std::lock_guard lock(build_mutex_);
    idle_.push_back(handle);
  }
  returned_.notify_one();
}

Status Handles::check(cudnnStatus_t status, const char* what, StatusCode code) const {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  return Status(code, std::string("cuDNN ") + what + ": " + api.error_string(status));
}

}  // namespace fusec::runtime::cudnn
