// SPDX-License-Identifier: Apache-2.0
// Prints the launches of a plan as a table or as JSON, with times when they come from Session::profile.

#include "runtime/tool/steps.h"

#include <fmt/format.h>

namespace fusec::tool {
namespace {

constexpr std::size_t kOriginWidth = 60;

double gb_per_s(const LaunchInfo& step) { return step.us > 0 ? static_cast<double>(step.bytes) / (1e3 * step.us) : 0; }

// Nobody predicts a library.
Json prediction_json(const LaunchInfo& step, double us) { return step.generated ? Json(us) : Json(); }
std::string prediction_text(const LaunchInfo& step, double us) {
  return step.generated ? fmt::format("{:.1f}", us) : "-";
}

const char* kind_text(const LaunchInfo& step) {
  if (step.once) return step.specialized ? "once per plan, specialised" : "once per plan";
  if (step.specialized) return "specialised";
  return step.generated ? "generated" : "library";
}

}  // namespace

Json steps_json(const PlanStats& plan) {
  Json list = Json::array();
  for (const LaunchInfo& step : plan.steps) {
    list.push_back({{"origin", step.origin},
                    {"kind", step.generated ? "generated" : "library"},
                    {"once", step.once},
                    {"specialized", step.specialized},
                    {"implementation", step.implementation},
                    {"bytes", step.bytes},
                    {"threads", step.threads},
                    {"us", step.us},
                    {"predicted_us", prediction_json(step, step.predicted_us)},
                    {"bound_us", prediction_json(step, step.bound_us)}});
  }
  return list;
}

std::string steps_table(const PlanStats& plan, bool timed) {
  std::vector<std::string> header = {"#", "kind", "implementation", "bytes", "threads"};
  if (timed) header.insert(header.end(), {"us", "predicted", "bound", "GB/s", "share"});
  header.push_back("origin");
  Table table(header);
  double total = 0;
  for (const LaunchInfo& step : plan.steps) total += step.us;
  int number = 0;
  for (const LaunchInfo& step : plan.steps) {
    std::vector<std::string> row = {std::to_string(number++), kind_text(step), step.implementation,
                                    bytes_text(step.bytes), std::to_string(step.threads)};
    if (timed) {
      row.push_back(fmt::format("{:.1f}", step.us));
      row.push_back(prediction_text(step, step.predicted_us));
      row.push_back(prediction_text(step, step.bound_us));
      row.push_back(fmt::format("{:.1f}", gb_per_s(step)));
      row.push_back(fmt::format("{:.1f}%", total > 0 ? 100 * step.us / total : 0));
    }
    row.push_back(shortened(step.origin, kOriginWidth));
    table.row(std::move(row));
  }
  return table.str();
}

}  // namespace fusec::tool
