// SPDX-License-Identifier: Apache-2.0
// The text of a Graph:
//
//   graph @main(%x: f32[N, 128], %w: f32[128, 64]) {
//     %0 = matmul %x, %w {transpose_a = 0, transpose_b = 0}: f32[N, 64]  // /fc1/MatMul
//     %1 = constant f32[64] #1f2e3d4c5b6a7988
//     %2 = constant f32[] {0.5}
//     %3 = add %0, %1: f32[N, 64]
//     return %3 as "y"
//   }
//
// The largest values of symbols stand behind the inputs: `limits(N = 512, S = 77)`. Nodes are numbered in `order`;
// their comment is Node::origin. Constants with up to 16 elements are part of the text; others are named by
// content_hash and come from a table. A third form, `constant f32[64, 64] {random 7}`, is for tests: the values of
// random_tensor (ir/ops/random.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

// Constants by the hash of their bytes. Dtype and shape come from the text.
using ConstantTable = std::map<uint64_t, Tensor>;

inline constexpr int64_t kInlineElements = 16;

// hash64 of the bytes of a row-major tensor.
uint64_t content_hash(const Tensor& tensor);
// The constants of `graph` that its text only names.
ConstantTable constant_table(const Graph& graph);

std::string print(const Graph& graph);
// same_graph(parse_graph(print(g), constant_table(g)), g) holds for every graph that verifies. Errors are invalid_model
// and begin with "line L, column C: ".
Result<Graph> parse_graph(std::string_view text, const ConstantTable& constants = {});

}  // namespace fusec::ir
