// SPDX-License-Identifier: Apache-2.0
// Implements `fusec profile`: a table of where the time of a run goes, and a timeline for trace viewers.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "fusec/session.h"
#include "fusec/stats.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/timeline.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kOriginWidth = 60;

struct ProfileFlags : ModelFlags {
  std::string trace, format;
  int64_t runs = 0;
};

double share(const Profile& profile, double us) { return profile.measured_us > 0 ? us / profile.measured_us : 0; }

Json make_json(const Profile& profile, const Engine& engine, const Symbols& symbols) {
  Json json = {{"device", to_string(engine.device())},
               {"target", engine.target().name},
               {"threads", engine.threads()},
               {"symbols", symbols}};
  json.update(Json::parse(to_json(profile)));
  return json;
}

std::string launches_table(const Profile& profile, bool gpu) {
  std::vector<std::string> header = {"#", "kind", "name", "us", "share", "GB/s", "predicted", "bound"};
  if (gpu) header.insert(header.end(), {"registers", "spills"});
  header.push_back("origin");
  Table table(header);
  int number = 0;
  for (const LaunchProfile& launch : profile.launches) {
    const LaunchInfo& info = launch.info;
    const auto predicted = [&](double us) { return info.generated ? fmt::format("{:.1f}", us) : "-"; };
    std::vector<std::string> row = {std::to_string(number++),
                                    info.generated ? "generated" : "library",
                                    info.implementation,
                                    fmt::format("{:.1f}", info.us),
                                    fmt::format("{:.1f}%", 100 * share(profile, info.us)),
                                    fmt::format("{:.1f}", launch.gb_per_s),
                                    predicted(info.predicted_us),
                                    predicted(info.bound_us)};
    if (gpu) row.insert(row.end(), {std::to_string(launch.registers), bytes_text(launch.spilled_bytes)});
    row.push_back(shortened(info.origin, kOriginWidth));
    table.row(std::move(row));
  }
  const auto part = [&](const char* name, double us, const char* what) {
    std::vector<std::string> row = {
        "-", "-", name, fmt::format("{:.1f}", us), fmt::format("{:.1f}%", 100 * share(profile, us)), "-", "-", "-"};
    if (gpu) row.insert(row.end(), {"-", "-"});
    row.emplace_back(what);
    table.row(std::move(row));
  };
  if (profile.copies_us > 0) part("copies", profile.copies_us, "of inputs, outputs and findings about indices");
  part("gaps", profile.gaps_us, "between launches");
  part("host", profile.host_us, "before the first launch and after the last");
  part("unexplained", profile.unexplained_us, "what a run without tracing takes beside these");
  return table.str();
}

std::string sum_line(const Profile& profile) {
  std::string out = fmt::format(
      "launches {:.1f}{} + gaps {:.1f} + host {:.1f} = {:.1f} us; a run without tracing takes {:.1f} us, of which "
      "{:.1f} ({:.1f}%) are unexplained; a traced run takes {:.1f} us, {:.2f} times as long",
      profile.sum_us, profile.copies_us > 0 ? fmt::format(" + copies {:.1f}", profile.copies_us) : "", profile.gaps_us,
      profile.host_us, profile.parts_us(), profile.measured_us, profile.unexplained_us,
      100 * share(profile, profile.unexplained_us), profile.traced_us, profile.slow_down());
  if (profile.traced_device_us > 0) {
    out += fmt::format("; the GPU takes {:.1f} us of a run, {:.1f} when it is traced: times are divided by {:.3f}",
                       profile.device_us, profile.traced_device_us, profile.device_slow_down());
  }
  return out;
}

const char* source_text(const Profile& profile) {
  if (profile.source == "threads") return "times are the threads' own";
  if (profile.source == "cupti") return "times are the GPU's, by CUPTI, inside the captured graph";
  return "times are between events around launches outside the graph";
}

// Where none are asked for: as many as take about a second.
Result<int64_t> choose_runs(Session& session, std::span<const Tensor> inputs, const ProfileFlags& flags) {
  constexpr int64_t kFew = 10, kMany = 500;
  if (flags.runs < 0) return Status(StatusCode::invalid_argument, "--runs wants a count of at least 1");
  if (flags.runs > 0) return flags.runs;
  FUSEC_TRY(session.run(inputs).status());
  Status failed;
  const double us = time_us([&] { failed = session.run(inputs).status(); });
  FUSEC_TRY(failed);
  return std::clamp(static_cast<int64_t>(5e5 / std::max(us, 1.0)), kFew, kMany);
}

Result<bool> profile(const Front& front, const ProfileFlags& flags) {
  if (flags.trace.empty() && !flags.format.empty()) {
    return Status(StatusCode::invalid_argument, "--format is for --trace FILE; leave it out");
  }
  TimelineFormat format = TimelineFormat::chrome;
  if (!flags.trace.empty()) {
    FUSEC_ASSIGN(format, timeline_format(flags.format, flags.trace));
  }
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, front.load(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const Engine engine, make_engine(front, loaded, options, symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> made, make_inputs(loaded.model, request, symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, made));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  ProfileOptions how;
  FUSEC_ASSIGN(how.runs, choose_runs(session, inputs, flags));
  FUSEC_ASSIGN(const Profile profile, session.profile(inputs, how));
  if (!flags.trace.empty()) {
    const std::string name = std::filesystem::path(flags.model).filename().string();
    FUSEC_TRY(write_timeline(profile, name, format, flags.trace));
  }
  if (flags.json) {
    print(make_json(profile, engine, symbols));
    return true;
  }
  print_text(fmt::format("{}{}; {} runs; {}", runs_on(engine), symbols.empty() ? "" : ", " + symbols_text(symbols),
                         profile.runs, source_text(profile)));
  print_text(launches_table(profile, engine.device().kind == TargetKind::cuda));
  print_text(sum_line(profile));
  for (const auto& [name, value] : profile.counters) print_text(fmt::format("{:<16} {:.0f} per run", name, value));
  for (const std::string& note : profile.notes) print_text("note: " + note);
  return true;
}

}  // namespace

Command profile_command(const Front& front) {
  auto flags = std::make_shared<ProfileFlags>();
  return {"profile", "tell where the time of a run goes, and write a timeline for trace viewers",
          "  fusec profile model.onnx --random-weights 1            a table of launches, gaps and the host's part\n"
          "  fusec profile model.onnx --trace run.pftrace           for ui.perfetto.dev\n"
          "  fusec profile model.onnx --trace run.json --runs 3     for chrome://tracing\n"
          "  nsys profile --trace=nvtx,cuda fusec run model.onnx    stages and runs are ranges of NVTX, without a flag",
          [flags](Flags& f) {
            declare_model(f, *flags);
            declare_package(f, *flags);
            f.option("--runs", flags->runs,
                     "so many traced runs, and as many without tracing (default: half a second of each, 10 to 500)");
            f.option("--trace", flags->trace,
                     "FILE.json, FILE.pftrace or FILE.perfetto-trace: writes the timeline there");
            f.option("--format", flags->format, "chrome | perfetto: of --trace, whatever the file is called");
          },
          [front, flags] { return profile(front, *flags); }};
}

}  // namespace fusec::tool
