// SPDX-License-Identifier: Apache-2.0
// Produces the expected outputs of a model, from the evaluator or from files, and judges compiled outputs against them.
// For models with f16 or bf16 values the reference is evaluated in f64, and outputs must stay within 1.5 times the
// rounding error of the evaluator in 16 bits.

#include "runtime/tool/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "compiler/passes/pipeline.h"
#include "runtime/device/host/detect.h"
#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> file_for(const std::string& dir, const std::string& stem) {
  for (const char* suffix : {".npy", ".pb"}) {
    const fs::path path = fs::path(dir) / (stem + suffix);
    if (fs::exists(path)) return path.string();
  }
  return std::nullopt;
}

std::string make_stem(const std::string& name) {
  std::string out = name;
  for (char& c : out) {
    if (c == '/' || c == '\\' || c == ':' || c == '\0') c = '_';
  }
  return out;
}

std::optional<std::string> find_output_file(const std::string& dir, const char* kind, const TensorInfo& info,
                                            std::size_t i) {
  if (auto named = file_for(dir, make_stem(info.name))) return named;
  return file_for(dir, fmt::format("{}_{}", kind, i));
}

}  // namespace

bool has_16_bit_floats(const Model& model) {
  const ir::Graph& graph = *model.graph;
  return std::any_of(graph.order.begin(), graph.order.end(),
                     [&](ir::NodeId id) { return is_16_bit_float(graph.type(graph.nodes[id].output).dtype); });
}

Result<Expected> compute_expected(const Model& model, const std::vector<Tensor>& inputs) {
  Expected expected;
  FUSEC_ASSIGN(expected.outputs, evaluate_model(model, inputs, false));
  if (!has_16_bit_floats(model)) return expected;
  FUSEC_ASSIGN(const std::vector<Tensor> wide, evaluate_model(model, inputs, true));
  expected.rounding.resize(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (!is_float(wide[i].dtype())) continue;
    expected.rounding[i] = compare("", expected.outputs[i], wide[i], {}).rel_l2;
    expected.outputs[i] = wide[i];
  }
  return expected;
}

Result<Model> in_precision(const Model& model, const Options& options) {
  Options until = options;
  until.stop_after_passes = compiler::passes_up_to("convert_precision");
  until.disabled_passes.clear();
  until.dump_dir.clear();
  FUSEC_ASSIGN(const Target target, runtime::host_target({}));
  Model converted = model;
  ir::Graph graph = *model.graph;
  FUSEC_TRY(compiler::optimize(graph, target, until));
  converted.graph = std::make_shared<const ir::Graph>(std::move(graph));
  return converted;
}

Result<std::vector<Tensor>> read_references(const Model& model, const std::string& dir) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const auto path = find_output_file(dir, "output", model.outputs[i], i);
    if (!path) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("'{}' has neither {}.npy nor output_{}.npy (or .pb) for output '{}'", dir,
                                make_stem(model.outputs[i].name), i, model.outputs[i].name));
    }
    FUSEC_ASSIGN(const Tensor tensor, read_tensor_file(*path));
    FUSEC_ASSIGN(Tensor typed, as_dtype(tensor, model.outputs[i].dtype, fmt::format("'{}'", *path)));
    out.push_back(std::move(typed));
  }
  return out;
}

Status add_input_files(const Model& model, const std::string& dir, Request& request) {
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const TensorInfo& info = model.inputs[i];
    const auto path = file_for(dir, fmt::format("input_{}", i));
    if (request.inputs.contains(info.name) || !path) continue;
    FUSEC_ASSIGN(const Tensor tensor, read_tensor_file(*path));
    InputSpec spec;
    spec.kind = InputSpec::Kind::file;
    FUSEC_ASSIGN(spec.data, as_dtype(tensor, info.dtype, fmt::format("'{}' for input '{}'", *path, info.name)));
    request.inputs[info.name] = std::move(spec);
  }
  return {};
}

