// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/convert_precision.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>

#include "compiler/passes/passes.h"
#include "ir/eval/graph.h"
#include "ir/ops/narrow.h"
#include "ir/support/memory.h"
#include "ir/support/parallel.h"

namespace fusec::compiler {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

namespace {

constexpr int64_t kGrain = 1 << 16;  // elements that are worth a thread

// All of it is written: clearing a few hundred MB first would take as long as converting them.
Result<Tensor> uninitialized(DType dtype, const Tensor& like) {
  void* data = ir::allocate_host(static_cast<size_t>(like.num_elements()) * size_of(dtype));
  if (data == nullptr)
    return Status(StatusCode::out_of_memory, "host memory for weights in " + std::string(to_string(dtype)));
  return Tensor::share(dtype, like.shape(), data,
                       std::shared_ptr<const void>(data, [](const void* p) { std::free(const_cast<void*>(p)); }));
}

// The f32 constants of a graph in another type, converted as one array, so that threads start once. Finite numbers stay
// finite: a mask of -1e9 becomes the lowest number of f16.
class NarrowConstants {
 public:
  explicit NarrowConstants(DType to) : to_(to) {}

  Status add(NodeId id, const Tensor& wide) {
    FUSEC_ASSIGN(Tensor dense, ir::contiguous(wide));
    FUSEC_ASSIGN(Tensor narrow, uninitialized(to_, dense));
    entries_.push_back({total_, std::move(dense), narrow});
    total_ += narrow.num_elements();
    narrow_.emplace(id, std::move(narrow));
    return {};
  }

  void convert() {
    ir::parallel_for(0, total_, kGrain, [&](int64_t begin, int64_t end) {
      auto entry = std::upper_bound(entries_.begin(), entries_.end(), begin,
                                    [](int64_t at, const Entry& e) { return at < e.start; }) -
                   1;
      for (int64_t at = begin; at < end; ++entry) {
        const int64_t first = at - entry->start,
                      count = std::min(end, entry->start + entry->narrow.num_elements()) - at;
        ir::narrow_f32(to_, entry->wide.as<float>() + first, count, ir::Beyond::largest,
                       entry->narrow.as<uint16_t>() + first);
        at += count;
      }
    });
  }

  const Tensor& at(NodeId id) const { return narrow_.at(id); }

 private:
  struct Entry {
    int64_t start;  // in all elements of the constants one after the other
    Tensor wide, narrow;
  };

  DType to_;
  int64_t total_ = 0;
  std::vector<Entry> entries_;
  std::map<NodeId, Tensor> narrow_;
};

class Converter {
 public:
  Converter(const Graph& from, DType to) : from_(from), to_(to), constants_(to), map_(from.values.size()) {}

  Status convert_constants() {
    for (NodeId id : from_.order) {
      const Tensor* data = from_.constant(from_.nodes[id].output);
      if (data != nullptr && data->dtype() == DType::f32) FUSEC_TRY(constants_.add(id, *data));
    }
    constants_.convert();
    return {};
  }

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
      map_[node.output] = add_constant(out_, data->dtype() == DType::f32 ? constants_.at(id) : *data, node.origin);
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
  NarrowConstants constants_;
  Graph out_;
  ir::IdVector<ValueId, ValueId> map_;
};

}  // namespace

Result<Graph> with_precision(const Graph& graph, DType to, double* weights_ms) {
  if (!is_half(to))
    return Status(StatusCode::invalid_argument,
                  std::string("a model is converted to f16 or bf16, not ") + to_string(to));
  Converter converter(graph, to);
  const auto start = std::chrono::steady_clock::now();
  FUSEC_TRY(converter.convert_constants());
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  if (weights_ms != nullptr) *weights_ms += passed.count();
  return converter.run();
}

Result<bool> convert_precision(Graph& graph, const PassContext& context) {
  if (!context.options.precision) return false;
  FUSEC_ASSIGN(graph, with_precision(graph, *context.options.precision, context.weights_ms));
  return true;
}

}  // namespace fusec::compiler
