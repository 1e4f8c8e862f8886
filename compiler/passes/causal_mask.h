// SPDX-License-Identifier: Apache-2.0
// Whether the mask of an attention is causal: query i takes the keys up to i, and all others are dropped.
#pragma once

#include <functional>

#include "compiler/passes/known_values.h"

namespace fusec::compiler {

// Whether `mask`, which broadcasts to the scores [..., queries, keys], is an element for which `keeps` holds wherever
// the key is not behind the query, and one for which `drops` holds elsewhere. False unless there are as many queries as
// keys, and more than one.
bool is_causal(KnownValues& values, ir::ValueId mask, const Dim& queries, const Dim& keys,
               const std::function<bool(double)>& keeps, const std::function<bool(double)>& drops);

}  // namespace fusec::compiler
