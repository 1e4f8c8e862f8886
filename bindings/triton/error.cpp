// SPDX-License-Identifier: Apache-2.0
// Makes errors of Triton, and writes to the server's log.

#include "bindings/triton/error.h"

namespace fusec::triton {
namespace {

TRITONSERVER_Error_Code code_of(const fusec_error* error) {
  switch (fusec_error_code(error)) {
    case FUSEC_INVALID_MODEL:
    case FUSEC_INVALID_ARGUMENT:
      return TRITONSERVER_ERROR_INVALID_ARG;
    case FUSEC_UNSUPPORTED:
      return TRITONSERVER_ERROR_UNSUPPORTED;
    case FUSEC_DEVICE:
    case FUSEC_OUT_OF_MEMORY:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    default:
      return TRITONSERVER_ERROR_INTERNAL;
  }
}

}  // namespace

Error make_error(TRITONSERVER_Error_Code code, const std::string& message) {
  return Error(TRITONSERVER_ErrorNew(code, message.c_str()));
}

Error take(fusec_error* error) {
  if (error == nullptr) return nullptr;
  Error out(TRITONSERVER_ErrorNew(code_of(error), fusec_error_message(error)));
  fusec_error_free(error);
  return out;
}

void log_error(const std::string& message) {
  (void)take(TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, "fusec", 0, message.c_str()));
}

void log_error(const Error& error) {
  if (error) log_error(TRITONSERVER_ErrorMessage(error.get()));
}

}  // namespace fusec::triton
