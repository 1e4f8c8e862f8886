// SPDX-License-Identifier: Apache-2.0
// The functions that Triton finds in libtriton_fusec.so and calls.

#include <memory>

#include "bindings/triton/instance.h"
#include "bindings/triton/model.h"

#define FUSEC_TRITON_API __attribute__((visibility("default")))

namespace fusec::triton {
namespace {

constexpr uint32_t kApiMajor = 1;  // of api.h

// Of the server, and of the library that was found.
Error check_versions() {
  uint32_t major = 0, minor = 0;
  FUSEC_TRITON_TRY(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != kApiMajor) {
    return make_error(TRITONSERVER_ERROR_UNSUPPORTED,
                      "the fusec backend was built for version 1 of the backend interface; this server has version " +
                          std::to_string(major));
  }
  const uint32_t found = fusec_abi_version();
  if (found >> 16 == FUSEC_ABI_MAJOR && (found & 0xffff) >= FUSEC_ABI_MINOR) return nullptr;
  return make_error(TRITONSERVER_ERROR_UNSUPPORTED,
                    "the libfusec-c that was found does not fit the fusec backend; install both of one release");
}

void log_warning(void*, int, const char* message) {
  (void)take(TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, "fusec", 0, message));
}

Error open_model(TRITONBACKEND_Model* model) {
  std::unique_ptr<Model> made;
  FUSEC_TRITON_TRY(Model::open(model, made));
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelSetState(model, made.get()));
  (void)made.release();  // until close_model
  return nullptr;
}

Error close_model(TRITONBACKEND_Model* model) {
  void* state = nullptr;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelState(model, &state));
  delete static_cast<Model*>(state);
  return nullptr;
}

Error open_instance(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  void* state = nullptr;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelState(model, &state));
  std::unique_ptr<Instance> made;
  FUSEC_TRITON_TRY(Instance::open(instance, *static_cast<Model*>(state), made));
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelInstanceSetState(instance, made.get()));
  (void)made.release();  // until close_instance
  return nullptr;
}

Error state_of(TRITONBACKEND_ModelInstance* instance, Instance*& out) {
  void* state = nullptr;
  FUSEC_TRITON_TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
  out = static_cast<Instance*>(state);
  return nullptr;
}

}  // namespace
}  // namespace fusec::triton

extern "C" {

using namespace fusec::triton;

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) {
  return guarded([] {
    fusec_set_log(log_warning, nullptr);
    return check_versions();
  });
}

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend*) {
  fusec_set_log(nullptr, nullptr);
  return nullptr;
}

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return guarded([&] { return open_model(model); });
}

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return guarded([&] { return close_model(model); });
}

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] { return open_instance(instance); });
}

FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  return guarded([&]() -> Error {
    Instance* state = nullptr;
    FUSEC_TRITON_TRY(state_of(instance, state));
    delete state;
    return nullptr;
  });
}

// An error leaves the requests with Triton, so there is none once one of them was answered.
FUSEC_TRITON_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                                        TRITONBACKEND_Request** requests,
                                                                        uint32_t count) {
  return guarded([&]() -> Error {
    Instance* state = nullptr;
    FUSEC_TRITON_TRY(state_of(instance, state));
    state->execute(requests, count);
    return nullptr;
  });
}

}  // extern "C"
