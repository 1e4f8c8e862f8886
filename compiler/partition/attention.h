// SPDX-License-Identifier: Apache-2.0
// Who computes an attention: a library of the target in one call, a generated kernel (compiler/lower/cuda/attention.h),
// or neither. Then its products and its softmax are computed one after another.
#pragma once

#include "fusec/options.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {

ir::AttentionShape attention_shape(const ir::Graph& graph, const ir::Node& attention);

// Whether a library of the target computes it, and may be asked for it.
bool is_library_attention(const Target& target, const Options& options, const ir::AttentionShape& shape);
// Whether a library or a kernel computes it. Of a kernel this says, too, that it is expected to be the faster way.
bool is_computed_attention(const Target& target, const Options& options, const ir::AttentionShape& shape);
// Whether a kernel computes this node, which a library or a kernel does.
bool is_own_attention(const Target& target, const Options& options, const ir::Graph& graph, const ir::Node& node);

}  // namespace fusec::compiler
