// SPDX-License-Identifier: Apache-2.0
// Prints a LibrarySum as JSON and as a table, the groups with the largest excess over their isolated calls first. It
// measures nothing.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tool/measure/library_sum.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kWhatWidth = 90;

// Microseconds that the steps of a group take beyond the calls alone.
double excess(const StepGroup& group) { return group.count() * (group.plan_us - group.isolated_us); }

std::vector<StepGroup> by_excess(std::vector<StepGroup> groups) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const StepGroup& a, const StepGroup& b) { return excess(a) > excess(b); });
  return groups;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

Json make_json(const LibrarySum& sum) {
  const LibrarySumParts p = parts(sum);
  Json json = {{"model_ms", sum.model_us / 1e3},     {"sum_ms", sum.isolated_us / 1e3},
               {"overhead", sum.overhead},           {"rounds", sum.rounds},
               {"rotated_bytes", sum.rotated_bytes}, {"slower_ms", p.slower / 1e3},
               {"generated_ms", p.generated / 1e3},  {"rest_ms", p.rest / 1e3}};
  json["groups"] = Json::array();
  for (const StepGroup& group : by_excess(sum.groups)) {
    Json row = {{"kind", group.generated ? "generated" : "library"},
                {"count", group.steps.size()},
                {"what", group.what},
                {"origin", group.origin},
                {"implementation", group.implementation},
                {"plan_us", group.plan_us}};
    if (!group.generated) {
      row.update(Json{
          {"layout", group.layout}, {"isolated", group.isolated_implementation}, {"isolated_us", group.isolated_us}});
      for (const auto& [layout, us] : group.layouts) row["layouts_us"][layout] = us;
    }
    json["groups"].push_back(std::move(row));
  }
  return json;
}

std::string report(const LibrarySum& sum) {
  Table table({"count", "plan us", "isolated us", "excess us", "in the plan", "layout", "isolated", "step"});
  for (const StepGroup& group : by_excess(sum.groups)) {
    table.row({std::to_string(group.steps.size()), fmt::format("{:.1f}", group.plan_us),
               group.isolated_implementation.empty() ? "-" : fmt::format("{:.1f}", group.isolated_us),
               fmt::format("{:.1f}", excess(group)), group.implementation, group.layout, group.isolated_implementation,
               shortened(group.what + "  " + group.origin, kWhatWidth)});
  }
  const LibrarySumParts p = parts(sum);
  return table.str() +
         fmt::format(
             "\nmodel {:.1f} us, sum of its library calls alone {:.1f} us: {:+.1f}% (library steps slower {:+.1f}%, "
             "generated kernels {:+.1f}%, rest {:+.1f}%); {} rounds, weights rotated over {}",
             sum.model_us, sum.isolated_us, 100 * sum.overhead, percent(p.slower, sum.isolated_us),
             percent(p.generated, sum.isolated_us), percent(p.rest, sum.isolated_us), sum.rounds,
             bytes_text(sum.rotated_bytes));
}

}  // namespace fusec::tool
