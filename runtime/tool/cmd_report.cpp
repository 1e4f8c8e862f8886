// SPDX-License-Identifier: Apache-2.0
// Implements `fusec report`: what a model became, as one HTML page, or as the JSON that a later report is compared
// with. Times are measured here, or read from what another command wrote on the machine that has the device.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/measure/timing.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/report/page.h"
#include "runtime/tool/report_data.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

constexpr int64_t kProfiles = 9;  // runs whose launches are timed

struct ReportFlags : ModelFlags {
  std::string out = "report.html", times, compare;
  bool no_times = false;
  double duration = 0.5;
};

Result<Json> read_json(const std::string& flag, const std::string& file) {
  std::ifstream in(file);
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("{} {}: it cannot be read", flag, file));
  std::stringstream text;
  text << in.rdbuf();
  Json json = Json::parse(text.str(), nullptr, false);
  if (json.is_discarded()) return Status(StatusCode::invalid_argument, fmt::format("{} {}: it is no JSON", flag, file));
  return json;
}

Status write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  return out ? Status() : Status(StatusCode::invalid_argument, fmt::format("-o {}: it cannot be written", file));
}

Result<MeasuredTimes> measure(const FrontEnd& f, const ReportFlags& flags, const Request& request,
                              const Symbols& symbols) {
  FUSEC_ASSIGN(const Engine engine, compile_model(f.model, f.options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(const std::vector<Tensor> made, make_inputs(f.model, request, symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, made));
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(f.model, symbols));
  FUSEC_ASSIGN(const std::vector<TensorShape> out_shapes, session.output_shapes(shapes));
  FUSEC_ASSIGN(const std::vector<Tensor> outputs, make_outputs(engine, out_shapes));
  FUSEC_TRY(session.bind_io(inputs, outputs));
  FUSEC_TRY(session.run_bound());
  const Progress progress("timing runs");
  Status failed;
  const std::vector<double> us = time_runs(
      [&] {
        if (Status status = session.run_bound(); !status.ok()) failed = std::move(status);
      },
      {flags.duration, 0, 3});
  FUSEC_TRY(failed);
  MeasuredTimes times;
  times.run_us = median(us);
  times.source = fmt::format("{}, {} runs", runs_on(engine), us.size());
  FUSEC_ASSIGN(const PlanStats plan, time_launches(session, inputs, kProfiles));
  for (const LaunchInfo& step : plan.steps) {
    times.step_us.push_back(step.us);
    times.implementations.push_back(step.implementation);
  }
  return times;
}

// Where the code is for this machine, times are measured unless they are given or not wanted.
Result<std::optional<MeasuredTimes>> find_times(const FrontEnd& f, const ReportFlags& flags, const Request& request,
                                                const Symbols& symbols) {
  std::optional<MeasuredTimes> times;
  if (!flags.times.empty()) {
    FUSEC_ASSIGN(const Json json, read_json("--times", flags.times));
    FUSEC_ASSIGN(times, parse_times(json, flags.times));
  } else if (!flags.no_times && flags.targets.empty()) {
    FUSEC_ASSIGN(times, measure(f, flags, request, symbols));
  }
  return times;
}

Result<bool> write_report(const ReportFlags& flags) {
  const bool page = flags.out.ends_with(".html");
  if (!page && !flags.out.ends_with(".json"))
    return Status(StatusCode::invalid_argument, fmt::format("-o {}: the name must end in .html or .json", flags.out));
  Json old;
  if (!flags.compare.empty()) {
    FUSEC_ASSIGN(old, read_json("--compare", flags.compare));
    if (!old.is_object() || !old.contains("steps") || !old["steps"].is_array() || !old.contains("launches"))
      return Status(
          StatusCode::invalid_argument,
          fmt::format("--compare {}: it is no report; make one by fusec report M -o old.json", flags.compare));
  }
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::select));
  FUSEC_ASSIGN(const Request request, parse_request(f.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(f.model, request));
  FUSEC_ASSIGN(const std::optional<MeasuredTimes> times, find_times(f, flags, request, symbols));
  FUSEC_ASSIGN(const Json data, report_data(f, symbols, times));
  Json named = {{"model", flags.model}};
  named.update(data);
  FUSEC_TRY(write_file(flags.out,
                       page ? report_page(named, old) : named.dump(1, ' ', false, Json::error_handler_t::replace)));
  const Json changes = old.is_null() ? Json::array() : compare_reports(old, named);
  if (flags.json) {
    Json out = {{"file", flags.out}, {"steps", named["steps"].size()}, {"notes", named["notes"]}};
    if (!old.is_null()) out["changes"] = changes;
    print(out);
    return true;
  }
  print_text(
      fmt::format("{}: {} steps{}", flags.out, named["steps"].size(),
                  times ? fmt::format(", a run takes {:.1f} us ({})", times->run_us, times->source) : ", no times"));
  for (const Json& note : named["notes"]) print_text(note.get<std::string>());
  if (!old.is_null()) print_text(fmt::format("{} differences from {}", changes.size(), flags.compare));
  return true;
}

}  // namespace

Command report_command() {
  auto flags = std::make_shared<ReportFlags>();
  return {"report", "what a model became, as one page: the fused graph, kernels, roofline, memory, times",
          "  fusec report model.onnx --random-weights 1                 report.html, with times of this machine\n"
          "  fusec report model.onnx --random-weights 1 -o old.json     its data, to compare with later\n"
          "  fusec report model.onnx --random-weights 1 --compare old.json\n"
          "  fusec report model.onnx --random-weights 1 --target cuda:sm_90 --times bench.json\n"
          "                            without the GPU: times that `fusec bench --steps --json` wrote there",
          [flags](Flags& f) {
            declare_model(f, *flags, kEverything & ~kVerbose);
            f.option("-o,--output", flags->out, "FILE.html, or FILE.json for its data alone (default report.html)");
            f.option(
                "--times", flags->times,
                "FILE that `fusec bench M --steps --json` or `fusec profile M --json` wrote, in place of measuring");
            f.flag("--no-times", flags->no_times, "measure nothing");
            f.option("--duration", flags->duration, "seconds to measure whole runs (default 0.5)");
            f.option("--compare", flags->compare, "FILE.json of an earlier report: the page shows what changed");
          },
          [flags] { return write_report(*flags); }};
}

}  // namespace fusec::tool
