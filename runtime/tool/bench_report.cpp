// SPDX-License-Identifier: Apache-2.0
// Prints what `fusec bench` measured of one model: tables, JSON for scripts, CSV for spreadsheets.

#include <fmt/format.h>

#include <filesystem>

#include "fusec/device.h"
#include "runtime/plan/state.h"
#include "runtime/tool/bench_row.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kKeptSamples = 1000;

Json make_json(const Distribution& d) {
  return {{"mean_ms", d.mean / 1e3}, {"std_ms", d.std / 1e3}, {"min_ms", d.min / 1e3}, {"p50_ms", d.p50 / 1e3},
          {"p90_ms", d.p90 / 1e3},   {"p95_ms", d.p95 / 1e3}, {"p99_ms", d.p99 / 1e3}, {"max_ms", d.max / 1e3}};
}

Json make_json(const BenchRow& row, const BenchFlags& flags) {
  const Distribution times = summarize(row.us);
  Json json;
  if (row.batch > 0) json["batch"] = row.batch;
  json.update(Json{{"symbols", row.symbols}, {"median_ms", times.p50 / 1e3}});
  json.update(make_json(times));
  json.update(Json{{"runs", row.us.size()},
                   {"runs_per_s", row.runs_per_s()},
                   {"samples_per_s", nullptr},
                   {"launches", row.plan.launches},
                   {"specialized", row.plan.specialized},
                   {"bytes", row.bytes},
                   {"moved_bytes", row.plan.moved_bytes},
                   {"arena_bytes", row.plan.arena_bytes},
                   {"bind_ms", row.plan.bind_ms},
                   {"copy_ms", row.copy_us / 1e3},
                   {"score", nullptr},
                   {"compiled_kernels", row.compiled_kernels},
                   {"samples_us", thin_out(row.us, kKeptSamples)}});
  if (row.samples) json["samples_per_s"] = *row.samples * row.runs_per_s();
  if (row.score) json["score"] = *row.score;
  if (row.host) json["host_us"] = row.host->queued, json["host_after_wait_us"] = row.host->after_wait;
  if (!row.transfer_us.empty()) json["transfers"] = make_json(summarize(row.transfer_us));
  if (row.library_sum) json["library_sum"] = make_json(*row.library_sum);
  if (flags.steps) json["steps"] = steps_json(row.plan, row.steps);
  if (flags.by_op) json["ops"] = ops_json(row.plan, row.steps);
  return json;
}

std::string symbols_or_dash(const BenchRow& row) { return row.symbols.empty() ? "-" : symbols_text(row.symbols); }

std::string ms_text(double us) { return fmt::format("{:.4f}", us / 1e3); }

// "2345 samples/s", "71.2 runs/s".
std::string throughput_text(const BenchRow& row) {
  const double rate = row.runs_per_s() * row.samples.value_or(1);
  return fmt::format("{:.{}f} {}/s", rate, rate < 100 ? 1 : 0, row.samples ? "samples" : "runs");
}

void add_times(Table& table, const std::string& name, const Distribution& d) {
  table.row({name, ms_text(d.mean), ms_text(d.std), ms_text(d.min), ms_text(d.p50), ms_text(d.p90), ms_text(d.p95),
             ms_text(d.p99), ms_text(d.max)});
}

std::string distributions_text(const BenchReport& report) {
  Table table({"ms", "mean", "std", "min", "p50", "p90", "p95", "p99", "max"});
  for (const BenchRow& row : report.rows) {
    add_times(table, symbols_or_dash(row), summarize(row.us));
    if (!row.transfer_us.empty()) add_times(table, symbols_or_dash(row) + ", with copies", summarize(row.transfer_us));
  }
  return table.str();
}

std::string head_text(const BenchReport& report, const BenchFlags& flags) {
  const EngineStats& stats = report.engine.stats();
  const StartUp& start = report.start;
  std::string text = fmt::format(
      "{}; compile {:.1f} ms, ready {:.1f} ms, weights {:.1f} ms, device {:.1f} ms; kernels: {} = {} compiled + {} "
      "cached\n",
      runs_on(report.engine), start.compile_ms, start.ready_ms, start.weights_ms, start.device_ms,
      stats.distinct_kernels, stats.compiled_kernels, stats.cached_kernels);
  if (flags.sessions > 1) {
    text += fmt::format("{} sessions side by side{}: times are of one run, rates of all together\n", flags.sessions,
                        flags.transfers ? ", with copies in and out" : "");
  }
  if (!flags.verbose) return text;
  for (const StageTime& stage : stats.stages) text += fmt::format("  {:<10} {:8.2f} ms\n", stage.stage, stage.ms);
  return text;
}

