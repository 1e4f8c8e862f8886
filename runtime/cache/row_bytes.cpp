// SPDX-License-Identifier: Apache-2.0
// Writes measured rows as JSON and reads them back, checking types before values are taken.

#include "runtime/cache/row_bytes.h"

#include <nlohmann/json.hpp>
#include <string>

namespace fusec::runtime {
namespace {

using RowJson = nlohmann::json;

constexpr std::size_t kMembers = 12;
constexpr std::size_t kLargestRow = 64 << 10;  // bytes; texts of a sound row are shorter

// s: text, b: bool, i: integer, n: number.
constexpr char kKinds[kMembers + 1] = "ssssbinniisi";

bool is_of_kind(const RowJson& value, char kind) {
  switch (kind) {
    case 's':
      return value.is_string();
    case 'b':
      return value.is_boolean();
    case 'i':
      return value.is_number_integer();
    default:
      return value.is_number();
  }
}

}  // namespace

std::vector<uint8_t> encode_row(const TuningRow& row) {
  const RowJson json = RowJson::array({row.scope, row.call, row.library, row.algorithm, row.is_default, row.listed,
                                       row.median_us, row.spread, row.runs, row.workspace, row.failure, row.time});
  const std::string text = json.dump(-1, ' ', false, RowJson::error_handler_t::replace);
  return {text.begin(), text.end()};
}

std::optional<TuningRow> decode_row(std::span<const uint8_t> bytes) {
  if (bytes.size() > kLargestRow) return std::nullopt;
  const RowJson json = RowJson::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (!json.is_array() || json.size() != kMembers) return std::nullopt;
  for (std::size_t i = 0; i < kMembers; ++i)
    if (!is_of_kind(json[i], kKinds[i])) return std::nullopt;
  TuningRow row;
  row.scope = json[0].get<std::string>(), row.call = json[1].get<std::string>();
  row.library = json[2].get<std::string>(), row.algorithm = json[3].get<std::string>();
  row.is_default = json[4].get<bool>(), row.listed = json[5].get<int64_t>();
  row.median_us = json[6].get<double>(), row.spread = json[7].get<double>();
  row.runs = json[8].get<int64_t>(), row.workspace = json[9].get<int64_t>();
  row.failure = json[10].get<std::string>(), row.time = json[11].get<int64_t>();
  return is_sound(row) ? std::optional(std::move(row)) : std::nullopt;
}

}  // namespace fusec::runtime
