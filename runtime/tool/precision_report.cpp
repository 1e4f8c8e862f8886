// SPDX-License-Identifier: Apache-2.0
// Measures what each region of a model in 16 bits adds to the error, and searches for the regions to keep in f32.

#include "runtime/tool/precision_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "runtime/tool/measure/compare.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/reference.h"
#include "runtime/tool/value_run.h"

namespace fusec::tool {
namespace {

constexpr int kProfiles = 3;         // of which the fastest counts
constexpr std::size_t kPrunes = 24;  // tries to leave regions out, at most

using WideValueMap = std::map<ir::ValueId, Tensor>;

Result<WideValueMap> values_in_f32(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  WideValueMap values;
  Status failed;
  ir::EvalOptions options;
  options.threads = 0;
  options.on_value = [&](ir::ValueId v, const Tensor& value) {
    if (graph.is_constant(v) || !is_float(value.dtype()) || !failed.ok()) return;
    Result<Tensor> wide = ir::round_to(value, DType::f32);
    if (wide.ok()) {
      values[v] = *std::move(wide);
    } else {
      failed = wide.status();
    }
  };
  FUSEC_TRY(ir::evaluate(graph, inputs, options).status());
  FUSEC_TRY(failed);
  return values;
}

// The values of the two graphs that stand for each other: convert_precision keeps the order of nodes, and adds and
// drops casts alone.
std::vector<std::pair<ir::ValueId, ir::ValueId>> pair_values(const ir::Graph& wide, const ir::Graph& narrow) {
  std::vector<std::pair<ir::ValueId, ir::ValueId>> pairs;
  std::size_t at = 0;
  for (const ir::NodeId id : wide.order) {
    const ir::Node& node = wide.nodes[id];
    if (wide.is_constant(node.output) || node.op == ir::Op(ir::ScalarOp::cast)) continue;
    const auto same = [&](const ir::Node& other) { return other.op == node.op && other.origin == node.origin; };
    while (at < narrow.order.size() && !same(narrow.nodes[narrow.order[at]])) ++at;
    if (at == narrow.order.size()) break;
    pairs.emplace_back(node.output, narrow.nodes[narrow.order[at++]].output);
  }
  return pairs;
}

// The largest error of the values of each origin, rounding every op's result.
Result<std::map<std::string, double>> errors_by_origin(const Model& model, const Options& options,
                                                       const std::vector<Tensor>& inputs) {
  Options wide = options;
  wide.precision.reset();
  FUSEC_ASSIGN(const Model in_f32, in_precision(model, wide));
  FUSEC_ASSIGN(const Model in_16_bits, in_precision(model, options));
  const Progress progress("evaluating all values");
  FUSEC_ASSIGN(const WideValueMap expected, values_in_f32(*in_f32.graph, inputs));
  FUSEC_ASSIGN(const WideValueMap got, values_in_f32(*in_16_bits.graph, inputs));
  std::map<std::string, double> errors;
  for (const auto& [from, to] : pair_values(*in_f32.graph, *in_16_bits.graph)) {
    const auto a = got.find(to), b = expected.find(from);
    if (a == got.end() || b == expected.end()) continue;
    const double error = compare("", a->second, b->second, {}).rel_l2;
    double& worst = errors[in_f32.graph->producer(from)->origin];
    worst = std::max(worst, error);
  }
  return errors;
}

double error_of(const std::map<std::string, double>& errors, const ir::Node* node) {
  const auto at = node == nullptr ? errors.end() : errors.find(node->origin);
  return at == errors.end() ? 0 : at->second;
}

std::vector<RegionDrop> drops_of(const ValueRun& run, const std::map<std::string, double>& errors) {
  std::vector<RegionDrop> drops;
  const ir::Graph& graph = run.graph();
  for (std::size_t i = 0; i < run.regions(); ++i) {
    RegionDrop drop;
    drop.region = i;
    for (const ir::NodeId id : run.region(i).nodes) {
      const ir::Node& node = graph.nodes[id];
      drop.rel_l2 = std::max(drop.rel_l2, error_of(errors, &node));
      if (node.origin.empty() || std::count(drop.origins.begin(), drop.origins.end(), node.origin) > 0) continue;
      drop.origins.push_back(node.origin);
    }
    double before = 0;
    for (const ir::ValueId v : run.region(i).inputs) before = std::max(before, error_of(errors, graph.producer(v)));
    drop.added = std::max(0.0, drop.rel_l2 - before);
    if (!drop.origins.empty()) drops.push_back(std::move(drop));
  }
  std::stable_sort(drops.begin(), drops.end(),
                   [](const RegionDrop& a, const RegionDrop& b) { return a.added > b.added; });
  return drops;
}

// A glob that fits this text alone.
std::string glob_of(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '*' || c == '?' || c == '[') out += '\\';
    out += c;
  }
  return out;
}

