// SPDX-License-Identifier: Apache-2.0
// Puts the parts of a report's page together.

#include "runtime/tool/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "runtime/tool/report/assets.h"

namespace fusec::tool {
namespace {

constexpr double kDiffers = 0.1;  // of a time

// JSON inside of a script element: "<" could end it or begin a comment.
std::string script_text(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

void put(std::string& page, const std::string& mark, const std::string& text) {
  const std::size_t at = page.find(mark);
  page.replace(at, mark.size(), text);
}

// Equal steps of two reports: what they compute and by which code. The k-th of one belongs to the k-th of the other.
std::string key_of(const Json& step) {
  std::string key = step.value("kind", "");
  for (const Json& node : step.value("nodes", Json::array())) key += "\n" + node.get<std::string>();
  return key;
}

std::string format_name(const Json& step) {
  const Json nodes = step.value("nodes", Json::array());
  return fmt::format("step {} ({})", step.value("step", 0),
                     nodes.empty() ? step.value("implementation", "") : nodes.front().get<std::string>());
}

using Steps = std::map<std::string, std::vector<const Json*>>;

Steps steps_by_key(const Json& report) {
  Steps steps;
  if (const auto it = report.find("steps"); it != report.end())
    for (const Json& step : *it) steps[key_of(step)].push_back(&step);
  return steps;
}

std::optional<double> number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
}

void compare_figure(const char* key, const Json& old, const Json& now, Json& list) {
  const auto before = number(old, key), after = number(now, key);
  if (before == after) return;
  list.push_back({{"what", key}, {"before", before ? Json(*before) : Json()}, {"now", after ? Json(*after) : Json()}});
}

void compare_steps(const Json& before, const Json& after, Json& list) {
  const std::string was = before.value("implementation", ""), is = after.value("implementation", "");
  const auto a = number(before, "us"), b = number(after, "us");
  const bool differs = a && b && std::abs(*b - *a) > kDiffers * std::max(*a, *b);
  if (was == is && !differs) return;
  Json row = {{"what", format_name(after)}, {"before", a ? Json(*a) : Json()}, {"now", b ? Json(*b) : Json()}};
  if (was != is) row["implementation"] = was + " -> " + is;
  list.push_back(std::move(row));
}

}  // namespace

Json compare_reports(const Json& old, const Json& now) {
  Json list = Json::array();
  for (const char* key : {"measured_us", "sum_us", "bound_us", "launches", "generated", "library", "distinct_kernels",
                          "arena_bytes", "constant_bytes", "compile_ms"})
    compare_figure(key, old, now, list);
  Steps before = steps_by_key(old);
  for (const auto& [key, steps] : steps_by_key(now)) {
    std::vector<const Json*>& others = before[key];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i < others.size())
        compare_steps(*others[i], *steps[i], list);
      else
        list.push_back({{"what", format_name(*steps[i])},
                        {"before", Json()},
                        {"now", (*steps[i]).value("us", Json())},
                        {"implementation", "new"}});
    }
    others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(std::min(others.size(), steps.size())));
  }
  for (const auto& [key, steps] : before)
    for (const Json* step : steps)
      list.push_back({{"what", format_name(*step)},
                      {"before", step->value("us", Json())},
                      {"now", Json()},
                      {"implementation", "gone"}});
  return list;
}

std::string report_page(const Json& data, const Json& old) {
  std::string page = kReportHtml;
  put(page, "/*style*/", kReportStyle);
  Json all = data;
  if (!old.is_null()) all["changes"] = compare_reports(old, data);
  put(page, "/*data*/", script_text(all));
  put(page, "/*script*/", kReportScript);
  return page;
}

}  // namespace fusec::tool
