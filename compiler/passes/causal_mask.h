// SPDX-License-Identifier: Apache-2.0
// Whether the mask of an attention is causal: the last query takes all keys, each query before it one less than the
// next.
#pragma once

#include <functional>

#include "compiler/passes/known_values.h"

namespace fusec::compiler {

// Whether `mask`, which broadcasts to the scores [..., queries, keys], is an element for which `keeps` holds for key j
// of query i if j <= i + keys - queries, and one for which `drops` holds elsewhere. False unless there are at least as
// many keys as queries, and more than one query.
bool is_causal(KnownValues& values, ir::ValueId mask, const Dim& queries, const Dim& keys,
               const std::function<bool(double)>& keeps, const std::function<bool(double)>& drops);

}  // namespace fusec::compiler
