// SPDX-License-Identifier: Apache-2.0
// The version of fusec: of these headers, and of the library that is loaded.
#pragma once

#include "fusec/export.h"

#define FUSEC_VERSION_MAJOR 0
#define FUSEC_VERSION_MINOR 1
#define FUSEC_VERSION_PATCH 0

namespace fusec {

// Of the library: "0.1.0". C++ programs are built for one version, because the SONAME holds it.
FUSEC_API const char* version() noexcept;

}  // namespace fusec
