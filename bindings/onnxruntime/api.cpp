// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/api.h"

namespace fusec::ort {

Api::Api(const ApiBase& base) {
  table_ = base.get_api(kApiWithHasShape);
  if (table_ != nullptr) {
    version_ = kApiWithHasShape;
  } else {
    table_ = base.get_api(kOldestApi);
  }
  if (table_ == nullptr) {
    throw Failure(ErrorCode::not_implemented,
                  std::string("fusec needs ONNX Runtime 1.23 or newer; this is ") + base.get_version());
  }
  ep_table_ = plain<api::GetEpApi>();
  if (ep_table_ == nullptr) {
    throw Failure(ErrorCode::not_implemented,
                  "fusec: this build of ONNX Runtime takes no execution providers of others");
  }
}

void Api::check(OrtStatus* status) const {
  if (status == nullptr) return;
  Failure failure(ErrorCode::ep_fail, plain<api::GetErrorMessage>(static_cast<const OrtStatus*>(status)));
  plain<api::ReleaseStatus>(status);
  throw failure;
}

const void* const* Api::editor_table() const {
  const void* const* const table = plain<api::GetModelEditorApi>();
  if (table != nullptr) return table;
  throw Failure(ErrorCode::not_implemented,
                "fusec: this build of ONNX Runtime cannot write models (ep.context_enable)");
}

void Api::log(const OrtLogger* logger, LogLevel level, const std::string& message) const noexcept {
  if (logger == nullptr) return;
  OrtStatus* const status = plain<api::LoggerLogMessage>(logger, static_cast<int>(level), message.c_str(),
                                                         "onnxruntime_ep_fusec", 0, "fusec");
  if (status != nullptr) plain<api::ReleaseStatus>(status);  // a line that cannot be written fails nothing
}

}  // namespace fusec::ort
