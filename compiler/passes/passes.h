// SPDX-License-Identifier: Apache-2.0
// The passes, one per file. Each states what it rewrites; none needs another, but the order of pipeline.cpp is the one
// in which they find most.
#pragma once

#include "compiler/passes/pipeline.h"

namespace fusec::compiler {

// Composites are written out in comparisons, reductions and gathers. Required: partition does not know them.
Result<bool> expand_topk(ir::Graph& graph, const PassContext& context);
Result<bool> expand_scatter(ir::Graph& graph, const PassContext& context);
// f32 values become options.precision, but those that stand for integers (compiler/passes/wide_values.h).
Result<bool> convert_precision(ir::Graph& graph, const PassContext& context);
// Values without elements, and what is reduced from none, become constants.
Result<bool> fold_empty(ir::Graph& graph, const PassContext& context);
// Nodes on constants alone become constants, up to a budget of elements.
Result<bool> fold_constants(ir::Graph& graph, const PassContext& context);
// Equal nodes on equal operands become one; so do equal small constants.
Result<bool> share_nodes(ir::Graph& graph, const PassContext& context);
// Value-preserving one-line rules: x*1 -> x, neg(neg(x)) -> x, a*sigmoid(a) -> silu(a), ...
Result<bool> apply_rules(ir::Graph& graph, const PassContext& context);
// Index maps that move nothing go; maps of maps become one; transposes that keep the order of elements become reshapes.
Result<bool> simplify_maps(ir::Graph& graph, const PassContext& context);
// matmul of a reshaped operand -> reshape of a matmul, so that element-wise readers see the matmul itself.
Result<bool> sink_reshapes(ir::Graph& graph, const PassContext& context);
// conv * s + t with s, t of one value per channel -> conv with other weights and bias.
Result<bool> fold_affine(ir::Graph& graph, const PassContext& context);
// Spelled-out activations behind a conv or matmul become the op that the library fuses.
Result<bool> recognize_activations(ir::Graph& graph, const PassContext& context);
// Small tensors that scale large ones, through convolutions from a reduction, are f32 in a 16-bit model.
Result<bool> widen_gates(ir::Graph& graph, const PassContext& context);
// conv and pools work channels-last between transposes.
Result<bool> channels_last(ir::Graph& graph, const PassContext& context);
// Transposes move behind element-wise ops, reductions and concats, until they meet their inverse.
Result<bool> sink_transposes(ir::Graph& graph, const PassContext& context);
// On a GPU: pools that cuDNN lacks are written out; all of them where no library is to be used. Behind channels_last,
// which decides whether a max_pool is a small window. Required: nothing else does them there.
Result<bool> expand_pools(ir::Graph& graph, const PassContext& context);
// On a GPU: matmul of integers is written out as a sum of products. Required: nothing else does it there.
Result<bool> expand_products(ir::Graph& graph, const PassContext& context);
// On a GPU: conv of one filter per channel becomes a sum of moved inputs, which is generated code.
Result<bool> unroll_depthwise(ir::Graph& graph, const PassContext& context);
// A concat of many operands becomes a concat of concats of a bounded number of operands.
Result<bool> split_concats(ir::Graph& graph, const PassContext& context);
// Every graph output is made by a node of its own.
Result<bool> own_outputs(ir::Graph& graph, const PassContext& context);

}  // namespace fusec::compiler
