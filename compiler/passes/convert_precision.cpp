// SPDX-License-Identifier: Apache-2.0
// Optimize pass: converts the f32 weights and activations of a model to f16 or bf16 by building a new graph. It keeps
// the types of inputs and outputs, values that stand for integers, and nodes that Options::keep_f32 names.

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/wide_values.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/support/memory.h"
#include "ir/support/parallel.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements that are worth a thread

// Allocates without clearing, because every element is written: clearing a few hundred MB would take as long as
// converting them.
Result<Tensor> uninitialized(DType dtype, const Tensor& like) {
  void* data = ir::allocate_host(static_cast<size_t>(like.num_elements()) * size_of(dtype));
  if (data == nullptr)
    return Status(StatusCode::out_of_memory, "host memory for weights in " + std::string(to_string(dtype)));
  return Tensor::share(dtype, like.shape(), data,
                       std::shared_ptr<const void>(data, [](const void* p) { std::free(const_cast<void*>(p)); }));
}

// Converts the f32 constants of a graph to another type as one array, so that threads start once. Finite numbers stay
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

  const Tensor* find(NodeId id) const {
    const auto it = narrow_.find(id);
    return it == narrow_.end() ? nullptr : &it->second;
  }

 private:
  struct Entry {
    int64_t start;  // position in the concatenation of all constants
    Tensor wide, narrow;
  };

  DType to_;
  int64_t total_ = 0;
  std::vector<Entry> entries_;
  std::map<NodeId, Tensor> narrow_;
};

double largest(DType half) { return half == DType::f16 ? 65504.0 : 0x1.FEp127; }

class Converter {
 public:
  Converter(const Graph& from, DType to, const std::vector<std::string>& keep_f32)
      : from_(from),
        to_(to),
        keep_f32_(keep_f32),
        wide_values_(from, std::min(0x1p24, largest(to))),
        constants_(to),
        narrow_(from.values.size()),
        wide_(from.values.size()) {}

  Status convert_constants() {
    const ir::IdVector<ValueId, char> read = read_narrow();
    for (NodeId id : from_.order) {
      const ValueId v = from_.nodes[id].output;
      if (is_f32(v) && from_.is_constant(v) && read[v]) FUSEC_TRY(constants_.add(id, *from_.constant(v)));
    }
    constants_.convert();
    return {};
  }

  Result<Graph> run() {
    out_.name = from_.name;
    out_.symbols = from_.symbols;
    out_.limits = from_.limits;
    out_.imported_ops = from_.imported_ops;
    for (ValueId v : from_.inputs) made(v, is_f32(v)) = add_input(out_, from_.values[v].name, from_.type(v));
    for (NodeId id : from_.order) convert(id);
    for (size_t i = 0; i < from_.outputs.size(); ++i) {
      const ValueId v = from_.outputs[i];
      add_output(out_, is_f32(v) && !wide_[v].valid() ? cast(narrow_[v], DType::f32, "") : made(v, is_f32(v)),
                 from_.output_names[i]);
    }
    return std::move(out_);
  }

 private:
  bool is_f32(ValueId v) const { return from_.type(v).dtype == DType::f32; }

  // The converted value, in f32 if `wide`. Values of types other than f32 are not `wide`.
  ValueId& made(ValueId v, bool wide) { return wide ? wide_[v] : narrow_[v]; }

  ValueId cast(ValueId v, DType dtype, const std::string& origin) {
    if (out_.type(v).dtype == dtype) return v;
    return add_node(out_, ir::ScalarOp::cast, {v}, {{"to", dtype}}, origin);
  }

  // A value of the model in the type in which a user of it computes.
  ValueId read(ValueId v, bool wide) {
    wide = wide && is_f32(v);
    if (made(v, wide).valid()) return made(v, wide);
    if (wide && from_.is_constant(v))
      return wide_[v] = add_constant(out_, *from_.constant(v), from_.producer(v)->origin);
    return made(v, wide) = cast(made(v, !wide), wide ? DType::f32 : to_, "");
  }

