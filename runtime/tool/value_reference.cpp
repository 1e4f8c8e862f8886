// SPDX-License-Identifier: Apache-2.0
// The references of `fusec compare`: the evaluator on the optimized graph, ONNX Runtime, another compiled run, or
// files.

#include "runtime/tool/value_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fusec/device.h"
#include "ir/eval/graph.h"
#include "ir/ops/element.h"
#include "runtime/tool/io/tensor_file.h"
#include "runtime/tool/measure/compare.h"
#include "runtime/tool/onnxruntime_values.h"
#include "runtime/tool/reference.h"
#include "runtime/tool/value_check.h"
#include "runtime/tool/value_files.h"

namespace fusec::tool {
namespace {

using Values = std::map<ir::ValueId, Tensor>;

// Every value of the graph that a run may have, in the dtype of the graph.
Result<Values> evaluate_values(const ir::Graph& graph, const std::vector<Tensor>& inputs, bool wide) {
  const Progress progress("evaluating the reference");
  Values values;
  Status failed;
  ir::EvalOptions options;
  options.threads = 0;
  options.wide = wide;
  options.on_value = [&](ir::ValueId v, const Tensor& value) {
    if (graph.is_constant(v) || !failed.ok()) return;
    Result<Tensor> rounded = ir::round_to(value, graph.type(v).dtype);
    if (rounded.ok()) {
      values[v] = *std::move(rounded);
    } else {
      failed = rounded.status();
    }
  };
  FUSEC_TRY(ir::evaluate(graph, inputs, options).status());
  FUSEC_TRY(failed);
  return values;
}

// The values of a graph by the evaluator, and where some are f16 or bf16, in f64 and with every op's result rounded.
class EvaluatedGraph {
 public:
  static Result<EvaluatedGraph> make(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
    EvaluatedGraph e;
    const bool has_16_bits = std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) {
      return is_16_bit_float(graph.type(graph.nodes[id].output).dtype);
    });
    FUSEC_ASSIGN(e.values_, evaluate_values(graph, inputs, has_16_bits));
    if (has_16_bits) {
      FUSEC_ASSIGN(e.rounded_, evaluate_values(graph, inputs, false));
    }
    return e;
  }
  std::optional<Match> find(ir::ValueId v) const {
    const auto at = values_.find(v);
    if (at == values_.end()) return std::nullopt;
    Match match{at->second, "graph"};
    if (const auto rounded = rounded_.find(v); rounded != rounded_.end() && is_float(at->second.dtype()))
      match.rounding = compare("", rounded->second, at->second, {}).rel_l2;
    return match;
  }
  // How far rounding every op's result is from `value`; nullopt where nothing is rounded to 16 bits.
  std::optional<double> rounding(ir::ValueId v, const Tensor& value) const {
    const auto rounded = rounded_.find(v);
    if (rounded == rounded_.end() || rounded->second.dtype() != value.dtype() || !is_float(value.dtype()))
      return std::nullopt;
    return compare("", rounded->second, value, {}).rel_l2;
  }

 private:
  Values values_, rounded_;
};

// The optimized graph, value by value: the same ids, so that nothing has to be matched. What the passes have done shows
// in the outputs, which are those of the graph as imported.
class EvaluatorReference final : public ValueReference {
 public:
  static Result<std::unique_ptr<ValueReference>> make(const Model& model, const Options& options, const ValueRun& run,
                                                      const std::vector<Tensor>& inputs) {
    auto r = std::make_unique<EvaluatorReference>();
    Model imported = model;
    if (options.precision) {
      FUSEC_ASSIGN(imported, in_precision(model, options));
    }
    FUSEC_ASSIGN(r->expected_, compute_expected(imported, inputs));
    FUSEC_ASSIGN(r->graph_, EvaluatedGraph::make(run.graph(), inputs));
    return std::unique_ptr<ValueReference>(std::move(r));
  }

  Result<std::optional<Match>> find(const ValueInfo& info) override { return graph_.find(info.id); }
  Result<std::optional<Match>> output(std::size_t i) override {
    Match match{expected_.outputs[i], "output"};
    if (i < expected_.rounding.size()) match.rounding = expected_.rounding[i];
    return std::optional<Match>(std::move(match));
  }
  // Those inside regions, which are counted as such.
  std::size_t unmatched() const override { return 0; }

 private:
  Expected expected_;
  EvaluatedGraph graph_;
};

// A node of the model may have become several, other ones or none. Its value in ONNX Runtime counts for one of the
// optimized graph with the same origin where the evaluator says that the two are the same number: so a value that
// passes have changed, such as a convolution with the scale of a normalization in its weights, is not compared.
class OnnxRuntimeReference final : public ValueReference {
 public:
  static Result<std::unique_ptr<ValueReference>> make(const AgainstFlags& flags, const Model& model,
                                                      const ValueRun& run, const std::vector<Tensor>& inputs) {
    auto r = std::make_unique<OnnxRuntimeReference>();
    std::set<std::string> origins;
    for (std::size_t i = 0; i < run.regions(); ++i)
      for (const ir::ValueId v : run.region(i).outputs) origins.insert(run.graph().producer(v)->origin);
    FUSEC_ASSIGN(r->values_, run_onnxruntime(flags, flags.python, model, inputs, origins));
    FUSEC_ASSIGN(r->graph_, EvaluatedGraph::make(run.graph(), inputs));
    r->outputs_ = model.outputs;
    r->output_ids_ = run.graph().outputs;
    return std::unique_ptr<ValueReference>(std::move(r));
  }

