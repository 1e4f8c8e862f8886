// SPDX-License-Identifier: Apache-2.0
// What the host gives by fusec_host, as members of Options.
#pragma once

#include "bindings/c/handles.h"

namespace fusec::c {

// Takes over what the host has; null: nothing. invalid_argument says which member is wrong.
Status set_host(Options& options, const fusec_host* host);

}  // namespace fusec::c
