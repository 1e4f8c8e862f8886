// SPDX-License-Identifier: Apache-2.0
// Implements `fusec conformance`: finds ONNX test cases, runs them in child processes, and reports results by tier, op
// and reason. It looks for a GPU in a child process, because children of a process that initialized CUDA cannot use the
// driver.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>

#include "fusec/device.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/measure/conformance.h"

namespace fusec::tool {
namespace {

struct ConformanceFlags : ModelFlags {
  std::string folder, engine = "compiled", only;
  std::optional<double> rtol, atol;
  double time_limit = 60;
  int jobs = 0;
  bool markdown = false, brief = false, tiers = false;
};

struct Counts {
  int64_t passed = 0, wrong = 0, unsupported = 0, constants = 0;
  int64_t total() const { return passed + wrong + unsupported; }
  void add(const CaseResult& r) {
    passed += r.status == CaseStatus::passed;
    wrong += r.status == CaseStatus::wrong;
    unsupported += r.status == CaseStatus::unsupported;
    constants += r.status == CaseStatus::passed && r.given_constants;
  }
};

Counts count(const std::vector<CaseResult>& results) {
  Counts counts;
  for (const CaseResult& r : results) counts.add(r);
  return counts;
}

constexpr const char* kTierOrder[] = {"elementwise", "reduce", "move", "compute", "control", "other"};

std::vector<std::pair<std::string, Counts>> by_tier(const std::vector<CaseResult>& results) {
  std::map<std::string, Counts> found;
  for (const CaseResult& r : results) found[r.tier.empty() ? "other" : r.tier].add(r);
  std::vector<std::pair<std::string, Counts>> rows;
  for (const char* tier : kTierOrder) {
    if (found.count(tier) > 0) rows.emplace_back(tier, found[tier]);
  }
  return rows;
}

// What import lacks, without names of nodes and inputs: "op 'Loop'" of "... no rule for it (op 'Loop', domain ...".
std::string lacking(const std::string& reason) {
  std::string text = reason.starts_with("unsupported: ") ? reason.substr(13) : reason;
  constexpr std::string_view kLacks = "the model needs what fusec lacks: ";
  if (text.starts_with(kLacks)) text = text.substr(kLacks.size());
  const std::size_t op = text.find(" (op '");
  if (op == std::string::npos) return text.substr(0, text.find("; "));
  const std::string name = text.substr(op + 6, text.find('\'', op + 6) - op - 6);
  const std::string what = text.substr(0, op);
  return what == "no rule for it" ? "op " + name : name + ": " + what;
}

std::map<std::string, std::vector<std::string>> by_reason(const std::vector<CaseResult>& results, CaseStatus status) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const CaseResult& r : results) {
    if (r.status == status) reasons[status == CaseStatus::unsupported ? lacking(r.reason) : r.reason].push_back(r.name);
  }
  return reasons;
}

// Of models of one node; "" holds the others.
struct OpRow {
  Counts counts;
  double max_ulp = 0;
};
std::map<std::string, OpRow> by_op(const std::vector<CaseResult>& results) {
  std::map<std::string, OpRow> ops;
  for (const CaseResult& r : results) {
    OpRow& row = ops[r.op];
    row.counts.add(r);
    if (r.status == CaseStatus::passed) row.max_ulp = std::max(row.max_ulp, r.max_ulp);
  }
  return ops;
}

std::string op_name(const std::string& op) { return op.empty() ? "several nodes" : op; }

std::string summary_line(const Counts& c) {
  return fmt::format("{} passed ({} with inputs as constants), {} wrong, {} unsupported, {} in all", c.passed,
                     c.constants, c.wrong, c.unsupported, c.total());
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string describe_rule(const ConformanceFlags& flags) {
  return fmt::format(
      "|got - expected| <= {:g} + {:g} |expected| (a case's own data.json has precedence; f16, bf16: or 2 ulp); others "
      "equal",
      flags.atol.value_or(CaseOptions().atol), flags.rtol.value_or(CaseOptions().rtol));
}

void print_tables(const std::vector<CaseResult>& results, const std::string& where, const ConformanceFlags& flags) {
  Table tiers({"tier", "passed", "wrong", "unsupported", "total"});
  for (const auto& [tier, c] : by_tier(results)) {
    tiers.row({tier, std::to_string(c.passed), std::to_string(c.wrong), std::to_string(c.unsupported),
               std::to_string(c.total())});
  }
  print_text(tiers.str());
  if (flags.verbose) {
    Table ops({"op", "passed", "wrong", "unsupported", "max_ulp"});
    for (const auto& [op, row] : by_op(results)) {
      ops.row({op_name(op), std::to_string(row.counts.passed), std::to_string(row.counts.wrong),
               std::to_string(row.counts.unsupported), fmt::format("{:.4g}", row.max_ulp)});
    }
    print_text("\n" + ops.str());
  }
  for (const CaseStatus status : {CaseStatus::unsupported, CaseStatus::wrong}) {
    const auto reasons = by_reason(results, status);
    if (!reasons.empty()) print_text(fmt::format("\n{}:", to_string(status)));
    for (const auto& [reason, names] : reasons) {
      const bool all = flags.verbose || status == CaseStatus::wrong;
      print_text(fmt::format("{:5}  {}{}", names.size(), shortened(reason, 200), all ? ": " + joined(names) : ""));
    }
  }
  print_text(fmt::format("\n{}; {}\n{}", summary_line(count(results)), where, describe_rule(flags)));
}

void print_markdown(const std::vector<CaseResult>& results, const std::string& where, const ConformanceFlags& flags) {
  std::string text =
      fmt::format("{}; {}. {}\n\n| tier | passed | wrong | unsupported | total |\n|---|---|---|---|---|\n",
                  summary_line(count(results)), where, describe_rule(flags));
  for (const auto& [tier, c] : by_tier(results)) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", tier, c.passed, c.wrong, c.unsupported, c.total());
  }
  if (flags.brief) return print_text(text);
  text += "\n| op | passed | unsupported | largest error, ulp |\n|---|---|---|---|\n";
  for (const auto& [op, row] : by_op(results)) {
    text +=
        fmt::format("| {} | {} | {} | {:.4g} |\n", op_name(op), row.counts.passed, row.counts.unsupported, row.max_ulp);
  }
  text += "\n| lacking | cases |\n|---|---|\n";
  for (const auto& [reason, names] : by_reason(results, CaseStatus::unsupported)) {
    text += fmt::format("| {} | {} |\n", reason, joined(names));
  }
  print_text(text);
}

