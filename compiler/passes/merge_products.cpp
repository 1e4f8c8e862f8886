// SPDX-License-Identifier: Apache-2.0
// Optimize pass, for GPUs: makes one product of those that multiply one value by constant matrices, such as the
// projections to queries, keys and values, or the gate and the input of a gated layer. What follows reads its part of
// the rows where it lies.
//
//   x w1 + b1, x w2 + b2, ...  ->  slices of x [w1 w2 ...] + [b1 b2 ...]
//
// A product stays alone if what follows could not read a part of a row, if an op would leave the library's call and
// become a kernel, or if own_products makes a kernel of it. So does one whose matrix is read elsewhere, which would be
// stored twice. Not in exact numerics: a library may add in another order for another number of columns.

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/product_readers.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kRowBytes = 16;  // of which the rows of each part begin at multiples

// One of the products, with the bias that is added to it alone.
struct Projection {
  NodeId product;
  ValueId weights, bias, result;  // bias: invalid if there is none
  int64_t columns = 0;
};

// The matrices side by side along `axis`: 0 or 1 of [rows, columns], 0 of vectors.
Result<Tensor> joined(const std::vector<const Tensor*>& parts, size_t axis) {
  std::vector<int64_t> shape = parts[0]->shape();
  shape[axis] = 0;
  for (const Tensor* part : parts) shape[axis] += part->shape()[axis];
  FUSEC_ASSIGN(Tensor result, Tensor::make(parts[0]->dtype(), shape));
  const auto size = static_cast<int64_t>(size_of(result.dtype()));
  const int64_t inner = axis + 1 < shape.size() ? shape[axis + 1] : 1, outer = axis > 0 ? shape[0] : 1;
  auto* to = static_cast<char*>(result.data());
  for (int64_t row = 0; row < outer; ++row) {
    for (const Tensor* part : parts) {
      const int64_t bytes = part->shape()[axis] * inner * size;
      std::memcpy(to, static_cast<const char*>(part->data()) + row * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return result;
}

class Merging {
 public:
  Merging(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        users_(users(graph)),
        own_(own_product_nodes(graph, context)),
        readers_(graph, context, users_),
        rewriter_(graph) {}

  Result<bool> run() {
    std::map<Key, std::vector<Projection>> groups;
    for (const NodeId id : graph_.order) {
      const std::optional<Projection> found = projection(id);
      const Node& node = graph_.nodes[id];
      if (found)
        groups[{node.inputs[0], node.attrs.i("transpose_b"), graph_.type(found->weights).dtype}].push_back(*found);
    }
    std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
    drop_shared(groups);
    std::map<ValueId, ValueId> replaced;
    for (const auto& [key, group] : groups) FUSEC_TRY(merge(std::get<0>(key), std::get<1>(key), group, replaced));
    if (replaced.empty()) return false;
    rewriter_.walk([&](NodeId id) {
      const ValueId v = graph_.nodes[id].output;
      if (const auto at = replaced.find(v); at != replaced.end()) rewriter_.replace(v, at->second);
    });
    for (const NodeId id : made_) graph_.nodes[id].inputs[0] = rewriter_.now(graph_.nodes[id].inputs[0]);
    return true;
  }

 private:
  using Key = std::tuple<ValueId, int64_t, DType>;  // x, transpose_b and the type of the matrices

  std::optional<Projection> projection(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (!(node.op == TensorOp::matmul) || node.attrs.i("transpose_a") == 1) return std::nullopt;
    const Tensor* const weights = graph_.constant(node.inputs[1]);
    const DType dtype = graph_.type(node.output).dtype;
    if (weights == nullptr || weights->shape().size() != 2 || !weights->is_contiguous() ||
        graph_.type(node.inputs[0]).rank() < 2 || is_output(node.output) || !is_library_product(context_, dtype))
      return std::nullopt;
    Projection p{id, node.inputs[1], {}, node.output, graph_.type(node.output).shape.back().value()};
    if (users_[node.output].size() == 1) add_bias(graph_.nodes[users_[node.output][0]], p);
    if (p.columns * static_cast<int64_t>(size_of(dtype)) % kRowBytes != 0 || is_output(p.result)) return std::nullopt;
    if (own_.contains(id) && !leads_to_attention(graph_, users_, p.result)) return std::nullopt;
    return readers_.take_parts(p.result) ? std::optional(p) : std::nullopt;
  }

  bool is_output(ValueId v) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
  }

  // Takes the bias that the only user of the product adds.
  void add_bias(const Node& user, Projection& p) const {
    if (!(user.op == ScalarOp::add) || !(graph_.type(user.output) == graph_.type(p.result))) return;
    const ValueId other = user.inputs[user.inputs[0] == p.result ? 1 : 0];
    const Tensor* const data = graph_.constant(other);
    if (data == nullptr || data->shape() != std::vector<int64_t>{p.columns} || !data->is_contiguous()) return;
    p.bias = other, p.result = user.output;
  }

  static std::vector<ValueId> matrices_of(const std::vector<Projection>& group) {
    std::vector<ValueId> list;
    for (const Projection& p : group) list.push_back(p.weights);
    return list;
  }

  // Leaves out groups with a matrix that is read elsewhere, unless it is as a part of the same whole.
  void drop_shared(std::map<Key, std::vector<Projection>>& groups) const {
    std::map<ValueId, std::size_t> readers;  // of each matrix, that merge
    std::map<ValueId, std::set<std::vector<ValueId>>> wholes;
    for (const auto& [key, group] : groups) {
      for (const Projection& p : group) {
        ++readers[p.weights];
        wholes[p.weights].insert(matrices_of(group));
      }
    }
    std::erase_if(groups, [&](const auto& group) {
      return std::any_of(group.second.begin(), group.second.end(), [&](const Projection& p) {
        return readers[p.weights] != users_[p.weights].size() || wholes[p.weights].size() != 1 || is_output(p.weights);
      });
    });
  }

  // The matrices side by side, as one constant for all groups of them.
  Result<ValueId> joined_matrices(const std::vector<Projection>& group, int64_t transpose_b,
                                  const std::string& origin) {
    const std::vector<ValueId> parts = matrices_of(group);
    if (const auto at = wholes_.find({parts, transpose_b}); at != wholes_.end()) return at->second;
    std::vector<const Tensor*> matrices;
    for (const ValueId part : parts) matrices.push_back(graph_.constant(part));
    FUSEC_ASSIGN(Tensor weights, joined(matrices, transpose_b == 1 ? 0 : 1));
    return wholes_[{parts, transpose_b}] = add_constant(graph_, std::move(weights), origin);
  }

  Status merge(ValueId x, int64_t transpose_b, const std::vector<Projection>& group,
               std::map<ValueId, ValueId>& replaced) {
    const std::string origin = graph_.nodes[group[0].product].origin;
    const DType dtype = graph_.type(group[0].result).dtype;
    std::vector<const Tensor*> biases;
    const bool biased = std::any_of(group.begin(), group.end(), [](const Projection& p) { return p.bias.valid(); });
    std::vector<Tensor> zeros;
    zeros.reserve(group.size());
    for (const Projection& p : group) {
      if (!biased) break;
      if (!p.bias.valid()) {
        FUSEC_ASSIGN(Tensor none, Tensor::make(dtype, {p.columns}));
        std::memset(none.data(), 0, static_cast<size_t>(p.columns) * size_of(none.dtype()));
        zeros.push_back(std::move(none));
      }
      biases.push_back(p.bias.valid() ? graph_.constant(p.bias) : &zeros.back());
    }
    FUSEC_ASSIGN(const ValueId weights, joined_matrices(group, transpose_b, origin));
    ValueId all = add_node(graph_, TensorOp::matmul, {x, weights},
                           {{"transpose_a", int64_t{0}}, {"transpose_b", transpose_b}}, origin);
    made_.push_back(graph_.values[all].producer);
    if (biased) {
      FUSEC_ASSIGN(Tensor bias, joined(biases, 0));
      all = add_node(graph_, ScalarOp::add, {all, add_constant(graph_, std::move(bias), origin)}, {}, origin);
    }
    int64_t next = 0;
    for (const Projection& p : group) {
      Shape sizes = graph_.type(all).shape, starts(sizes.size(), Dim(0));
      sizes.back() = Dim(p.columns), starts.back() = Dim(next);
      next += p.columns;
      const std::vector<int64_t> steps(sizes.size(), 1);
      replaced[p.result] =
          add_node(graph_, TensorOp::slice, {all}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}, origin);
    }
    return {};
  }

  Graph& graph_;
  const PassContext& context_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
  const std::set<NodeId> own_;                              // products that become kernels
  const ProductReaders readers_;
  Rewriter rewriter_;
  std::vector<NodeId> made_;                                            // products, some of which read parts of others
  std::map<std::pair<std::vector<ValueId>, int64_t>, ValueId> wholes_;  // by the parts and transpose_b
};

}  // namespace

Result<bool> merge_products(Graph& graph, const PassContext& context) {
  if (context.target.kind != TargetKind::cuda || !context.options.fuse || context.options.numerics == Numerics::exact)
    return false;
  return Merging(graph, context).run();
}

}  // namespace fusec::compiler
