// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx/onnx_pb.h"

namespace fusec::importer {

namespace proto = ::fusec_onnx;

}  // namespace fusec::importer
