// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/convert_precision.h"

#include <algorithm>
#include <cmath>

#include "compiler/passes/passes.h"
#include "ir/eval/element.h"
#include "ir/eval/graph.h"
#include "ir/support/parallel.h"

namespace fusec::compiler {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

namespace {

constexpr float kLargestHalf = 65504;
constexpr int64_t kChunk = 1024, kGrain = 1 << 16;  // elements converted at a time; by one thread

// Finite numbers stay finite: a mask of -1e9 becomes the lowest number of f16.
Result<Tensor> narrowed(const Tensor& wide, DType to) {
  FUSEC_ASSIGN(Tensor narrow, Tensor::make(to, wide.shape()));
  FUSEC_ASSIGN(const Tensor dense, ir::contiguous(wide));
  const float* from = dense.as<float>();
  void* const out = narrow.data();
  ir::parallel_for(0, dense.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
    float chunk[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t count = std::min(kChunk, end - at);
      for (int64_t i = 0; i < count; ++i) {
        const bool clamps = to == DType::f16 && std::isfinite(from[at + i]);
        chunk[i] = clamps ? std::clamp(from[at + i], -kLargestHalf, kLargestHalf) : from[at + i];
      }
      ir::store_elements(to, out, at, 1, count, chunk);
    }
  });
  return narrow;
}

class Converter {
 public:
  Converter(const Graph& from, DType to) : from_(from), to_(to), map_(from.values.size()) {}

  Result<Graph> run() {
    out_.name = from_.name;
    out_.symbols = from_.symbols;
    out_.imported_ops = from_.imported_ops;
    for (ValueId v : from_.inputs) {
      const ValueId input = add_input(out_, from_.values[v].name, from_.type(v));
      map_[v] = from_.type(v).dtype == DType::f32 ? cast(input, to_, "") : input;
    }
    for (NodeId id : from_.order) FUSEC_TRY(convert(id));
    for (size_t i = 0; i < from_.outputs.size(); ++i) {
      const ValueId v = from_.outputs[i];
      const bool was_f32 = from_.type(v).dtype == DType::f32;
      add_output(out_, was_f32 ? cast(map_[v], DType::f32, "") : map_[v], from_.output_names[i]);
    }
    return std::move(out_);
  }

 private:
  ValueId cast(ValueId v, DType dtype, const std::string& origin) {
    if (out_.type(v).dtype == dtype) return v;
    return add_node(out_, ir::ScalarOp::cast, {v}, {{"to", dtype}}, origin);
  }

  DType converted(DType dtype) const { return dtype == DType::f32 ? to_ : dtype; }

  Status convert(NodeId id) {
    const Node& node = from_.nodes[id];
    if (const Tensor* data = from_.constant(node.output)) {
      Tensor kept = *data;
      if (data->dtype() == DType::f32) {
        FUSEC_ASSIGN(kept, narrowed(*data, to_));
      }
      map_[node.output] = add_constant(out_, std::move(kept), node.origin);
      return {};
    }
    ir::Attrs attrs = node.attrs;
    for (const char* name : {"to", "dtype"})
      if (attrs.find(name) != nullptr) attrs.set(name, converted(attrs.dtype(name)));
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map_[v]);
    if (node.op == ir::ScalarOp::cast && out_.type(inputs[0]).dtype == attrs.dtype("to")) {
      map_[node.output] = inputs[0];
      return {};
    }
    map_[node.output] = add_node(out_, node.op, inputs, attrs, node.origin);
    return {};
  }

  const Graph& from_;
  DType to_;
  Graph out_;
  ir::IdVector<ValueId, ValueId> map_;
};

}  // namespace

Result<Graph> with_precision(const Graph& graph, DType to) {
  if (!is_half(to)) return Status(StatusCode::invalid_argument, std::string("a model is converted to f16 or bf16, not ") + to_string(to));
  return Converter(graph, to).run();
}

Result<bool> convert_precision(Graph& graph, const PassContext& context) {
  if (!context.options.precision) return false;
  FUSEC_ASSIGN(graph, with_precision(graph, *context.options.precision));
  return true;
}

}  // namespace fusec::compiler
