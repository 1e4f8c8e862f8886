// SPDX-License-Identifier: Apache-2.0
// Reads and writes the JSON record of the speed gate, decides whether two records are comparable, and compares them. It
// measures nothing.

#include "runtime/tool/measure/bench_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace fusec::tool {
namespace {

constexpr int kFormat = 3, kOldFormat = 2;
constexpr int64_t kOldModelCopyMib = 64;  // of all records of the old format
constexpr double kSlower = 1.03;

Status invalid(const std::string& where, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("'{}' {}; make one with fusec bench --save", where, why));
}

bool is_model(const BenchCase& c) { return c.name.starts_with("model "); }

double compute_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

Result<BenchCase> bench_case_of_json(const Json& json, const std::string& where) {
  BenchCase c;
  c.name = json.at("name").get<std::string>();
  for (const Json& ratio : json.at("ratios")) {
    // JSON has no NaN: a writer puts null in its place.
    const double value = ratio.is_number() ? ratio.get<double>() : 0;
    if (!std::isfinite(value) || value <= 0)
      return invalid(where, fmt::format("has a ratio of '{}' that is no positive number", c.name));
    c.ratios.push_back(value);
  }
  if (c.ratios.empty()) return invalid(where, fmt::format("has no ratios of '{}'", c.name));
  c.median_ms = json.at("median_ms").get<double>();
  return c;
}

Result<BenchRecord> parsed(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("format")) return invalid(where, "is no record of fusec bench");
  const bool is_old = json.at("format") == kOldFormat;
  if (!is_old && json.at("format") != kFormat)
    return invalid(where, fmt::format("has format {}, and this fusec reads formats {} and {}", json.at("format").dump(),
                                      kOldFormat, kFormat));
  BenchRecord record;
  BenchOrigin& o = record.origin;
  o.device = json.at("device").get<std::string>();
  o.machine = json.at("machine").get<std::string>();
  o.numerics = json.at("numerics").get<std::string>();
  o.precision = json.at("precision").get<std::string>();
  o.tf32 = json.at("tf32").get<bool>();
  o.batch_invariant = json.value("batch_invariant", false);
  o.threads = json.at("threads").get<int>();
  o.driver = json.at("driver").get<std::string>();
  o.copy_gb_per_s = json.at("copy_gb_per_s").get<double>();
  o.date = json.at("date").get<std::string>();
  o.commit = json.at("commit").get<std::string>();
  o.versions = json.at("versions").get<std::string>();
  o.clocks = json.value("clocks", Json());
  for (const Json& one : json.at("cases")) {
    FUSEC_ASSIGN(BenchCase c, bench_case_of_json(one, where));
    record.cases.push_back(std::move(c));
  }
  if (record.cases.empty()) return invalid(where, "holds no case");
  const bool has_model = std::any_of(record.cases.begin(), record.cases.end(), is_model);
  o.model_copy_mib = is_old ? (has_model ? kOldModelCopyMib : 0) : json.at("model_copy_mib").get<int64_t>();
  return record;
}

BenchChange compute_change(const BenchCase& before, const BenchCase& now) {
  const auto [before_low, before_high] = std::minmax_element(before.ratios.begin(), before.ratios.end());
  const auto [now_low, now_high] = std::minmax_element(now.ratios.begin(), now.ratios.end());
  BenchChange change;
  change.name = now.name;
  change.before = compute_median(before.ratios);
  change.now = compute_median(now.ratios);
  change.before_spread = *before_high / *before_low - 1;
  change.now_spread = *now_high / *now_low - 1;
  change.ratio = change.now / change.before;
  change.slower = change.ratio > kSlower && *now_low > *before_high;
  change.faster = change.ratio < 1 / kSlower && *now_high < *before_low;
  return change;
}

}  // namespace

