// SPDX-License-Identifier: Apache-2.0
// The references of `fusec compare`: the evaluator on the optimized graph, another compiled run, or files.

#include "runtime/tool/value_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/eval/graph.h"
#include "ir/ops/element.h"
#include "runtime/tool/io/tensor_file.h"
#include "runtime/tool/measure/compare.h"
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
    const ir::Graph& graph = run.graph();
    r->has_16_bits_ = std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) {
      return is_16_bit_float(graph.type(graph.nodes[id].output).dtype);
    });
    FUSEC_ASSIGN(r->values_, evaluate_values(graph, inputs, r->has_16_bits_));
    if (r->has_16_bits_) {
      FUSEC_ASSIGN(r->rounded_, evaluate_values(graph, inputs, false));
    }
    return std::unique_ptr<ValueReference>(std::move(r));
  }

  Result<std::optional<Match>> find(const ValueInfo& info) override {
    const auto at = values_.find(info.id);
    if (at == values_.end()) return std::optional<Match>();
    Match match{at->second, "graph"};
    if (const auto rounded = rounded_.find(info.id); rounded != rounded_.end() && is_float(at->second.dtype()))
      match.rounding = compare("", rounded->second, at->second, {}).rel_l2;
    return std::optional<Match>(std::move(match));
  }
  Result<std::optional<Match>> output(std::size_t i) override {
    Match match{expected_.outputs[i], "output"};
    if (i < expected_.rounding.size()) match.rounding = expected_.rounding[i];
    return std::optional<Match>(std::move(match));
  }
  // Those inside regions, which are counted as such.
  std::size_t unmatched() const override { return 0; }

 private:
  Expected expected_;
  bool has_16_bits_ = false;
  Values values_, rounded_;
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

Result<std::unique_ptr<ValueReference>> make_value_reference(const std::string& against, const Model& model,
                                                             const Options& options, const ValueRun& run,
                                                             const std::vector<Tensor>& inputs) {
  if (against == "evaluator") return EvaluatorReference::make(model, options, run, inputs);
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
