// SPDX-License-Identifier: Apache-2.0
// Compares the run times of a model with those in an earlier JSON of the same model, for `fusec bench M --against`.
// Records of --save are another form, of many models, and are compared by bench_gate.cpp.

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "fusec/device.h"
#include "runtime/plan/state.h"
#include "runtime/tool/bench_row.h"

namespace fusec::tool {
namespace {

Status refuse(const std::string& path, const std::string& why) {
  return Status(StatusCode::invalid_argument, fmt::format("--against '{}': {}", path, why));
}

Result<Json> read_earlier(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return refuse(path, "the file cannot be read");
  Json json = Json::parse(text.str(), nullptr, false);
  if (json.is_object() && json.contains("cases"))
    return refuse(path, "is a record of --save; compare it with --patterns and --models");
  if (!json.is_object() || !json.contains("batches") || !json["batches"].is_array())
    return refuse(path, "is not what fusec bench M --json prints");
  return json;
}

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Times of other settings say nothing beside these.
Status check_settings(const std::string& path, const Json& before, const BenchReport& report, const BenchFlags& flags) {
  const Options& options = report.engine.state()->options;
  const Json now = {{"device", to_string(report.engine.device())},
                    {"target", report.engine.target().name},
                    {"threads", report.engine.threads()},
                    {"precision", precision_name(options)},
                    {"numerics", numerics_name(options.numerics)},
                    {"tf32", options.tf32},
                    {"sessions", flags.sessions}};
  for (const auto& [key, value] : now.items()) {
    if (!before.contains(key)) return refuse(path, fmt::format("lacks '{}'; make the file with this fusec", key));
    if (before[key] == value) continue;
    return refuse(path, fmt::format("{} is {} in the file and {} in this run", key, plain(before[key]), plain(value)));
  }
  return {};
}

Result<std::vector<double>> read_samples(const std::string& path, const Json& batch) {
  std::vector<double> samples;
  if (!batch.contains("samples_us") || !batch["samples_us"].is_array())
    return refuse(path, "lacks samples_us; make the file with this fusec");
  for (const Json& sample : batch["samples_us"]) {
    if (!sample.is_number()) return refuse(path, "has a sample that is no number");
    samples.push_back(sample.get<double>());
  }
  return samples;
}

const Json* find_batch(const Json& before, const Symbols& symbols) {
  for (const Json& batch : before["batches"])
    if (batch.is_object() && batch.contains("symbols") && batch["symbols"] == Json(symbols)) return &batch;
  return nullptr;
}

const char* verdict(const TimeChange& change) { return change.slower ? "SLOWER" : change.faster ? "faster" : ""; }

}  // namespace

Status check_earlier(const std::string& path) { return read_earlier(path).status(); }

Result<std::vector<RowChange>> compare_with(const std::string& path, const BenchReport& report,
                                            const BenchFlags& flags) {
  FUSEC_ASSIGN(const Json before, read_earlier(path));
  FUSEC_TRY(check_settings(path, before, report, flags));
  std::vector<RowChange> changes;
  for (const BenchRow& row : report.rows) {
    const Json* const batch = find_batch(before, row.symbols);
    if (batch == nullptr)
      return refuse(path, fmt::format("has no run with {}; give the --shape or --batch of the file",
                                      row.symbols.empty() ? "no symbols" : symbols_text(row.symbols)));
    if (batch->value("bytes", int64_t{-1}) != row.bytes)
      return refuse(path, "is of another model: its inputs and outputs have other sizes");
    FUSEC_ASSIGN(const std::vector<double> samples, read_samples(path, *batch));
    const std::string symbols = symbols_text(row.symbols);
    changes.push_back({flags.model + (symbols.empty() ? "" : " " + symbols), compare_times(samples, row.us)});
  }
  return changes;
}

Json make_json(const std::vector<RowChange>& changes) {
  Json json = {{"slower", Json::array()}, {"ok", true}, {"faster", Json::array()}, {"same", Json::array()}};
  for (const auto& [name, c] : changes) {
    if (c.slower) json["ok"] = false;
    json[c.slower   ? "slower"
         : c.faster ? "faster"
                    : "same"]
        .push_back({{"name", name},
                    {"before", c.before / 1e3},
                    {"now", c.now / 1e3},
                    {"ratio", c.ratio},
                    {"p_slower", c.p_slower},
                    {"p_faster", c.p_faster}});
  }
  return json;
}

std::string make_text(const std::vector<RowChange>& changes) {
  Table table({"model", "ms before", "now", "now / before", "p slower", "p faster", ""});
  for (const auto& [name, c] : changes) {
    table.row({name, fmt::format("{:.4f}", c.before / 1e3), fmt::format("{:.4f}", c.now / 1e3),
               fmt::format("{:.3f}", c.ratio), fmt::format("{:.2g}", c.p_slower), fmt::format("{:.2g}", c.p_faster),
               verdict(c)});
  }
  return table.str();
}

}  // namespace fusec::tool
