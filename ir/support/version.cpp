// SPDX-License-Identifier: Apache-2.0
// Says which version of fusec this is, and that its headers agree.

#include "fusec/version.h"

#include <string_view>

namespace fusec {
namespace {

#define FUSEC_TEXT_(x) #x
#define FUSEC_TEXT(x) FUSEC_TEXT_(x)
constexpr std::string_view kOfHeaders =
    FUSEC_TEXT(FUSEC_VERSION_MAJOR) "." FUSEC_TEXT(FUSEC_VERSION_MINOR) "." FUSEC_TEXT(FUSEC_VERSION_PATCH);
static_assert(kOfHeaders == FUSEC_VERSION, "fusec/version.h and the project have different versions");

}  // namespace

const char* version() noexcept { return FUSEC_VERSION; }

}  // namespace fusec
