// SPDX-License-Identifier: Apache-2.0
// Optimize pass: makes one product of those that multiply one value by constant matrices on the way to an attention,
// such as the projections to queries, keys and values. The attention reads its parts where they lie.
//
//   x w1 + b1, x w2 + b2, ...  ->  slices of x [w1 w2 ...] + [b1 b2 ...]

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kColumns = 8;  // of 16 bits: a library reads rows that begin at multiples of 16 bytes

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
  explicit Merging(Graph& graph) : graph_(graph), users_(users(graph)), rewriter_(graph) {}

  Result<bool> run() {
    std::map<std::pair<ValueId, int64_t>, std::vector<Projection>> groups;  // by x and transpose_b
    for (const NodeId id : graph_.order) {
      const std::optional<Projection> found = projection(id);
      const Node& node = graph_.nodes[id];
      if (found) groups[{node.inputs[0], node.attrs.i("transpose_b")}].push_back(*found);
    }
    std::map<ValueId, ValueId> replaced;
    for (const auto& [key, group] : groups) {
      if (group.size() > 1) FUSEC_TRY(merge(key.first, key.second, group, replaced));
    }
    if (replaced.empty()) return false;
    rewriter_.walk([&](NodeId id) {
      const ValueId v = graph_.nodes[id].output;
      if (const auto at = replaced.find(v); at != replaced.end()) rewriter_.replace(v, at->second);
    });
    return true;
  }

 private:
  std::optional<Projection> projection(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (!(node.op == TensorOp::matmul) || node.attrs.i("transpose_a") == 1) return std::nullopt;
    const Tensor* const weights = graph_.constant(node.inputs[1]);
    if (weights == nullptr || weights->shape().size() != 2 || !weights->is_contiguous() ||
        size_of(weights->dtype()) != 2 || graph_.type(node.inputs[0]).rank() < 2 || is_output(node.output))
      return std::nullopt;
    Projection p{id, node.inputs[1], {}, node.output, graph_.type(node.output).shape.back().value()};
    if (users_[node.output].size() == 1) add_bias(graph_.nodes[users_[node.output][0]], p);
    if (p.columns % kColumns != 0 || is_output(p.result) || !leads_to_attention(graph_, users_, p.result))
      return std::nullopt;
    return p;
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

  Status merge(ValueId x, int64_t transpose_b, const std::vector<Projection>& group,
               std::map<ValueId, ValueId>& replaced) {
    const std::string origin = graph_.nodes[group[0].product].origin;
    std::vector<const Tensor*> matrices, biases;
    const bool biased = std::any_of(group.begin(), group.end(), [](const Projection& p) { return p.bias.valid(); });
    std::vector<Tensor> zeros;
    zeros.reserve(group.size());
    for (const Projection& p : group) {
      matrices.push_back(graph_.constant(p.weights));
      if (!biased) continue;
      if (!p.bias.valid()) {
        FUSEC_ASSIGN(Tensor none, Tensor::make(matrices[0]->dtype(), {p.columns}));
        std::memset(none.data(), 0, static_cast<size_t>(p.columns) * size_of(none.dtype()));
        zeros.push_back(std::move(none));
      }
      biases.push_back(p.bias.valid() ? graph_.constant(p.bias) : &zeros.back());
    }
    FUSEC_ASSIGN(Tensor weights, joined(matrices, transpose_b == 1 ? 0 : 1));
    ValueId all = add_node(graph_, TensorOp::matmul, {x, add_constant(graph_, std::move(weights), origin)},
                           {{"transpose_a", int64_t{0}}, {"transpose_b", transpose_b}}, origin);
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
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
  Rewriter rewriter_;
};

}  // namespace

Result<bool> merge_products(Graph& graph, const PassContext&) { return Merging(graph).run(); }

}  // namespace fusec::compiler