  bool is_kept(const Node& node) const {
    return std::any_of(keep_f32_.begin(), keep_f32_.end(), [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), node.origin.c_str(), 0) == 0;
    });
  }

  bool computes_wide(const Node& node) const { return is_kept(node) || wide_values_.computes_wide(node); }

  // Whether a node reads an operand in f32. If its result may become 16 bits, a constant beyond the range of that type
  // is read in 16 bits, so that a mask of -1e9 stays finite.
  bool reads_wide(const Node& node, ValueId v) const {
    if (!computes_wide(node)) return false;
    if (is_kept(node)) return true;
    return !is_f32(node.output) || wide_values_.is_whole(node.output) || !is_beyond(v);
  }

  bool is_beyond(ValueId v) const {
    const Tensor* data = from_.constant(v);
    if (data == nullptr || !is_f32(v)) return false;
    const float* first = data->as<float>();
    return std::any_of(first, first + data->num_elements(),
                       [&](float x) { return std::isfinite(x) && std::fabs(x) > largest(to_); });
  }

  // The values that a node or an output reads in 16 bits.
  ir::IdVector<ValueId, char> read_narrow() const {
    ir::IdVector<ValueId, char> read(from_.values.size());
    for (NodeId id : from_.order) {
      for (ValueId v : from_.nodes[id].inputs) {
        if (!reads_wide(from_.nodes[id], v)) read[v] = true;
      }
    }
    for (ValueId v : from_.outputs) read[v] = true;
    return read;
  }

  void convert(NodeId id) {
    const Node& node = from_.nodes[id];
    const bool wide = is_f32(node.output) && computes_wide(node);
    if (const Tensor* data = from_.constant(node.output)) {
      if (!is_f32(node.output)) narrow_[node.output] = add_constant(out_, *data, node.origin);
      if (const Tensor* narrow = constants_.find(id)) narrow_[node.output] = add_constant(out_, *narrow, node.origin);
      return;
    }
    ir::Attrs attrs = node.attrs;
    for (const char* name : {"to", "dtype"})
      if (attrs.find(name) != nullptr && attrs.dtype(name) == DType::f32) attrs.set(name, wide ? DType::f32 : to_);
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(operand(node, v));
    const bool casts_nothing = node.op == ir::ScalarOp::cast && out_.type(inputs[0]).dtype == attrs.dtype("to");
    made(node.output, wide) = casts_nothing ? inputs[0] : add_node(out_, node.op, inputs, attrs, node.origin);
  }

  ValueId operand(const Node& node, ValueId v) {
    if (node.op == ir::ScalarOp::cast && !from_.is_constant(v)) return made(v, wide_[v].valid());
    const bool wide = reads_wide(node, v);
    const ValueId read_as = read(v, wide);
    return computes_wide(node) && is_f32(v) ? cast(read_as, DType::f32, node.origin) : read_as;
  }

  const Graph& from_;
  DType to_;
  const std::vector<std::string>& keep_f32_;
  WideValues wide_values_;
  NarrowConstants constants_;
  Graph out_;
  ir::IdVector<ValueId, ValueId> narrow_, wide_;  // indexed by values of the model
};

}  // namespace

Result<Graph> with_precision(const Graph& graph, DType to, double* weights_ms,
                             const std::vector<std::string>& keep_f32) {
  if (!is_16_bit_float(to))
    return Status(StatusCode::invalid_argument,
                  std::string("a model is converted to f16 or bf16, not ") + to_string(to));
  Converter converter(graph, to, keep_f32);
  const auto start = std::chrono::steady_clock::now();
  FUSEC_TRY(converter.convert_constants());
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  if (weights_ms != nullptr) *weights_ms += passed.count();
  return converter.run();
}

Result<bool> convert_precision(Graph& graph, const PassContext& context) {
  if (!context.options.precision) return false;
  FUSEC_ASSIGN(graph, with_precision(graph, *context.options.precision, context.weights_ms, context.options.keep_f32));
  return true;
}

}  // namespace fusec::compiler