  Result<std::optional<Match>> find(const ValueInfo& info) override {
    const std::optional<Match> evaluated = graph_.find(info.id);
    if (!evaluated) return evaluated;
    const auto [begin, end] = values_.by_origin.equal_range(info.origin);
    for (auto at = begin; at != end; ++at) {
      FUSEC_ASSIGN(const std::optional<Tensor> typed, in_type(at->second, evaluated->value.dtype()));
      if (!typed) continue;
      FUSEC_ASSIGN(const Tensor moved, channels_last(*typed));
      for (const Tensor& value : {*typed, moved}) {
        if (!diff_values(value, evaluated->value, evaluated->rounding, {}).why.empty()) continue;
        ++matched_;
        return std::optional<Match>(Match{value, "node", graph_.rounding(info.id, value)});
      }
    }
    return std::optional<Match>();
  }
  Result<std::optional<Match>> output(std::size_t i) override {
    const auto at = values_.outputs.find(outputs_[i].name);
    if (at == values_.outputs.end()) return std::optional<Match>();
    FUSEC_ASSIGN(std::optional<Tensor> value, in_type(at->second, outputs_[i].dtype));
    if (!value) return std::optional<Match>();
    const std::optional<double> rounding = graph_.rounding(output_ids_[i], *value);
    return std::optional<Match>(Match{*std::move(value), "output", rounding});
  }
  std::size_t unmatched() const override { return values_.by_origin.size() - matched_; }

 private:
  // With the axis of channels behind the others, as passes lay values of convolutions.
  static Result<Tensor> channels_last(const Tensor& value) {
    std::vector<int64_t> shape = value.shape(), strides = value.strides();
    if (shape.size() < 3) return value;
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
    FUSEC_ASSIGN(Tensor moved, Tensor::make(value.dtype(), shape));
    FUSEC_TRY(copy(Tensor::borrow(value.dtype(), shape, const_cast<void*>(value.data()), strides), moved));
    return moved;
  }

  // nullopt: that would change more than how a float is rounded.
  static Result<std::optional<Tensor>> in_type(const Tensor& value, DType dtype) {
    if (value.dtype() == dtype) return std::optional<Tensor>(value);
    if (is_float(value.dtype()) && is_float(dtype)) {
      FUSEC_ASSIGN(Tensor rounded, ir::round_to(value, dtype));
      return std::optional<Tensor>(std::move(rounded));
    }
    Result<Tensor> same_bits = as_dtype(value, dtype, "");
    return same_bits.ok() ? std::optional<Tensor>(*std::move(same_bits)) : std::nullopt;
  }

  OnnxRuntimeValues values_;
  EvaluatedGraph graph_;
  std::vector<TensorInfo> outputs_;
  std::vector<ir::ValueId> output_ids_;
  std::size_t matched_ = 0;
};

// Values by ValueKeys. Own keys count where each side has one value with them.
class KeyedReference : public ValueReference {
 public:
  Result<std::optional<Match>> find(const ValueInfo& info) override {
    std::size_t at = 0;
    std::string by = "key";
    if (const auto same = by_key_.find(info.key); same != by_key_.end()) {
      at = same->second;
    } else if (own_here_.count(info.own_key) == 1 && by_own_key_.count(info.own_key) == 1) {
      at = by_own_key_.find(info.own_key)->second;
      by = "own key";
    } else {
      return std::optional<Match>();
    }
    found_.insert(at);
    FUSEC_ASSIGN(Tensor value, value_at(at));
    return std::optional<Match>(Match{std::move(value), by});
  }
  std::size_t unmatched() const override { return count_ - found_.size(); }

 protected:
  explicit KeyedReference(const ValueRun& run) {
    for (const auto& [v, keys] : make_value_keys(run.graph())) own_here_.insert(keys.own_key);
  }
  void add(const std::string& key, const std::string& own_key) {
    by_key_.emplace(key, count_);
    by_own_key_.emplace(own_key, count_);
    ++count_;
  }
  virtual Result<Tensor> value_at(std::size_t i) = 0;

 private:
  std::multiset<std::string> own_here_;
  std::map<std::string, std::size_t> by_key_;
  std::multimap<std::string, std::size_t> by_own_key_;
  std::set<std::size_t> found_;
  std::size_t count_ = 0;
};

