// SPDX-License-Identifier: Apache-2.0
// Reads the JSON lists that the C interface of fusec answers: objects whose members are texts, numbers, true, false and
// null.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fusec::ort {

// A member's value: a text without its quotes, anything else as it is written, a list with its brackets.
using JsonObject = std::map<std::string, std::string>;

// Throw Failure where the text does not begin with a list of objects, or of texts and numbers.
std::vector<JsonObject> read_json_list(std::string_view text);
std::vector<std::string> read_json_values(std::string_view text);

}  // namespace fusec::ort
