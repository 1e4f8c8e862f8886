// SPDX-License-Identifier: Apache-2.0
// Bounds and advice for a machine that is not here, from its tuning database alone. Calls without rows are refused;
// kernels depend on details of the machine that no name tells, so those without rows count by its machine model.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "runtime/plan/bind.h"
#include "runtime/tool/advise.h"

namespace fusec::tool {
namespace {

using runtime::TuningRow;

constexpr const char* kKernels = "kernels; ";
constexpr std::string_view kWarm = " warm";  // ends keys of calls whose constants stay cached (runtime/tuning/key.cpp)

// Whether constants stay cached depends on the size of a cache, which the database does not tell.
std::string otherwise_cached(std::string call) {
  return call.ends_with(kWarm) ? call.substr(0, call.size() - kWarm.size()) : call + std::string(kWarm);
}

// "; sm_90 132 SMs;" or "; x86-64-v4;"
bool is_of_target(const std::string& scope, const Target& target) {
  return scope.find("; " + target.name + (target.kind == TargetKind::cuda ? " " : ";")) != std::string::npos;
}

// The number before `unit`; 0: the scope has none.
int number_before(const std::string& scope, const std::string& unit) {
  const std::size_t end = scope.find(unit);
  if (end == std::string::npos) return 0;
  const std::size_t begin = scope.rfind(' ', end - 1);
  return begin == std::string::npos ? 0 : std::atoi(scope.substr(begin + 1, end - begin - 1).c_str());
}

Result<std::string> only_scope(const std::set<std::string>& scopes, const std::string& what, const AdviseFlags& flags) {
  if (scopes.size() == 1) return *scopes.begin();
  if (scopes.empty())
    return Status(StatusCode::invalid_argument, fmt::format("{} has no rows of {}", flags.database, what));
  return Status(StatusCode::invalid_argument,
                fmt::format("{} has rows of {} machines or settings; choose with --scope: {}", flags.database,
                            scopes.size(), fmt::join(scopes, " | ")));
}

Result<Target> find_target(const Options& options) {
  if (!options.target.empty()) return named_target(options.target);
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  return machine.target;
}

// What the scope and the figures of the database say of the machine.
void describe(Target& target, const std::string& scope, const std::vector<runtime::FigureRow>& figures) {
  if (const int sms = number_before(scope, " SMs"); sms > 0 && target.kind == TargetKind::cuda) target.sm_count = sms;
  if (const int threads = number_before(scope, " threads"); threads > 0 && target.kind == TargetKind::cpu)
    target.threads = threads;
  const std::string hardware = scope.substr(0, scope.find(';'));
  for (const runtime::FigureRow& row : figures) {
    if (!row.device.starts_with(hardware + "; " + target.name)) continue;
    for (const FigureInfo& info : machine_figures())
      if (row.name == info.name) target.model.*info.member = {row.value, FigureSource::measured};
  }
}

// What is taken untuned: the default row, else the fastest, else the floor.
double untuned_us(const StepFacts& step, const WhatIf& rows) {
  if (step.kind == StepKind::call && step.taken_us) return *step.taken_us;
  const auto it = rows.kernels.find(step.layer);
  const TuningRow* const row = it == rows.kernels.end() ? nullptr : runtime::default_row(it->second);
  return row != nullptr ? row->median_us : step.layer_us.value_or(step.floor_us);
}

}  // namespace

Result<WhatIf> read_what_if(const AdviseFlags& flags, const Options& options) {
  WhatIf out;
  FUSEC_ASSIGN(out.target, find_target(options));
  auto database = runtime::TuningDatabase::open(flags.database);
  if (!database.ok())
    return Status(StatusCode::invalid_argument, "--database " + flags.database + ": " + database.status().message());
  FUSEC_ASSIGN(const std::vector<TuningRow> rows, (*database)->rows(""));
  std::set<std::string> calls, kernels;
  for (const TuningRow& row : rows) {
    if (!is_of_target(row.scope, out.target) || row.scope.find(flags.scope) == std::string::npos) continue;
    (row.scope.starts_with(kKernels) ? kernels : calls).insert(row.scope);
  }
  if (!calls.empty() || kernels.empty()) {
    FUSEC_ASSIGN(out.call_scope, only_scope(calls, out.target.name, flags));
  }
  // Of the same machine, where there are several.
  const std::string hardware = out.call_scope.substr(0, out.call_scope.find(';'));
  std::erase_if(kernels, [&](const std::string& scope) { return scope.find(hardware) == std::string::npos; });
  if (!kernels.empty()) {
    FUSEC_ASSIGN(out.kernel_scope, only_scope(kernels, out.target.name, flags));
  }
  if (out.call_scope.empty()) out.call_scope = out.kernel_scope.substr(std::string(kKernels).size());
  for (const TuningRow& row : rows) {
    if (row.scope == out.call_scope) out.calls[row.call].push_back(row);
    if (row.scope == out.kernel_scope) out.kernels[row.call].push_back(row);
  }
  FUSEC_ASSIGN(const std::vector<runtime::FigureRow> figures, (*database)->figures(""));
  describe(out.target, out.call_scope, figures);
  return out;
}

Result<Advised> advise_by_database(const Subject& subject, const WhatIf& rows, int64_t batch) {
  Advised out;
  out.batch = batch, out.by_database = true;
  FUSEC_ASSIGN(const Shapes shapes, make_shapes(subject, batch));
  out.symbols = shapes.symbols;
  runtime::LoadedProgram loaded;  // without code: it names the calls
  loaded.program = subject.stages.program;
  FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(loaded.program, shapes.shapes));
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(loaded.program, bindings));
  FactSources from{subject.stages.graph, subject.stages.partition, subject.stages.program, loaded, resolved, bindings,
                   rows.target};
  runtime::Tuning tuning(
      subject.options, rows.target, [] { return std::string(); }, true);
  from.threads = std::max(1, rows.target.threads);
  from.warm_constants = runtime::keeps_constants_cached(loaded.program, resolved, tuning);
  from.tf32 = subject.options.tf32, from.allowed = subject.allowed;
  from.workspace_limit = tuning.workspace_limit();
  const auto look_up = [](const std::map<std::string, std::vector<TuningRow>>& table) {
    return [&table](const std::string& call) {
      const auto it = table.find(call);
      return it == table.end() ? std::vector<TuningRow>() : it->second;
    };
  };
  from.kernel_rows = look_up(rows.kernels);
  from.call_rows = [&](const std::string& call) {
    const auto calls = look_up(rows.calls);
    std::vector<TuningRow> known = calls(call);
    return known.empty() ? calls(otherwise_cached(call)) : known;
  };
  from.taken_way = [&](const std::string& call) {
    const std::vector<TuningRow> ways = from.call_rows(call);
    const TuningRow* const row = runtime::default_row(ways);
    return row == nullptr ? std::string() : name_pick(*row);
  };
  out.steps = collect_facts(from);
  for (StepFacts& step : out.steps) {
    if (step.kind != StepKind::call) step.lacks_row = false;
    out.predicted += step.kind != StepKind::call && !step.layer_us;
  }
  FUSEC_TRY(refuse_missing(out.steps, subject.flags));
  double run_us = 0;
  for (StepFacts& step : out.steps) {
    step.us = untuned_us(step, rows);
    run_us += *step.us;
  }
  complete(out, {run_us, 0}, settings_of(subject));
  for (CheckedAdvice& one : out.advice) one.not_checked = "nothing is run";
  return out;
}

}  // namespace fusec::tool