std::string details_text(const BenchRow& row) {
  std::string text;
  const std::string prefix = row.symbols.empty() ? "" : symbols_text(row.symbols) + ": ";
  if (row.host) {
    text += fmt::format("{}the calling thread spends {:.1f} us on a run, {:.1f} after waiting for the one before\n",
                        prefix, row.host->queued, row.host->after_wait);
  }
  if (row.library_sum) text += "\n" + symbols_text(row.symbols) + "\n" + report(*row.library_sum);
  return text;
}

// Symbols hold blanks, and names of models may hold anything.
std::string csv_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

double BenchRow::runs_per_s() const {
  if (us.empty()) return 0;
  if (seconds > 0) return static_cast<double>(us.size()) / seconds;
  return 1e6 / summarize(us).mean;
}

Json make_json(const BenchReport& report, const BenchFlags& flags) {
  const EngineStats& stats = report.engine.stats();
  Json json = {{"device", to_string(report.engine.device())},
               {"target", report.engine.target().name},
               {"threads", report.engine.threads()}};
  json.update(make_json(report.rows.front(), flags));
  json.erase("batch");
  json.update(Json{{"compile_ms", report.start.compile_ms},
                   {"ready_ms", report.start.ready_ms},
                   {"weights_ms", report.start.weights_ms},
                   {"device_ms", report.start.device_ms},
                   {"compiled_kernels", stats.compiled_kernels},
                   {"cached_kernels", stats.cached_kernels},
                   {"shared_kernels", stats.shared_kernels},
                   {"server_kernels", stats.server_kernels},
                   {"damaged_entries", stats.damaged_entries},
                   {"distinct_kernels", stats.distinct_kernels},
                   {"model", std::filesystem::path(flags.model).filename().string()},
                   {"precision", precision_name(report.engine.state()->options)},
                   {"numerics", numerics_name(report.engine.state()->options.numerics)},
                   {"tf32", report.engine.state()->options.tf32},
                   {"sessions", flags.sessions},
                   {"clocks", make_json(report.before, report.after)},
                   {"doubts", report.doubts}});
  Json stages = Json::object();
  for (const StageTime& stage : stats.stages) stages[stage.stage] = stage.ms;
  json["stages_ms"] = stages;
  json["batches"] = Json::array();
  for (const BenchRow& row : report.rows) json["batches"].push_back(make_json(row, flags));
  return json;
}

std::string make_csv(const BenchReport& report, const BenchFlags& flags) {
  std::string text =
      "model,device,symbols,batch,sessions,runs,mean_ms,std_ms,min_ms,p50_ms,p90_ms,p95_ms,p99_ms,max_ms,runs_per_s,"
      "samples_per_s,launches,bytes,copy_ms,score\n";
  for (const BenchRow& row : report.rows) {
    const Distribution d = summarize(row.us);
    text += fmt::format("{},{},{},{},{},{}", csv_text(std::filesystem::path(flags.model).filename().string()),
                        to_string(report.engine.device()), csv_text(symbols_text(row.symbols)), row.batch,
                        flags.sessions, d.runs);
    for (const double us : {d.mean, d.std, d.min, d.p50, d.p90, d.p95, d.p99, d.max})
      text += fmt::format(",{:.6f}", us / 1e3);
    text += fmt::format(",{:.3f},{},{},{},{:.6f},{}\n", row.runs_per_s(),
                        row.samples ? fmt::format("{:.3f}", *row.samples * row.runs_per_s()) : "", row.plan.launches,
                        row.bytes, row.copy_us / 1e3, row.score ? fmt::format("{:.4f}", *row.score) : "");
  }
  return text;
}

std::string make_text(const BenchReport& report, const BenchFlags& flags) {
  std::string text = head_text(report, flags);
  Table table(
      {"symbols", "median ms", "p95 ms", "min ms", "runs", "throughput", "launches", "in + out", "copy ms", "score"});
  for (const BenchRow& row : report.rows) {
    const Distribution d = summarize(row.us);
    table.row({symbols_or_dash(row), ms_text(d.p50), ms_text(d.p95), ms_text(d.min), std::to_string(row.us.size()),
               throughput_text(row), std::to_string(row.plan.launches), bytes_text(row.bytes), ms_text(row.copy_us),
               row.score ? fmt::format("{:.1f}%", 100 * *row.score) : "-"});
  }
  text += table.str() + "\n" + distributions_text(report);
  for (const BenchRow& row : report.rows) text += details_text(row);
  for (const BenchRow& row : report.rows) {
    if (flags.steps) text += "\n" + symbols_text(row.symbols) + "\n" + steps_table(row.plan, true, row.steps);
    if (flags.by_op) text += "\n" + symbols_text(row.symbols) + "\n" + ops_table(row.plan, row.steps);
  }
  return text;
}

}  // namespace fusec::tool
