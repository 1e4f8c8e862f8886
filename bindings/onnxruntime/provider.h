// SPDX-License-Identifier: Apache-2.0
// The execution provider of a session.
#pragma once

#include "bindings/onnxruntime/settings.h"

namespace fusec::ort {

// `api` must outlive the provider.
OrtEp* make_provider(const Api& api, const OrtLogger* logger, Settings settings);
void end_provider(OrtEp* provider);

}  // namespace fusec::ort
