// SPDX-License-Identifier: Apache-2.0
// From a Problem to the primitives that solve it, the fastest of the ways that oneDNN has a quick implementation for.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "runtime/library/onednn/epilogues.h"
#include "runtime/library/onednn/op.h"

namespace fusec::runtime::onednn {

struct Context {
  dnnl::engine engine;
  PackedWeights& weights;
  Numerics numerics;
  const LibraryCall& call;
};

// nullopt: oneDNN has nothing but its reference loops for it. They throw dnnl::error where it objects otherwise.
// `wanted`: a name that the function below lists, empty: the first of these.
std::optional<Built> build_conv(const Context& context, const Problem& problem, const std::string& wanted);
std::optional<Built> build_matmul(const Context& context, const Problem& problem, const std::string& wanted);
std::optional<Built> build_avg_pool(const Context& context, const Problem& problem);

// The quick ways to do it: names of implementations, with "matmul " in front where a convolution is one, "batched "
// where the product is one of two batch axes.
std::vector<std::string> conv_names(const Context& context, const Problem& problem);
std::vector<std::string> matmul_names(const Context& context, const Problem& problem);

// The call in each layout in which oneDNN does as many epilogues as in any.
std::vector<IsolatedCall> lone_calls(const Context& context, const Problem& problem, bool in_place);

// Shared by them.

// The bias as oneDNN takes it, a vector along `axis`; otherwise it becomes the first epilogue.
Problem with_vector_bias(Problem problem, std::size_t axis);
// The places past an image's end that a pooling reads: ceil_mode reads further than the attribute says, and oneDNN
// always rounds down.
Extents end_padding(const Problem& pooling);
// Filter [O, I / groups, ...], or with the groups as an axis of their own.
Operand grouped_filter(const Problem& conv);
dnnl::primitive_attr attributes(const dnnl::post_ops& ops);
Slot arg_slot(int id, const dnnl::memory::desc& desc, int arg);
// The slot for weights given as `from`, wanted as `to`: packed once where constant, else reordered in every run.
Slot weights_slot(const Context& context, const Operand& weights, const dnnl::memory::desc& from,
                  const dnnl::memory::desc& to, Recipe& recipe);
void add_post_args(const PostOps& posts, std::vector<Slot>& slots);
// The epilogues from `done` on, by loops on the output itself.
std::shared_ptr<const Trailing> trailing(const Problem& problem, std::size_t done);

// The names of a fresh descriptor's implementations that `is_quick` takes, in oneDNN's order, each once: those that it
// has made before come a second time.
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
// Moves a fresh descriptor on to the implementation of such a name; empty: it has none. An empty name is the first.
template <class Desc>
Desc with_name(Desc desc, const std::string& name) {
  if (!desc || name.empty()) return desc;
  do {
    if (name == desc.impl_info_str()) return desc;
  } while (desc.next_impl());
  return {};
}

}  // namespace fusec::runtime::onednn
