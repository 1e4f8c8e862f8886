// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks what libfusec shows to its users; everything else is hidden.
#define FUSEC_API [[gnu::visibility("default")]]
