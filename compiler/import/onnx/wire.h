// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/status.h"

namespace fusec::importer {

// Walks the protobuf wire format without building messages, so that truncated files, deep nesting and too many messages
// are rejected before parsing spends memory on them.
Status scan_wire(std::span<const uint8_t> bytes, const ImportLimits& limits);

// Scans the bytes, then parses them.
Result<proto::ModelProto> parse_model(std::span<const uint8_t> bytes, const ImportLimits& limits);

}  // namespace fusec::importer
