// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/c/error.h"

namespace fusec::c {

// Every function that takes options takes NULL.
Status check_options(const fusec_options* options);

// The options of the caller, or the defaults; messages go to the log.
Options compile_options(const fusec_options* options);

}  // namespace fusec::c
