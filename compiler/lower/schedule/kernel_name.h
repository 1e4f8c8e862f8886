// SPDX-License-Identifier: Apache-2.0
// The names of kernels, by which texts, messages and profilers know them: "row_add_softmax_f16_3fa2".
//
// A name says, in this order:
//   family   pointwise, transpose, row, column, scan or product: the shape of the work
//   ops      the rows of the op table that the region computes, in order, each once: gelu, relu, sum, mean, argmax,
//            gather. The ops of softmax, log_softmax, norm (layer, group and instance norm) and rms_norm have one word
//            together. Casts and reshapes have none. A region of such ops alone is a copy, a cast or a fill. Where not
//            all words fit, the ops that cost least are left out
//   dtype    of the first float parameter, else of the first parameter
//   digits   of a hash of the kernel's canonical text
//
// No name of the model is part of it.
#pragma once

#include <cstddef>
#include <string>

#include "compiler/lower/nest/nest.h"
#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

inline constexpr std::size_t kMaxKernelName = 48;  // characters, with kNameDigits
inline constexpr std::size_t kNameDigits = 4;
inline constexpr std::size_t kMoreNameDigits = 12;  // of a kernel whose name another kernel of the program has

// The name without its digits, from the nest before it is scheduled.
std::string make_name_stem(const ir::Graph& graph, const Region& region, const LoopNest& nest);
// The name of a kernel with this canonical text.
std::string make_kernel_name(const std::string& stem, const std::string& canonical_text, std::size_t digits);

}  // namespace fusec::compiler