using Kept = std::vector<std::size_t>;  // indices into the drops, ascending

std::vector<std::string> patterns_of(const std::vector<RegionDrop>& drops, const Kept& kept) {
  std::vector<std::string> patterns;
  for (const std::size_t i : kept)
    for (const std::string& origin : drops[i].origins) patterns.push_back(glob_of(origin));
  return patterns;
}

Result<Session> make_session(const Model& model, Options options, const std::vector<RegionDrop>& drops,
                             const Kept& kept) {
  for (std::string& pattern : patterns_of(drops, kept)) options.keep_f32.push_back(std::move(pattern));
  FUSEC_ASSIGN(const Engine engine, compile_model(model, options));
  return Session::create(engine);
}

// The largest of the outputs; infinite where NaN differ.
Result<double> measure_error(Session& session, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
  const Progress progress("running the model");
  FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(inputs));
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!is_float(expected[i].dtype())) continue;
    const OutputDiff diff = compare("", got[i], expected[i], std::numeric_limits<double>::infinity());
    const bool misplaced = diff.why.starts_with("NaN");
    worst = std::max(worst, misplaced ? std::numeric_limits<double>::infinity() : diff.rel_l2);
  }
  return worst;
}

// The sum of the launches.
Result<double> measure_us(Session& session, const std::vector<Tensor>& inputs) {
  const Progress progress("timing the model");
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProfiles; ++i) {
    FUSEC_ASSIGN(const PlanStats stats, session.profile(inputs));
    double sum = 0;
    for (const LaunchInfo& step : stats.steps) sum += step.us;
    best = std::min(best, sum);
  }
  return best;
}

// True: with these in f32 the outputs are within the tolerance.
using Attempt = std::function<Result<bool>(const Kept&)>;

// The fewest of the first ones that suffice, by doubling and halving; all where none do.
Result<Kept> first_that_suffice(std::size_t all, const Attempt& attempt) {
  const auto first = [](std::size_t count) {
    Kept kept(count);
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    return kept;
  };
  FUSEC_ASSIGN(bool enough, attempt(first(0)));
  std::size_t few = 0, many = 0;  // `few` do not suffice, where any are needed
  while (!enough && many < all) {
    few = many;
    many = std::min(all, std::max<std::size_t>(1, 2 * many));
    FUSEC_ASSIGN(enough, attempt(first(many)));
  }
  while (enough && few + 1 < many) {
    const std::size_t middle = (few + many) / 2;
    FUSEC_ASSIGN(const bool suffices, attempt(first(middle)));
    (suffices ? many : few) = middle;
  }
  return first(many);
}

// Without those that the others suffice without: it tries to leave out halves, then quarters, ..., then single ones.
Result<Kept> prune(Kept kept, const Attempt& attempt) {
  std::size_t tries = 0;
  for (std::size_t size = kept.size() / 2; size > 0; size /= 2) {
    for (std::size_t end = kept.size(); end > 0 && tries < kPrunes; ++tries) {
      const std::size_t begin = end - std::min(size, end);
      Kept fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(begin), fewer.begin() + static_cast<std::ptrdiff_t>(end));
      FUSEC_ASSIGN(const bool suffices, attempt(fewer));
      if (suffices) kept = std::move(fewer);
      end = begin;
    }
  }
  return kept;
}

}  // namespace

