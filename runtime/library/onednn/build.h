// SPDX-License-Identifier: Apache-2.0
// Builds the oneDNN primitives for a Problem, using the fastest implementation that oneDNN has for it, and converts
// operands to oneDNN memory descriptors.
#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "runtime/library/interface/problem.h"
#include "runtime/library/onednn/epilogues.h"
#include "runtime/library/onednn/op.h"

namespace fusec::runtime::onednn {

using dnnl::memory;

// nullopt: a type in which oneDNN does not compute on this CPU. Supported are f32, and f16 and bf16 where the CPU
// multiplies them.
std::optional<memory::data_type> data_type(DType dtype);

memory::desc describe(const Extents& dims, const Extents& strides, DType dtype);

// The memory order of the axes N C spatial... of an image; nullopt if either order fits (no or one spatial position, or
// one channel).
std::optional<ImageOrder> infer_order(const CallOperand& image);

// The same elements, with the strides of axes of extent 1 set to what oneDNN's format checks expect, as canonical_image
// does for images. With other strides oneDNN would miss its fast implementations.
CallOperand canonical_matrix(CallOperand matrix);

struct BuildContext {
  dnnl::engine engine;
  PackedWeights& weights;
  Numerics numerics;
  bool batch_invariant;
  const LibraryCall& call;
};

// nullopt: oneDNN has only its reference loops for the problem. They throw dnnl::error for other failures. `wanted`: a
// name from the functions below; empty: the first of these.
std::optional<Built> build_conv(const BuildContext& context, const Problem& problem, const std::string& wanted);
std::optional<Built> build_matmul(const BuildContext& context, const Problem& problem, const std::string& wanted);
std::optional<Built> build_avg_pool(const BuildContext& context, const Problem& problem);

// The names of the fast implementations. They start with "matmul " if a convolution is computed as a matmul, and with
// "batched " if a matmul gets a second batch axis.
std::vector<std::string> conv_names(const BuildContext& context, const Problem& problem);
std::vector<std::string> matmul_names(const BuildContext& context, const Problem& problem);

// The call in each layout in which oneDNN fuses the largest number of epilogues.
std::vector<IsolatedCall> isolated_calls_of_problem(const BuildContext& context, const Problem& problem, bool in_place);

// Helpers shared by these functions.

// Keeps the bias if it is a vector along `axis`, as oneDNN requires; otherwise makes it the first epilogue.
Problem with_vector_bias(Problem problem, std::size_t axis);
// The padding at the ends of an image that a pooling reads. With ceil_mode it reads further than the attribute says,
// and oneDNN always rounds down.
Extents end_padding(const Problem& pooling);
// The filter as [O, I / groups, ...], or with a separate axis for the groups.
CallOperand grouped_filter(const Problem& conv);
dnnl::primitive_attr attributes(const dnnl::post_ops& ops);
PrimitiveArg call_arg(int id, const dnnl::memory::desc& desc, int arg);
// The argument for weights given as `from` and needed as `to`. Constant weights are packed once, others are reordered
// in every run.
PrimitiveArg weights_arg(const BuildContext& context, const CallOperand& weights, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to, ExecutionPlan& execution_plan);
void add_post_args(const PostOps& posts, std::vector<PrimitiveArg>& primitive_args);
// The epilogues from `done` on, as loops over the output.
std::shared_ptr<const Trailing> trailing(const Problem& problem, std::size_t done);

// The names of a fresh descriptor's implementations that `is_quick` accepts, in oneDNN's order and without duplicates.
// (oneDNN lists implementations that it has created before a second time.)
template <class Desc, class Quick>
std::vector<std::string> quick_names(Desc desc, const Quick& is_quick) {
  std::vector<std::string> names;
  if (!desc) return names;
  do {
    const std::string name = desc.impl_info_str();
    if (is_quick(name.c_str()) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  } while (desc.next_impl());
  return names;
}
// Advances a fresh descriptor to the implementation with this name, or, if the name is empty, to the first one; those
// that err are passed over. Empty if there is none.
template <class Desc, class Errs>
Desc with_name(Desc desc, const std::string& name, const Errs& errs) {
  const auto fits = [&](const char* own) { return (name.empty() || name == own) && !errs(own); };
  while (desc && !fits(desc.impl_info_str()))
    if (!desc.next_impl()) return {};
  return desc;
}

}  // namespace fusec::runtime::onednn