class CompiledReference final : public KeyedReference {
 public:
  explicit CompiledReference(const ValueRun& run) : KeyedReference(run) {}
  static Result<std::unique_ptr<ValueReference>> make(const Model& model, const Options& options, const ValueRun& run,
                                                      const std::vector<Tensor>& inputs) {
    auto r = std::make_unique<CompiledReference>(run);
    FUSEC_ASSIGN(const ValueRun other, ValueRun::make(model, options));
    FUSEC_ASSIGN(r->outputs_, other.run(inputs, [&](const ValueInfo& info, const Tensor& value) -> Status {
      r->add(info.key, info.own_key);
      r->values_.push_back(value);
      return {};
    }));
    return std::unique_ptr<ValueReference>(std::move(r));
  }
  Result<std::optional<Match>> output(std::size_t i) override {
    return std::optional<Match>(Match{outputs_[i], "output"});
  }

 private:
  Result<Tensor> value_at(std::size_t i) override { return values_[i]; }
  std::vector<Tensor> values_, outputs_;
};

class StoredReference final : public KeyedReference {
 public:
  explicit StoredReference(const ValueRun& run) : KeyedReference(run), run_(run) {}
  static Result<std::unique_ptr<ValueReference>> make(const std::string& dir, const ValueRun& run,
                                                      const std::vector<Tensor>& inputs) {
    auto r = std::make_unique<StoredReference>(run);
    FUSEC_ASSIGN(r->stored_, read_value_index(dir));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = run.engine().inputs()[i].name;
      const auto there = r->stored_.input_hashes.find(name);
      if (there == r->stored_.input_hashes.end() || there->second == hash_of(inputs[i])) continue;
      return Status(StatusCode::invalid_argument,
                    fmt::format("'{}' was written by a run with another input '{}': give the same --input, --shape and "
                                "--random-weights",
                                dir, name));
    }
    for (const StoredValue& value : r->stored_.values) r->add(value.key, value.own_key);
    return std::unique_ptr<ValueReference>(std::move(r));
  }
  Result<std::optional<Match>> output(std::size_t i) override {
    if (i >= stored_.outputs.size()) return std::optional<Match>();
    FUSEC_ASSIGN(Tensor value, read(stored_.outputs[i], run_.engine().outputs()[i].dtype));
    return std::optional<Match>(Match{std::move(value), "output"});
  }

 private:
  static Result<Tensor> read(const StoredValue& stored, DType dtype) {
    FUSEC_ASSIGN(const Tensor tensor, read_npy(stored.path));
    return as_dtype(tensor, dtype, fmt::format("'{}'", stored.path));
  }
  Result<Tensor> value_at(std::size_t i) override { return read_npy(stored_.values[i].path); }
  const ValueRun& run_;
  StoredValues stored_;
};

}  // namespace

Result<std::unique_ptr<ValueReference>> make_value_reference(const AgainstFlags& flags, const Model& model,
                                                             const Options& options, const ValueRun& run,
                                                             const std::vector<Tensor>& inputs) {
  const std::string& against = flags.against;
  if (against == "evaluator") return EvaluatorReference::make(model, options, run, inputs);
  if (against == "onnxruntime") return OnnxRuntimeReference::make(flags, model, run, inputs);
  if (against != "unfused" && against != "cpu") return StoredReference::make(against, run, inputs);
  Options other = options;
  other.dump_dir.clear();
  if (against == "cpu") {
    if (options.device == "cpu") {
      return Status(
          StatusCode::invalid_argument,
          "--against cpu compares another device with the CPU; on the CPU use evaluator, unfused or a folder");
    }
    other.device = "cpu";
    other.target.clear();
  } else {
    other.fuse = false;
  }
  return CompiledReference::make(model, other, run, inputs);
}

namespace {

constexpr double kValueTimesRounding = 1.5;  // as fusec verify allows

template <class T>
void find_worst(const Tensor& got, const Tensor& expected, ValueDiff& diff) {
  double worst = -1;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    T a, b;
    ir::load_elements(got.dtype(), got.data(), i, 1, 1, &a);
    ir::load_elements(expected.dtype(), expected.data(), i, 1, 1, &b);
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    const bool both_nan = std::isnan(x) && std::isnan(y);
    double delta = a == b || both_nan ? 0 : std::abs(x - y);
    if (!std::isfinite(delta)) delta = INFINITY;
    if (delta <= worst) continue;
    worst = delta;
    diff.worst = index_of(i, expected.shape());
    diff.got = x, diff.expected = y;
  }
}

}  // namespace

ValueDiff diff_values(const Tensor& got, const Tensor& expected, std::optional<double> rounding,
                      std::optional<double> tolerance) {
  ValueDiff diff;
  diff.tolerance = tolerance.value_or(default_tolerance(expected.dtype()));
  if (!tolerance && rounding) diff.tolerance = std::max(diff.tolerance, kValueTimesRounding * *rounding);
  const OutputDiff whole = compare("", got, expected, diff.tolerance);
  diff.rel_l2 = whole.rel_l2, diff.max_abs = whole.max_abs;
  if (whole.ok || whole.why.ends_with("checks nothing")) return diff;
  diff.why = whole.why;
  if (got.shape() == expected.shape() && got.dtype() == expected.dtype())
    ir::visit_compute(expected.dtype(), [&]<class T>(T) { find_worst<T>(got, expected, diff); });
  return diff;
}

}  // namespace fusec::tool