Result<PrecisionReport> make_precision_report(const Model& model, const Options& options,
                                              const std::vector<Tensor>& inputs, double tolerance) {
  PrecisionReport report;
  report.tolerance = tolerance;
  FUSEC_ASSIGN(const std::vector<Tensor> expected, evaluate_model(model, inputs, false));
  FUSEC_ASSIGN(const auto errors, errors_by_origin(model, options, inputs));
  FUSEC_ASSIGN(const ValueRun run, ValueRun::make(model, options));
  report.regions = drops_of(run, errors);
  std::map<Kept, double> errors_with;
  const Attempt attempt = [&](const Kept& kept) -> Result<bool> {
    if (!errors_with.contains(kept)) {
      FUSEC_ASSIGN(Session session, make_session(model, options, report.regions, kept));
      FUSEC_ASSIGN(errors_with[kept], measure_error(session, inputs, expected));
    }
    return errors_with[kept] <= tolerance;
  };
  FUSEC_ASSIGN(Kept kept, first_that_suffice(report.regions.size(), attempt));
  report.ok = errors_with[kept] <= tolerance;
  if (report.ok) {
    FUSEC_ASSIGN(kept, prune(std::move(kept), attempt));
  }
  const auto time = [&](const Kept& with) -> Result<double> {
    FUSEC_ASSIGN(Session session, make_session(model, options, report.regions, with));
    return measure_us(session, inputs);
  };
  report.rel_l2 = errors_with[{}], report.kept_rel_l2 = errors_with[kept];
  FUSEC_ASSIGN(report.us, time({}));
  FUSEC_ASSIGN(report.kept_us, time(kept));
  report.keep_f32 = patterns_of(report.regions, kept);
  for (const std::size_t i : kept) report.regions[i].kept = true;
  return report;
}

Json precision_json(const PrecisionReport& report) {
  Json regions = Json::array();
  for (const RegionDrop& drop : report.regions)
    regions.push_back({{"region", drop.region},
                       {"origins", drop.origins},
                       {"rel_l2", drop.rel_l2},
                       {"added", drop.added},
                       {"kept_f32", drop.kept}});
  return {{"ok", report.ok},     {"tolerance", report.tolerance},     {"rel_l2", report.rel_l2},
          {"us", report.us},     {"kept_rel_l2", report.kept_rel_l2}, {"kept_us", report.kept_us},
          {"times", "measured"}, {"keep_f32", report.keep_f32},       {"regions", regions}};
}

std::string precision_text(const PrecisionReport& report) {
  Table table({"region", "rel_l2", "added", "stays f32", "origins"});
  for (const RegionDrop& drop : report.regions)
    table.row({fmt::format("{}", drop.region), fmt::format("{:.3g}", drop.rel_l2), fmt::format("{:.3g}", drop.added),
               drop.kept ? "yes" : "-", shortened(fmt::format("{}", fmt::join(drop.origins, ", ")), 80)});
  std::string out = table.str();
  out += fmt::format("all in 16 bits: rel_l2 {:.3g}, {:.1f} us (measured, sum of the launches)\n", report.rel_l2,
                     report.us);
  if (report.keep_f32.empty()) return out + fmt::format("no region has to stay in f32 for {:g}\n", report.tolerance);
  const auto kept = std::count_if(report.regions.begin(), report.regions.end(), [](const auto& r) { return r.kept; });
  out += fmt::format("{} regions in f32: rel_l2 {:.3g}, {:.1f} us; {} {:g}\n", kept, report.kept_rel_l2, report.kept_us,
                     report.ok ? "within" : "still over", report.tolerance);
  for (const std::string& pattern : report.keep_f32) out += fmt::format("  --keep-f32 '{}'\n", pattern);
  return out;
}

}  // namespace fusec::tool
