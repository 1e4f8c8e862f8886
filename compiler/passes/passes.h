// SPDX-License-Identifier: Apache-2.0
// The passes of the optimize stage. No pass depends on another, but in the order of pipeline.cpp they find the most.
// Each has a file of its own name.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "compiler/passes/pipeline.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {

// Decompose composites into comparisons, reductions and gathers. Required: partition does not handle composites.
Result<bool> expand_topk(ir::Graph& graph, const PassContext& context);
Result<bool> expand_scatter(ir::Graph& graph, const PassContext& context);
// Converts f32 values to options.precision, except those that stand for integers (compiler/passes/wide_values.h).
Result<bool> convert_precision(ir::Graph& graph, const PassContext& context);
// Replaces values without elements, and reductions over no elements, by constants.
Result<bool> fold_empty(ir::Graph& graph, const PassContext& context);
// On a GPU: writes products of one row by dequantized matrices out, so that kernels read the integers.
Result<bool> quantized_products(ir::Graph& graph, const PassContext& context);
// Evaluates nodes whose operands are all constants, up to a budget of elements.
Result<bool> fold_constants(ir::Graph& graph, const PassContext& context);
// Merges equal nodes on equal operands, and equal small constants.
Result<bool> share_nodes(ir::Graph& graph, const PassContext& context);
// Applies algebraic rules of one line: x*1 -> x, neg(neg(x)) -> x, a*sigmoid(a) -> silu(a), ...
Result<bool> apply_rules(ir::Graph& graph, const PassContext& context);
// Removes index maps that move nothing, merges maps of maps, and turns transposes that keep the order of elements into
// reshapes.
Result<bool> simplify_maps(ir::Graph& graph, const PassContext& context);
// matmul of a reshaped operand -> reshape of a matmul, so that element-wise users see the matmul itself.
Result<bool> sink_reshapes(ir::Graph& graph, const PassContext& context);
// Folds constants s and t of one value per channel in conv * s + t into the weights and bias of the conv.
Result<bool> fold_affine(ir::Graph& graph, const PassContext& context);
// conv of an image with inserted zeros, as of ConvTranspose -> conv of the image, whose channels become positions.
// Behind fold_affine, which folds into the convolution that is there.
Result<bool> subpixel_convolutions(ir::Graph& graph, const PassContext& context);
// Replaces decomposed activations after a conv or matmul by the op that the library fuses. Again behind
// convert_precision: some are fused for 16-bit types alone.
Result<bool> recognize_activations(ir::Graph& graph, const PassContext& context);
// Makes one node of an attention that is written out, where a library of the target or a kernel computes it.
Result<bool> recognize_attention(ir::Graph& graph, const PassContext& context);
// On a GPU: makes the operands of matrix products views of what is stored, and moves factors behind the products.
Result<bool> strided_operands(ir::Graph& graph, const PassContext& context);
// On a GPU: makes one product of those of one value by constant matrices whose parts are read where they lie.
Result<bool> merge_products(ir::Graph& graph, const PassContext& context);
// Writes an attention out where none does. Required: nothing else computes it.
Result<bool> expand_attention(ir::Graph& graph, const PassContext& context);
// In a 16-bit model, keeps small tensors in f32 that scale large ones and are computed from a reduction through
// convolutions.
Result<bool> widen_gates(ir::Graph& graph, const PassContext& context);
// Reduces over several axes where a reshape merged them before the reduction, so that transposes get past norms.
Result<bool> unmerge_axes(ir::Graph& graph, const PassContext& context);
// Puts convolutions and pools into layout "last", between transposes.
Result<bool> channels_last(ir::Graph& graph, const PassContext& context);
// Moves a transpose of a product's rows in front of the product, where one was before, so that both become one.
Result<bool> hoist_transposes(ir::Graph& graph, const PassContext& context);
// Moves transposes behind element-wise ops, reductions and concats, until they meet their inverse.
Result<bool> sink_transposes(ir::Graph& graph, const PassContext& context);
// Where the target's libraries are slow on few channels: makes the positions that a convolution's window moves by its
// channels, and adds channels of zeros.
Result<bool> space_to_depth(ir::Graph& graph, const PassContext& context);
// Decomposes the pools that no library of the target computes (ir/library/capabilities.h), or may be asked for. It runs
// after channels_last, which decides whether a max_pool is a small window. Required: nothing else computes these pools.
Result<bool> expand_pools(ir::Graph& graph, const PassContext& context);
// On a GPU: writes products by constant matrices out where memory bounds them, so that they become generated kernels.
Result<bool> own_products(ir::Graph& graph, const PassContext& context);
// Decomposes the convolutions that no library of the target computes, or may be asked for, into a product of patches
// and filters. Required: nothing else computes them.
Result<bool> expand_convolutions(ir::Graph& graph, const PassContext& context);
// Decomposes matmul that no library of the target has (integers on a GPU), or may be asked for, into a sum of products.
// Required: nothing else computes it.
Result<bool> expand_products(ir::Graph& graph, const PassContext& context);
// Where the target's libraries are slow at it: turns a conv with one filter per channel into a sum of moved inputs,
// which is generated code.
Result<bool> unroll_depthwise(ir::Graph& graph, const PassContext& context);
// Gives every user of a cast from a 16-bit float to f32 a cast of its own.
Result<bool> own_casts(ir::Graph& graph, const PassContext& context);
// Makes a concat an operand of one whose operands begin with its own, so that both lie in one memory.
Result<bool> nest_concats(ir::Graph& graph, const PassContext& context);
// Splits a concat of many operands into a concat of concats with a bounded number of operands.
Result<bool> split_concats(ir::Graph& graph, const PassContext& context);
// Makes every graph output the result of a node of its own.
Result<bool> own_outputs(ir::Graph& graph, const PassContext& context);