namespace {

constexpr double kTimesRounding = 1.5;
constexpr double kNoise = 1e-5;  // rel_l2 below which rounding is not compared: a few ulps of f32

// One unit is what another order of a sum may make of a result's own rounding.
bool is_more_than_rounding(const OutputDiff& diff) {
  return diff.max_ulp > 1 && diff.rel_l2 > kNoise && diff.rel_l2 > kTimesRounding * *diff.rounding;
}

}  // namespace

void OutputComparison::add(const std::vector<Tensor>& got, const Expected& expected) {
  outputs_.resize(expected.outputs.size());
  ++samples_;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Sums& sums = outputs_[i];
    OutputDiff diff =
        compare(model_.outputs[i].name, got[i], expected.outputs[i], std::numeric_limits<double>::infinity());
    if (i < expected.rounding.size()) diff.rounding = expected.rounding[i];
    sums.squares += diff.rel_l2 * diff.rel_l2;
    sums.rounding_squares += diff.rounding.value_or(0) * diff.rounding.value_or(0);
    sums.tolerance = tolerance_.value_or(default_tolerance(expected.outputs[i].dtype()));
    if (samples_ == 1) {
      sums.worst = std::move(diff);
      continue;
    }
    sums.worst.max_ulp = std::max(sums.worst.max_ulp, diff.max_ulp);
    sums.worst.max_abs = std::max(sums.worst.max_abs, diff.max_abs);
    sums.worst.ref_rms = std::max(sums.worst.ref_rms, diff.ref_rms);
    if (sums.worst.ok && !diff.ok) sums.worst.ok = false, sums.worst.why = diff.why;
  }
}

ComparisonResult OutputComparison::result() const {
  ComparisonResult result;
  for (const Sums& sums : outputs_) {
    OutputDiff diff = sums.worst;
    diff.rel_l2 = std::sqrt(sums.squares / samples_);
    if (diff.rounding) diff.rounding = std::sqrt(sums.rounding_squares / samples_);
    if (diff.ok && !(diff.rel_l2 <= sums.tolerance)) {
      diff.why = fmt::format("rel_l2 {:.3g} > {:.3g}", diff.rel_l2, sums.tolerance);
    } else if (diff.ok && diff.rounding && is_more_than_rounding(diff)) {
      diff.why = fmt::format("rel_l2 {:.3g} > {} times {:.3g}, which rounding every op gives", diff.rel_l2,
                             kTimesRounding, *diff.rounding);
    }
    diff.ok = diff.why.empty();
    result.ok = result.ok && diff.ok;
    result.worst_rel_l2 = std::max(result.worst_rel_l2, diff.rel_l2);
    result.worst_ulp = std::max(result.worst_ulp, diff.max_ulp);
    result.outputs.push_back(std::move(diff));
  }
  return result;
}

ComparisonResult compare_to_expected(const Model& model, const std::vector<Tensor>& got, const Expected& expected,
                                     std::optional<double> tolerance) {
  OutputComparison one(model, tolerance);
  one.add(got, expected);
  return one.result();
}

Json make_json(const ComparisonResult& result) {
  Json outputs = Json::array();
  for (const OutputDiff& diff : result.outputs) {
    Json entry = {{"name", diff.name},       {"ok", diff.ok},           {"rel_l2", diff.rel_l2},
                  {"max_ulp", diff.max_ulp}, {"max_abs", diff.max_abs}, {"ref_rms", diff.ref_rms}};
    if (diff.rounding) entry["rounding_rel_l2"] = *diff.rounding;
    if (!diff.ok) entry["why"] = diff.why;
    outputs.push_back(std::move(entry));
  }
  return {
      {"ok", result.ok}, {"worst_rel_l2", result.worst_rel_l2}, {"worst_ulp", result.worst_ulp}, {"outputs", outputs}};
}

}  // namespace fusec::tool
