// SPDX-License-Identifier: Apache-2.0
// Writes statistics as JSON.

#include "fusec/stats.h"
#include "ir/support/json.h"

namespace fusec {
namespace {

void write_step(ir::JsonWriter& json, const LaunchInfo& step) {
  json.open('{').member("origin", step.origin).member("generated", step.generated).member("once", step.once);
  json.member("specialized", step.specialized).member("implementation", step.implementation);
  json.member("bytes", step.bytes).member("threads", step.threads).member("us", step.us);
  json.member("predicted_us", step.predicted_us).member("bound_us", step.bound_us).close('}');
}

void write_launch(ir::JsonWriter& json, const LaunchProfile& launch) {
  const LaunchInfo& info = launch.info;
  const auto model_time = [&](const char* name, double us) {  // of generated kernels; libraries have none
    json.key(name);
    info.generated ? json.value(us) : json.null();
  };
  json.open('{').member("name", info.implementation).member("kind", info.generated ? "generated" : "library");
  json.member("origin", info.origin).member("us", info.us).member("start_us", launch.start_us);
  json.member("end_us", launch.end_us).member("gap_us", launch.gap_us).member("bytes", info.bytes);
  json.member("gb_per_s", launch.gb_per_s);
  model_time("predicted_us", info.predicted_us);
  model_time("bound_us", info.bound_us);
  json.member("kernels", launch.kernels).member("registers", launch.registers).member("spills", launch.spilled_bytes);
  json.member("threads", info.threads).member("track", launch.track).close('}');
}

}  // namespace

std::string to_json(const EngineStats& stats) {
  ir::JsonWriter json;
  json.open('{').member("compile_ms", stats.compile_ms).member("device_ms", stats.device_ms);
  json.member("weights_ms", stats.weights_ms).key("stages").open('[');
  for (const StageTime& stage : stats.stages) {
    json.open('{').member("stage", stage.stage).member("ms", stage.ms).close('}');
  }
  json.close(']').member("imported_ops", stats.imported_ops).member("distinct_kernels", stats.distinct_kernels);
  json.member("compiled_kernels", stats.compiled_kernels).key("kernels").open('[');
  for (const KernelTime& time : stats.kernels) {
    json.open('{').member("kernel", time.kernel).member("ms", time.ms).close('}');
  }
  json.close(']').member("cached_kernels", stats.cached_kernels).member("shared_kernels", stats.shared_kernels);
  json.member("server_kernels", stats.server_kernels).member("damaged_entries", stats.damaged_entries);
  json.member("code_bytes", stats.code_bytes).member("constant_bytes", stats.constant_bytes);
  return json.member("notes", stats.notes).close('}').text();
}

std::string to_json(const PlanStats& stats) {
  ir::JsonWriter json;
  json.open('{').key("symbols").open('{');
  for (const auto& [name, value] : stats.symbols) json.member(name, value);
  json.close('}').member("launches", stats.launches).member("generated", stats.generated);
  json.member("library", stats.library).member("once", stats.once).member("tuned", stats.tuned);
  json.member("specialized", stats.specialized).member("compiled_kernels", stats.compiled_kernels);
  json.member("arena_bytes", stats.arena_bytes).member("live_lower_bound_bytes", stats.live_lower_bound_bytes);
  json.member("kept_bytes", stats.kept_bytes).member("moved_bytes", stats.moved_bytes);
  json.member("bind_ms", stats.bind_ms).key("steps").open('[');
  for (const LaunchInfo& step : stats.steps) write_step(json, step);
  return json.close(']').close('}').text();
}

std::string to_json(const SessionStats& stats) {
  ir::JsonWriter json;
  json.open('{').member("runs", stats.runs).member("prepared", stats.prepared);
  json.member("arena_bytes", stats.arena_bytes).member("staged_copies", stats.staged_copies);
  json.member("swapped", stats.swapped).member("captured_graphs", stats.captured_graphs);
  json.member("replayed_graphs", stats.replayed_graphs).member("notes", stats.notes);
  return json.close('}').text();
}

std::string to_json(const Profile& profile) {
  ir::JsonWriter json;
  json.open('{').member("source", profile.source).member("runs", profile.runs);
  json.member("measured_us", profile.measured_us).member("device_us", profile.device_us);
  json.member("traced_us", profile.traced_us).member("traced_device_us", profile.traced_device_us);
  json.member("device_slow_down", profile.device_slow_down()).member("slow_down", profile.slow_down());
  json.member("sum_us", profile.sum_us).member("copies_us", profile.copies_us).member("gaps_us", profile.gaps_us);
  json.member("host_us", profile.host_us).member("unexplained_us", profile.unexplained_us).key("launches").open('[');
  for (const LaunchProfile& launch : profile.launches) write_launch(json, launch);
  json.close(']').key("counters").open('{');
  for (const auto& [name, value] : profile.counters) json.member(name, value);
  return json.close('}').member("notes", profile.notes).close('}').text();
}

}  // namespace fusec
