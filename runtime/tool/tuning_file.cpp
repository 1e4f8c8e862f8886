// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include "runtime/cache/artifact.h"
#include "runtime/cache/tuning.h"
#include "runtime/tool/common.h"
#include "runtime/tuning/tuning.h"

namespace fusec::tool {
namespace {

using runtime::FigureRow;
using runtime::TuningDatabase;
using runtime::TuningRow;

constexpr std::size_t kCallWidth = 72;
constexpr int64_t kDay = 24 * 60 * 60;

// The rows and figures that the flags are about.
struct Chosen {
  std::vector<TuningRow> rows;
  std::vector<FigureRow> figures;
};

Result<Chosen> choose(const TuningDatabase& database, const std::string& only) {
  Chosen out;
  FUSEC_ASSIGN(out.rows, database.rows({}));
  FUSEC_ASSIGN(out.figures, database.figures({}));
  const auto has = [&](const std::string& text) { return text.find(only) != std::string::npos; };
  std::erase_if(out.rows, [&](const TuningRow& row) { return !has(row.scope) && !has(row.call); });
  std::erase_if(out.figures, [&](const FigureRow& row) { return !has(row.device); });
  return out;
}

// --- list ------------------------------------------------------------------------------------------------------------

Json make_json(const TuningRow& row) {
  Json json = {
      {"scope", row.scope},        {"call", row.call}, {"library", row.library},     {"choice", row.algorithm},
      {"default", row.is_default}, {"runs", row.runs}, {"workspace", row.workspace}, {"measured", time_text(row.time)}};
  if (row.failed()) {
    json["failure"] = row.failure;
  } else {
    json["us"] = row.median_us;
    json["spread"] = row.spread;
  }
  return json;
}

void print_json(const Chosen& chosen, const std::string& path) {
  Json json = {{"database", path}, {"rows", Json::array()}, {"figures", Json::array()}};
  for (const TuningRow& row : chosen.rows) json["rows"].push_back(make_json(row));
  for (const FigureRow& row : chosen.figures)
    json["figures"].push_back(
        {{"device", row.device}, {"name", row.name}, {"value", row.value}, {"measured", time_text(row.time)}});
  print(json);
}

using Calls = std::map<std::string, std::vector<TuningRow>>;

void print_calls(const Calls& calls) {
  Table table({"choices", "default us", "best us", "best", "call"});
  for (const auto& [call, rows] : calls) {
    const TuningRow *own = runtime::default_row(rows), *best = runtime::best_row(rows);
    const auto us = [](const TuningRow* row) { return row == nullptr ? "-" : fmt::format("{:.1f}", row->median_us); };
    table.row({std::to_string(rows.size()), us(own), us(best),
               best == nullptr ? "-" : best->library + " " + best->algorithm, shortened(call, kCallWidth)});
  }
  print_text(table.str());
}

void print_list(const Chosen& chosen, const std::string& path, bool verbose) {
  std::map<std::string, Calls> scopes;
  for (const TuningRow& row : chosen.rows) scopes[row.scope][row.call].push_back(row);
  print_text(fmt::format("{}: rows: {}, scopes: {}, figures of machines: {}", path, chosen.rows.size(), scopes.size(),
                         chosen.figures.size()));
  for (const auto& [scope, calls] : scopes) {
    int64_t rows = 0, failed = 0, last = 0;
    for (const auto& [call, of_call] : calls) {
      for (const TuningRow& row : of_call) ++rows, failed += row.failed() ? 1 : 0, last = std::max(last, row.time);
    }
    print_text(fmt::format("calls: {}, rows: {}, failed: {}, last measured {}: {}", calls.size(), rows, failed,
                           time_text(last), scope));
    if (verbose) print_calls(calls);
  }
}

// --- export and prune ------------------------------------------------------------------------------------------------

Result<int64_t> export_rows(const Chosen& chosen, const std::string& to, const Options& options) {
  std::error_code error;
  if (std::filesystem::exists(to, error)) {
    return Status(StatusCode::invalid_argument,
                  "--export " + to + ": the file exists; remove it, or add to it: fusec tune --tuning-db " + to +
                      " --merge FILE");
  }
  FUSEC_ASSIGN(const auto file, TuningDatabase::open_to_write(to, runtime::make_warn(options)));
  for (const TuningRow& row : chosen.rows) FUSEC_TRY(file->put(row));
  FUSEC_TRY(file->put(chosen.figures));
  return static_cast<int64_t>(chosen.rows.size() + chosen.figures.size());
}

// Which rows go: those measured before the time, or the failed ones.
struct Pruned {
  bool failed_only = false;
  int64_t before = 0;  // seconds since 1970
};

Result<Pruned> parse_prune(const std::string& text) {
  if (text == "failures") return Pruned{true, INT64_MAX};
  if (text == "all") return Pruned{false, INT64_MAX};
  int64_t days = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, days);
  if (error != std::errc() || at + 1 != end || *at != 'd' || days < 0 || days > 100'000) {
    return Status(StatusCode::invalid_argument, "--prune '" + text + "' is none of failures, all, or days such as 90d");
  }
  return Pruned{false, static_cast<int64_t>(std::time(nullptr)) - days * kDay};
}

}  // namespace

Status use_tuning_file(const TuningFileFlags& flags, const std::string& path, const Options& options) {
  if (path.empty()) return Status(StatusCode::invalid_argument, "there is no tuning database; give --tuning-db FILE");
  const char* const what = flags.list ? "--list" : !flags.export_to.empty() ? "--export" : "--prune";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{}: there is no tuning database '{}' yet; fusec tune MODEL makes it", what, path));
  }
  Pruned pruned;
  if (!flags.prune.empty()) {
    FUSEC_ASSIGN(pruned, parse_prune(flags.prune));
  }
  FUSEC_ASSIGN(const auto database, flags.prune.empty()
                                        ? TuningDatabase::open(path)
                                        : TuningDatabase::open_to_write(path, runtime::make_warn(options)));
  FUSEC_ASSIGN(Chosen chosen, choose(*database, flags.only));
  Json json = {{"database", path}};
  std::string text;
  if (!flags.export_to.empty()) {
    FUSEC_ASSIGN(const int64_t count, export_rows(chosen, flags.export_to, options));
    json["exported"] = count;
    text = fmt::format("rows exported to {1}: {0}", count, flags.export_to);
  }
  if (!flags.prune.empty()) {
    std::vector<TuningRow> gone;
    for (const TuningRow& row : chosen.rows)
      if (row.time < pruned.before && (row.failed() || !pruned.failed_only)) gone.push_back(row);
    FUSEC_TRY(database->remove(gone));
    json["pruned"] = gone.size();
    text += (text.empty() ? "" : "\n") + fmt::format("rows removed from {1}: {0}", gone.size(), path);
    FUSEC_ASSIGN(chosen, choose(*database, flags.only));
  }
  if (flags.list && flags.json) {
    print_json(chosen, path);
  } else if (flags.json) {
    print(json);
  } else {
    if (!text.empty()) print_text(text);
    if (flags.list) print_list(chosen, path, flags.verbose);
  }
  return {};
}

}  // namespace fusec::tool