// `to` must be f16 or bf16 (else invalid_argument). Values of types other than f32 are not converted. If `weights_ms`
// is set, the time of converting constants is added to it.
Result<ir::Graph> with_precision(const ir::Graph& graph, DType to, double* weights_ms = nullptr,
                                 const std::vector<std::string>& keep_f32 = {});

// Whether `computes` holds of a library of the target that may be asked.
bool is_computed_by_library(const PassContext& context,
                            const std::function<bool(const ir::LibraryCapabilities&)>& computes);
// Whether a library of the target multiplies matrices of the type, and may be asked for it.
bool is_library_product(const PassContext& context, DType dtype);
// Whether the conv is a matrix product as it stands: a window of one position that moves by one, over channels-last
// images.
bool is_of_points(const ir::Graph& graph, const ir::Node& conv);
// 16-bit elements that tensor cores take at once along the axis of a sum. A convolution of fewer channels is slow in
// libraries of GPUs.
inline constexpr int64_t kTensorCoreElements = 8;
// Whether the node converts the 8-bit integers of a product that quantized_products has written out.
bool dequantizes_factor(const ir::Graph& graph, const ir::IdVector<ir::ValueId, std::vector<ir::NodeId>>& users,
                        const ir::Node& node);
// The products that own_products writes out.
std::set<ir::NodeId> own_product_nodes(const ir::Graph& graph, const PassContext& context);
// Whether expand_convolutions writes the conv out as a sum of products of patches, which one kernel computes.
bool is_sum_of_patches(const ir::Graph& graph, const ir::Node& conv, const PassContext& context);
// Whether unroll_depthwise takes the conv.
bool will_unroll(const ir::Graph& graph, const ir::Node& conv, const PassContext& context);

// Returns why the library's pooling cannot compute a max_pool or avg_pool, or nullopt if it can. For symbolic extents,
// nullopt means that it can for all values.
std::optional<std::string> library_lacks(const ir::LibraryCapabilities& library, const ir::Graph& graph,
                                         const ir::Node& pool);

}  // namespace fusec::compiler
