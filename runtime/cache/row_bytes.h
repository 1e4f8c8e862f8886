// SPDX-License-Identifier: Apache-2.0
// A measured row as bytes, for a cache server: a JSON array of the members of TuningRow in their order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cache/tuning.h"

namespace fusec::runtime {

inline constexpr uint32_t kRowVersion = 1;

std::vector<uint8_t> encode_row(const TuningRow& row);
// nullopt for anything that encode_row of this version did not make of a sound row. Any bytes are safe input.
std::optional<TuningRow> decode_row(std::span<const uint8_t> bytes);

}  // namespace fusec::runtime
