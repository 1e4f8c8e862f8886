// SPDX-License-Identifier: Apache-2.0
// Prints what `fusec advise` found, as tables and as JSON.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tool/advise.h"
#include "runtime/tool/insight/sweep.h"

namespace fusec::tool {
namespace {

constexpr double kVisible = 0.01;  // of the run
constexpr std::size_t kStepWidth = 40, kShownSteps = 12;

const char* step_kind_text(StepKind kind) {
  switch (kind) {
    case StepKind::call:
      return "library";
    case StepKind::kernel:
      return "generated";
    case StepKind::move:
      return "moves data";
  }
  return "";
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
std::string optional_text(const std::optional<double>& value) { return value ? fmt::format("{:.1f}", *value) : "-"; }

Json parts_json(const Parts& parts) {
  Json json = Json::object();
  for (std::size_t p = 0; p < kParts; ++p) json[to_string(static_cast<Part>(p))] = parts[p];
  return json;
}

Json facts_json(const Advised& a) {
  Json list = Json::array();
  const std::vector<double> floors = library_floors(a.steps);
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const StepFacts& step = a.steps[i];
    Json json = {{"origin", step.origin},
                 {"kind", step_kind_text(step.kind)},
                 {"implementation", step.implementation},
                 {"layer", step.layer},
                 {"after", step.after},
                 {"us", optional_json(step.us)},
                 {"fastest_us", step.layer_us ? Json(floors[i]) : Json()},
                 {"row_us", optional_json(step.layer_us)},
                 {"taken_row_us", optional_json(step.taken_us)},
                 {"channels_first_row_us", optional_json(step.channels_first_us)},
                 {"channels_first_ratio", optional_json(step.channels_first_ratio)},
                 {"half_row_us", optional_json(step.half_us)},
                 {"rows_repeated", step.repeated},
                 {"floor_us", step.floor_us},
                 {"best_type_us", step.best_type_us},
                 {"edge_us", step.edge_us}};
    json["parts"] = parts_json(a.gap.steps[i]);
    list.push_back(std::move(json));
  }
  return list;
}

Json advice_json(const Advised& a) {
  Json list = Json::array();
  for (const CheckedAdvice& one : a.advice) {
    list.push_back({{"part", to_string(one.part)},
                    {"text", one.text},
                    {"step", one.step},
                    {"flag", one.flag},
                    {"gain_us", one.us},
                    {"step_gain_us", one.step_us},
                    {"measured_gain_us", optional_json(one.measured_gain_us)},
                    {"not_checked", one.not_checked}});
  }
  return list;
}

// From the run down to the bound.
std::string gap_table(const Gap& gap) {
  Table table({"part", "us", "then left us"});
  double left = gap.measured_us;
  table.row({"measured", "", fmt::format("{:.1f}", left)});
  for (std::size_t p = 0; p < kParts; ++p) {
    left -= gap.parts[p];
    table.row({to_string(static_cast<Part>(p)), fmt::format("{:.1f}", gap.parts[p]), fmt::format("{:.1f}", left)});
  }
  left -= gap.other;
  table.row({"other", fmt::format("{:.1f}", gap.other), fmt::format("{:.1f}", left)});
  return table.str();
}

std::string facts_table(const Advised& a, bool all) {
  std::vector<std::size_t> order(a.steps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto time = [&](std::size_t i) { return a.steps[i].us.value_or(a.steps[i].layer_us.value_or(0)); };
  if (!all) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return time(x) > time(y); });
    order.resize(std::min(order.size(), kShownSteps));
  }
  const std::vector<double> floors = library_floors(a.steps);
  Table table({"#", "kind", "us", "fastest us", "floor us", "achieved", "origin"});
  for (const std::size_t i : order) {
    const StepFacts& step = a.steps[i];
    const bool timed = step.us && *step.us > 0;
    table.row({std::to_string(i), step_kind_text(step.kind), optional_text(step.us),
               step.layer_us ? fmt::format("{:.1f}", floors[i]) : "-", fmt::format("{:.1f}", step.floor_us),
               timed ? fmt::format("{:.0f}%", 100 * step.floor_us / *step.us) : "-",
               shortened(step.origin, kStepWidth)});
  }
  return table.str();
}

std::string advice_text(const CheckedAdvice& one) {
  std::string out = "  " + one.text;
  if (one.measured_gain_us) {
    out += fmt::format("; made and measured: {:.1f} us", *one.measured_gain_us);
  } else if (!one.not_checked.empty()) {
    out += "; not checked: " + one.not_checked;
  }
  return out + "\n";
}

std::size_t count_faster_than_floor(const Advised& a) {
  return static_cast<std::size_t>(std::count_if(a.steps.begin(), a.steps.end(), [](const StepFacts& step) {
    return step.us && *step.us > 0 && *step.us < step.floor_us;
  }));
}

}  // namespace

