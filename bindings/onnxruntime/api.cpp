// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/api.h"

#include <algorithm>
#include <cstdlib>

namespace fusec::ort {

Api::Api(const ApiBase& base) {
  // "1.23.2". ONNX Runtime writes a line to stderr for a version that it does not have.
  const std::string release = base.get_version();
  version_ = static_cast<uint32_t>(
      std::strtoul(release.c_str() + std::min(release.find('.') + 1, release.size()), nullptr, 10));
  if (version_ >= kOldestApi) table_ = base.get_api(std::min(version_, kApiVersion));
  if (table_ == nullptr) {
    throw Failure(ErrorCode::not_implemented, "fusec needs ONNX Runtime 1.23 or newer; this is " + release);
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