Json make_json(const std::vector<CaseResult>& results, const std::string& where, const ConformanceFlags& flags) {
  const Counts c = count(results);
  Json json = {{"total", c.total()},
               {"passed", c.passed},
               {"wrong", c.wrong},
               {"unsupported", c.unsupported},
               {"given_constants", c.constants},
               {"engine", flags.engine},
               {"on", where},
               {"tolerance", describe_rule(flags)}};
  Json tiers = Json::object();
  for (const auto& [tier, t] : by_tier(results)) {
    tiers[tier] = {{"total", t.total()}, {"passed", t.passed}, {"wrong", t.wrong}, {"unsupported", t.unsupported}};
  }
  json["tiers"] = std::move(tiers);
  json["cases"] = Json::array();
  for (const CaseResult& r : results) json["cases"].push_back(make_json(r));
  return json;
}

// Where --device names none: asked in a child, for children of a process that has opened the driver cannot use it.
bool has_gpu() {
  const pid_t pid = fork();
  if (pid == 0) _exit(gpu_status().ok() ? 0 : 1);
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Result<CaseOptions> case_options(const ConformanceFlags& given) {
  ConformanceFlags flags = given;
  if (flags.device.empty() && flags.targets.empty())
    flags.device = flags.engine == "compiled" && has_gpu() ? "cuda:0" : "cpu";
  CaseOptions options;
  options.rtol = flags.rtol.value_or(options.rtol);
  options.atol = flags.atol.value_or(options.atol);
  if (flags.engine != "compiled" && flags.engine != "evaluator") {
    return Status(StatusCode::invalid_argument,
                  fmt::format("--engine {} is not one of compiled, evaluator", flags.engine));
  }
  if (!(options.rtol >= 0 && options.atol >= 0 && flags.time_limit > 0)) {
    return Status(StatusCode::invalid_argument, "--rtol and --atol are not negative, --time-limit is more than 0");
  }
  if (flags.engine == "compiled") {
    FUSEC_ASSIGN(options.compiled, parse_options(flags));
    if (options.compiled->threads == 0) options.compiled->threads = 1;  // the processes fill the machine
  }
  return options;
}

Result<bool> conformance(const ConformanceFlags& flags) {
  if (flags.tiers) {
    print_text(tiers_markdown());
    return true;
  }
  if (flags.brief && !flags.markdown)
    return Status(StatusCode::invalid_argument, "--brief is for --markdown; leave it out");
  FUSEC_ASSIGN(const CaseOptions options, case_options(flags));
  FUSEC_ASSIGN(std::vector<std::filesystem::path> cases, find_cases(flags.folder));
  std::erase_if(cases,
                [&](const auto& path) { return path.filename().string().find(flags.only) == std::string::npos; });
  if (cases.empty())
    return Status(StatusCode::invalid_argument, fmt::format("no case has '{}' in its name", flags.only));
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
  const std::vector<CaseResult> results =
      run_cases(cases, options, flags.jobs > 0 ? flags.jobs : cores, flags.time_limit);
  const std::string where =
      options.compiled ? fmt::format("compiled, {}, {}", options.compiled->device, flags.numerics) : "evaluator";
  if (flags.json) {
    print(make_json(results, where, flags));
  } else if (flags.markdown) {
    print_markdown(results, where, flags);
  } else {
    print_tables(results, where, flags);
  }
  return count(results).wrong == 0;
}

}  // namespace

Command conformance_command() {
  auto flags = std::make_shared<ConformanceFlags>();
  return {"conformance",
          "run ONNX test cases: folders with model.onnx and test_data_set_*; exit code 1 when a result is wrong",
          "  fusec conformance /usr/share/libonnx-testdata/data/node        Debian's libonnx-testdata\n"
          "  fusec conformance node --engine evaluator -v                   by the evaluator; every op and case\n"
          "  fusec conformance node --only resize --device cuda:0 --json",
          [flags](Flags& f) {
            f.argument("folder", flags->folder, "a case, or a tree of cases");
            f.option("--engine", flags->engine, "compiled (default) or evaluator");
            f.option("--only", flags->only, "cases with this in their name");
            f.option("--rtol", flags->rtol, "relative tolerance of floats (default 1e-3, as ONNX's)");
            f.option("--atol", flags->atol, "absolute tolerance of floats (default 1e-7, as ONNX's)");
            f.option("--time-limit", flags->time_limit, "seconds after which a case is wrong (default 60)");
            f.option("--jobs", flags->jobs, "processes side by side (default: one per core)");
            f.flag("--markdown", flags->markdown, "tables for a page");
            f.flag("--brief", flags->brief, "of these the first alone");
            f.flag("--tiers", flags->tiers, "print which ops are of which tier, run nothing");
            declare_common(f, *flags, kCompiles | kCaches | kLibraries | kRuns | kVerbose);
          },
          [flags] { return conformance(*flags); }};
}

}  // namespace fusec::tool