Json make_json(const Advised& a) {
  Json json;
  if (a.batch > 0) json["batch"] = a.batch;
  json["symbols"] = a.symbols;
  json["measured_us"] = a.by_database ? Json() : Json(a.gap.measured_us);
  if (a.by_database) json["estimated_us"] = a.gap.measured_us, json["predicted_kernels"] = a.predicted;
  json["bound_us"] = a.gap.bound_us;
  json["fusion_bound_us"] = a.fusion.critical_us;
  json["library_bound_us"] = {{"serial", a.library.serial_us}, {"critical", a.library.critical_us}};
  json["fusion_aware_bound_us"] = {{"serial", a.fusion.serial_us}, {"critical", a.fusion.critical_us}};
  json["below_library_bound"] = a.gap.below_library;
  json["by_floors"] = a.gap.by_floors;
  if (!a.by_database)
    json["profile"] = {{"source", a.source}, {"runs", a.runs}, {"traced_us", a.traced_us}, {"slow_down", a.slow_down}};
  json["parts"] = parts_json(a.gap.parts);
  json["parts"]["other"] = a.gap.other;
  json["layers"] = {{"steps", a.layers}, {"distinct", a.distinct_layers}};
  json["faster_than_floor"] = count_faster_than_floor(a);
  json["advice"] = advice_json(a);
  json["steps"] = facts_json(a);
  return json;
}

std::string report(const Advised& a, bool all_steps) {
  std::string out = a.symbols.empty() ? "" : symbols_text(a.symbols) + "\n";
  out += fmt::format(
      "library bound {:.1f} us one after another, {:.1f} us along the longest path; fusion-aware bound {:.1f} and "
      "{:.1f} us; reachable {:.1f} us; {} steps with measured layers, {} of them distinct\n",
      a.library.serial_us, a.library.critical_us, a.fusion.serial_us, a.fusion.critical_us, a.gap.bound_us, a.layers,
      a.distinct_layers);
  out += fmt::format("{} {:.1f} us: {:.2f} times the reachable bound\n",
                     a.by_database ? "untuned, by the rows of the database," : "measured", a.gap.measured_us,
                     a.gap.bound_us > 0 ? a.gap.measured_us / a.gap.bound_us : 0);
  if (a.gap.below_library) out += "the run is faster than the library bound";
  if (a.gap.by_floors) out += ": each step is held against its floor";
  out += a.gap.below_library ? "\n\n" : "\n";
  if (a.predicted > 0)
    out += fmt::format("{} generated kernels have no rows and count by the machine model\n", a.predicted);
  out += gap_table(a.gap);
  if (a.slow_down != 1)
    out += fmt::format("traced runs took {:.3f} times as long: times of steps and gaps are divided by that\n",
                       a.slow_down);
  if (a.gap.other < -kVisible * a.gap.measured_us)
    out += "other is negative: steps took longer in runs that were timed step by step\n";
  out += "\n" + facts_table(a, all_steps);
  if (const std::size_t faster = count_faster_than_floor(a); faster > 0)
    out += fmt::format("{} steps are faster than their floor: fusec doctor --measure fits the model to this machine\n",
                       faster);
  if (!a.advice.empty()) out += "\nadvice, the largest gain first:\n";
  for (const CheckedAdvice& one : a.advice) out += advice_text(one);
  return out;
}

namespace {

std::vector<BatchPoint> points_of(const std::vector<Advised>& all) {
  std::vector<BatchPoint> points;
  for (const Advised& a : all) points.push_back({a.batch, a.gap.bound_us, a.fusion.critical_us, a.gap.measured_us});
  return points;
}

}  // namespace

std::string sweep_report(const std::vector<Advised>& all) {
  const std::vector<BatchPoint> points = points_of(all);
  Table table({"batch", "bound us", "fusion-aware us", "run us", "samples/s", "run / bound"});
  const std::vector<double> bounds = bounds_of_batches(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const BatchPoint& p = points[i];
    table.row({std::to_string(p.batch), fmt::format("{:.1f}", bounds[i]), fmt::format("{:.1f}", p.fusion_us),
               fmt::format("{:.1f}", *p.measured_us), fmt::format("{:.0f}", p.samples_per_s()),
               fmt::format("{:.2f}", bounds[i] > 0 ? *p.measured_us / bounds[i] : 0)});
  }
  std::string out = table.str();
  if (const auto best = best_batch(points))
    out += fmt::format("most samples per second: batch {}\n", points[*best].batch);
  for (const auto& [smaller, larger] : falling_bounds(points)) {
    out += fmt::format(
        "by its own rows batch {} has a higher bound than batch {}, so the table has the lower one for it: pad it to "
        "that "
        "batch, or measure both --again with fusec tune\n",
        smaller, larger);
  }
  return out;
}

Json sweep_json(const std::vector<Advised>& all) {
  const std::vector<BatchPoint> points = points_of(all);
  Json json;
  const auto best = best_batch(points);
  json["best_batch"] = best ? Json(points[*best].batch) : Json();
  json["falling_bounds"] = falling_bounds(points);
  json["bounds_of_batches"] = bounds_of_batches(points);
  return json;
}

}  // namespace fusec::tool
