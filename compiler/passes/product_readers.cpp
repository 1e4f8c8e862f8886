// SPDX-License-Identifier: Apache-2.0
// Follows the result of a product to the library calls and kernels that read it.

#include "compiler/passes/product_readers.h"

#include <algorithm>

#include "compiler/partition/domain.h"

namespace fusec::compiler {
namespace {

constexpr std::size_t kMaxReaders = 64;  // that are looked at behind one product

StridedView dense(ValueId v, const Shape& shape, const Shape& memory) {
  return {v, 0, shape, contiguous_strides(memory), std::vector<bool>(shape.size())};
}

}  // namespace

ProductReaders::ProductReaders(const Graph& graph, const PassContext& context,
                               const ir::IdVector<ValueId, std::vector<NodeId>>& users)
    : graph_(graph), users_(users), limits_(ir::stride_limits(context.target)) {
  for (const ir::LibraryCapabilities* library : ir::libraries_of(context.target))
    if (ir::contains(library->ops, TensorOp::matmul)) libraries_.push_back(library);
}

bool ProductReaders::take_parts(ValueId product) const {
  const ValueId fused = behind_epilogues(product);
  if (!(fused == product)) return read_by_kernels(fused);
  const Shape& shape = graph_.type(product).shape;
  Shape longer = shape;
  longer.back() = longer.back() * Dim(2);  // by what is of no importance
  std::size_t seen = 0;
  return takes_part(product, {dense(product, shape, shape), dense(product, shape, longer)}, seen);
}

bool ProductReaders::is_output(ValueId v) const {
  return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
}

// The result with the ops that the library's call would compute.
ValueId ProductReaders::behind_epilogues(ValueId v) const {
  std::vector<ScalarOp> before;
  while (users_[v].size() == 1 && !is_output(v)) {
    const Node& user = graph_.nodes[users_[v][0]];
    if (!user.op.is_scalar() || !(graph_.type(user.output) == graph_.type(v))) break;
    const ScalarOp op = user.op.scalar();
    const DType dtype = graph_.type(v).dtype;
    const bool fused = std::all_of(libraries_.begin(), libraries_.end(), [&](const ir::LibraryCapabilities* library) {
      return before.size() < library->epilogues.max && fuses(library->epilogues, op, dtype, before);
    });
    if (!fused) break;
    before.push_back(op);
    v = user.output;
  }
  return v;
}

bool ProductReaders::read_by_kernels(ValueId v) const {
  const std::vector<NodeId>& readers = users_[v];
  return !readers.empty() && !is_output(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
    const Node& user = graph_.nodes[id];
    if (user.op.is_scalar() || is_kind(user.op, ir::OpPattern::reduction)) return true;
    return is_plain_map(user.op) && read_by_kernels(user.output);
  });
}

bool ProductReaders::reads(const Node& call, std::size_t i, const StridedView& view) const {
  return reads_view(call, i, graph_.type(call.inputs[i]).dtype, view, limits_);
}

bool ProductReaders::takes_part(ValueId v, const Views& views, std::size_t& seen) const {
  if (is_output(v) || users_[v].empty() || ++seen > kMaxReaders) return false;
  return std::all_of(users_[v].begin(), users_[v].end(), [&](NodeId id) {
    const Node& user = graph_.nodes[id];
    if (user.op.is_scalar() || is_kind(user.op, ir::OpPattern::reduction) || user.op == TensorOp::pad) return true;
    if (is_plain_map(user.op)) {
      const auto through = [&](const std::optional<StridedView>& view) {
        return view ? view_through(graph_, user, *view) : std::nullopt;
      };
      return takes_part(user.output, {through(views.whole), through(views.part)}, seen);
    }
    // A library stores its whole result into a concat; what moves by maps before a concat is read by a kernel.
    if (user.op == TensorOp::concat) return graph_.producer(v) != nullptr && is_plain_map(graph_.producer(v)->op);
    if (!(user.op == TensorOp::matmul) && !(user.op == TensorOp::attention)) return false;
    for (std::size_t i = 0; i < user.inputs.size(); ++i) {
      if (!(user.inputs[i] == v)) continue;
      // What is copied for the call in any case is copied from the part.
      const bool was_read = views.whole && reads(user, i, *views.whole);
      if (was_read && !(views.part && reads(user, i, *views.part))) return false;
    }
    return true;
  });
}

}  // namespace fusec::compiler