Json make_json(const BenchRecord& record) {
  const BenchOrigin& o = record.origin;
  Json json = {{"format", kFormat},
               {"date", o.date},
               {"commit", o.commit},
               {"device", o.device},
               {"machine", o.machine},
               {"driver", o.driver},
               {"copy_gb_per_s", o.copy_gb_per_s},
               {"threads", o.threads},
               {"model_copy_mib", o.model_copy_mib},
               {"numerics", o.numerics},
               {"precision", o.precision},
               {"tf32", o.tf32},
               {"batch_invariant", o.batch_invariant},
               {"versions", o.versions},
               {"clocks", o.clocks}};
  json["cases"] = Json::array();
  for (const BenchCase& c : record.cases) {
    json["cases"].push_back(c.error.empty() ? Json{{"name", c.name}, {"median_ms", c.median_ms}, {"ratios", c.ratios}}
                                            : Json{{"name", c.name}, {"error", c.error}});
  }
  return json;
}

Result<BenchRecord> parse_record(const Json& json, const std::string& where) {
  try {
    return parsed(json, where);
  } catch (const nlohmann::json::exception& e) {
    return invalid(where, fmt::format("is no record of fusec bench ({})", e.what()));
  }
}

Status comparable(const BenchOrigin& before, const BenchOrigin& now, const std::string& where) {
  const std::string threads = "--threads " + std::to_string(before.threads);
  const struct {
    std::string what, before, now, next;
  } rows[] = {
      {"device", before.device, now.device, "give --device, or another file"},
      {"machine", before.machine, now.machine, "make a file of this kind of machine with --save"},
      {"numerics", before.numerics, now.numerics, "add --numerics " + before.numerics},
      {"precision", before.precision, now.precision, "add --precision " + before.precision},
      {"tf32", before.tf32 ? "on" : "off", now.tf32 ? "on" : "off", before.tf32 ? "add --tf32" : "leave --tf32 out"},
      {"batch-invariant mode", before.batch_invariant ? "on" : "off", now.batch_invariant ? "on" : "off",
       before.batch_invariant ? "add --batch-invariant" : "leave --batch-invariant out"},
      {"threads", std::to_string(before.threads), std::to_string(now.threads), "add " + threads},
  };
  for (const auto& row : rows) {
    if (row.before == row.now) continue;
    return Status(StatusCode::invalid_argument,
                  fmt::format("--against '{}': the {} of the file is '{}', of this run '{}'; {}", where, row.what,
                              row.before, row.now, row.next));
  }
  if (before.model_copy_mib == 0 || now.model_copy_mib == 0 || before.model_copy_mib == now.model_copy_mib) return {};
  return Status(StatusCode::invalid_argument,
                fmt::format("--against '{}': times of models in the file are in copies of {} MiB, in this run of {} "
                            "MiB, and one says nothing of the other; make a file with --save, or leave --models out "
                            "to compare patterns",
                            where, before.model_copy_mib, now.model_copy_mib));
}

bool BenchComparison::ok() const {
  return failed.empty() && std::none_of(changes.begin(), changes.end(), [](const BenchChange& c) { return c.slower; });
}

Result<BenchComparison> compare(const BenchRecord& before, const BenchRecord& now, const std::string& where) {
  FUSEC_TRY(comparable(before.origin, now.origin, where));
  std::map<std::string, const BenchCase*> left;
  for (const BenchCase& c : before.cases) left[c.name] = &c;
  BenchComparison result;
  for (const BenchCase& c : now.cases) {
    const auto found = left.find(c.name);
    if (!c.error.empty()) {
      result.failed.push_back(c);
    } else if (found == left.end()) {
      result.added.push_back(c.name);
    } else {
      result.changes.push_back(compute_change(*found->second, c));
    }
    if (found != left.end()) left.erase(found);
  }
  for (const auto& [name, c] : left) result.missing.push_back(name);
  if (result.changes.empty() && result.failed.empty())
    return Status(
        StatusCode::invalid_argument,
        fmt::format("--against '{}': none of its cases was run; give the same --patterns and --models", where));
  return result;
}

}  // namespace fusec::tool
