// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/status.h"

namespace fusec::importer {

// Walks the protobuf wire format without building anything, so that what parsing would cost is known before it is paid:
// truncation, nesting and the number of messages.
Status scan_wire(std::span<const uint8_t> bytes, const ImportLimits& limits);

// Scans, then parses.
Result<proto::ModelProto> parse_model(std::span<const uint8_t> bytes, const ImportLimits& limits);

}  // namespace fusec::importer
