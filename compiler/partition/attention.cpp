// SPDX-License-Identifier: Apache-2.0
#include "compiler/partition/attention.h"

#include <algorithm>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kMaxChannels = 128;  // of a head, whose sums stay in registers
// A block has a tile of queries. Fewer of them leave most of its threads idle.
constexpr int64_t kMinQueries = 8;
constexpr int64_t kFewTileRows = 32;  // of a tile
constexpr int64_t kFewKeys = 512;     // that a block walks over in the time of a few launches

// Whether a kernel can compute it.
bool is_suited(const Target& target, const Options& options, const ir::AttentionShape& shape) {
  if (target.kind != TargetKind::cuda || !options.fuse || options.numerics == Numerics::exact) return false;
  if (shape.dtype != DType::f32 && !is_16_bit_float(shape.dtype)) return false;
  const auto suits = [](const Dim& channels) {
    return channels.is_const() && channels.value() >= 1 && channels.value() <= kMaxChannels;
  };
  if (!suits(shape.channels) || !suits(shape.value_channels)) return false;
  return !shape.queries.is_const() || shape.queries.value() >= kMinQueries;
}

// Whether products that a library computes, with the scores in memory between them, are expected to take longer.
bool beats_products(const Target& target, const Options& options, const ir::AttentionShape& shape) {
  if (multiplies_by_kernels(target, options)) return true;
  // The library multiplies by matrix instructions, and a kernel would not.
  if (shape.dtype == DType::f32 ? options.tf32 : target.sm < ir::kFirstMmaSm) return false;
  // A decoder with stored keys has one query at a time.
  if (!shape.queries.is_const() && !(shape.queries == shape.keys)) return false;
  // A block walks over all keys of its tile. A library splits the keys of few tiles over blocks.
  const Dim tiles = shape.heads * ceildiv(shape.queries, kFewTileRows);
  const bool is_few = tiles.is_const() && 2 * tiles.value() < target.sm_count;
  return !is_few || (shape.keys.is_const() && shape.keys.value() <= kFewKeys);
}

}  // namespace

ir::AttentionShape attention_shape(const Graph& graph, const Node& attention) {
  const Shape &q = graph.type(attention.inputs[0]).shape, &v = graph.type(attention.inputs[2]).shape;
  return {graph.type(attention.output).dtype, q[3], v[3], v[2], attention.inputs.size() > 3, q[0] * q[1], q[2]};
}

bool is_library_attention(const Target& target, const Options& options, const ir::AttentionShape& shape) {
  if (options.numerics == Numerics::exact) return false;
  const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(target);
  return std::any_of(libraries.begin(), libraries.end(), [&](const ir::LibraryCapabilities* library) {
    return (library->is_built_in || options.use_library) && !ir::unsupported_reason(*library, target, shape);
  });
}

bool is_computed_attention(const Target& target, const Options& options, const ir::AttentionShape& shape) {
  return is_library_attention(target, options, shape) ||
         (is_suited(target, options, shape) && beats_products(target, options, shape));
}

bool is_own_attention(const Target& target, const Options& options, const Graph& graph, const Node& node) {
  return node.op == TensorOp::attention && !is_library_attention(target, options, attention_shape(graph, node));
}

}  // namespace fusec::compiler
