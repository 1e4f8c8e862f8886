// SPDX-License-Identifier: Apache-2.0
// Options by key: what set_option of fusec/options.h and the flags of the command share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fusec/options.h"
#include "fusec/status.h"

namespace fusec::runtime {

// As fusec::set_option. Errors name the option with `prefix` in front: "--" of the command, whose flags have the keys
// as names.
Status set_option(Options& options, std::string_view key, const std::string& value, std::string_view prefix);

// What set_option takes for the key, which must exist.
const char* option_help(std::string_view key);

// "500", "500K", "20M", "1G": bytes, by powers of 1024. invalid_argument names the option.
Result<int64_t> parse_size(const std::string& text, const std::string& option);

}  // namespace fusec::runtime
