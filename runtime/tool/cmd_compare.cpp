// SPDX-License-Identifier: Apache-2.0
// Implements `fusec compare`: runs a model as compiled and a reference, and names the first value between the steps
// that differs.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/value_check.h"
#include "runtime/tool/value_reference.h"

namespace fusec::tool {
namespace {

struct CompareFlags : AgainstFlags {
  std::optional<double> tolerance;
  bool check = false, denormals = false;
};

enum class Agreement : uint8_t { good, bad, not_compared };

struct ValueRow {
  ValueInfo info;
  bool is_output = false;  // the model's output as a whole, not as a value of a region
  std::string shape;
  DType dtype = DType::f32;
  std::string matched;  // by what
  ValueDiff diff;
  Agreement verdict = Agreement::not_compared;
};

struct Comparison {
  std::vector<ValueRow> rows;  // in the order of the launches, then the outputs
  std::map<ir::ValueId, Agreement> verdicts;
  std::size_t compared = 0, only_here = 0, only_there = 0;
  const ValueRow* first_bad() const {
    for (const ValueRow& row : rows)
      if (row.verdict == Agreement::bad) return &row;
    return nullptr;
  }
};

void judge(ValueRow& row, const Tensor& got, const std::optional<Match>& match, std::optional<double> tolerance) {
  row.shape = shape_text(got.shape());
  row.dtype = got.dtype();
  if (!match) return;
  row.matched = match->by;
  row.diff = diff_values(got, match->value, match->rounding, tolerance);
  row.verdict = row.diff.why.empty() ? Agreement::good : Agreement::bad;
}

Result<Comparison> compare_run(const ValueRun& run, ValueReference& reference, const std::vector<Tensor>& inputs,
                               const CompareFlags& flags, SpecialsCheck* check) {
  Comparison c;
  const auto add = [&](ValueRow row) {
    (row.verdict == Agreement::not_compared ? c.only_here : c.compared) += 1;
    c.rows.push_back(std::move(row));
  };
  FUSEC_ASSIGN(const std::vector<Tensor> outputs,
               run.run(inputs, [&](const ValueInfo& info, const Tensor& value) -> Status {
                 if (check != nullptr) check->add(info, value);
                 ValueRow row;
                 row.info = info;
                 FUSEC_ASSIGN(const std::optional<Match> match, reference.find(info));
                 judge(row, value, match, flags.tolerance);
                 c.verdicts[info.id] = row.verdict;
                 add(std::move(row));
                 return {};
               }));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ValueRow row;
    row.is_output = true;
    row.info.id = run.graph().outputs[i];
    row.info.name = run.engine().outputs()[i].name;
    if (const ir::Node* node = run.graph().producer(row.info.id)) row.info.origin = node->origin;
    FUSEC_ASSIGN(const std::optional<Match> match, reference.output(i));
    judge(row, outputs[i], match, flags.tolerance);
    add(std::move(row));
  }
  c.only_there = reference.unmatched();
  return c;
}

struct RegionInputs {
  std::vector<std::string> good, bad, not_compared, given;
};

RegionInputs inputs_of(const ValueRun& run, const Comparison& c, const ValueRow& row) {
  RegionInputs out;
  if (row.is_output) return out;
  for (const ir::ValueId v : run.region(row.info.region).inputs) {
    const auto at = c.verdicts.find(v);
    const bool given = run.graph().is_constant(v) || !run.graph().values[v].producer.valid();
    std::vector<std::string>& list = given                           ? out.given
                                     : at == c.verdicts.end()        ? out.not_compared
                                     : at->second == Agreement::good ? out.good
                                     : at->second == Agreement::bad  ? out.bad
                                                                     : out.not_compared;
    list.push_back(run.name(v));
  }
  return out;
}

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(fmt::format("{}", x)); }

Json row_json(const ValueRow& row) {
  Json json = {{"value", row.info.name},
               {"origin", row.info.origin},
               {"op", row.info.op},
               {"dtype", to_string(row.dtype)},
               {"shape", row.shape}};
  if (row.is_output) {
    json["output"] = true;
  } else {
    json["region"] = row.info.region, json["step"] = row.info.step, json["kernel"] = row.info.kernel;
  }
  json["compared"] = row.verdict != Agreement::not_compared;
  if (row.verdict == Agreement::not_compared) return json;
  json["matched_by"] = row.matched;
  json["ok"] = row.verdict == Agreement::good;
  json["rel_l2"] = number(row.diff.rel_l2);
  json["max_abs"] = number(row.diff.max_abs);
  json["tolerance"] = row.diff.tolerance;
  if (row.verdict == Agreement::bad) {
    json["why"] = row.diff.why;
    json["worst"] = {{"index", row.diff.worst}, {"got", number(row.diff.got)}, {"expected", number(row.diff.expected)}};
  }
  return json;
}

Json first_json(const ValueRun& run, const Comparison& c) {
  const ValueRow* bad = c.first_bad();
  if (bad == nullptr) return nullptr;
  Json json = row_json(*bad);
  const RegionInputs inputs = inputs_of(run, c, *bad);
  json["inputs"] = {
      {"good", inputs.good}, {"bad", inputs.bad}, {"not_compared", inputs.not_compared}, {"given", inputs.given}};
  return json;
}

std::string row_place(const ValueRow& row) { return row.is_output ? "output" : fmt::format("{}", row.info.step); }

std::string table_of(const Comparison& c, bool all) {
  Table table({"step", "value", "rel_l2", "max_abs", "verdict", "kernel", "origin"});
  bool any = false;
  for (const ValueRow& row : c.rows) {
    if (!all && row.verdict != Agreement::bad) continue;
    any = true;
    const bool known = row.verdict != Agreement::not_compared;
    table.row({row_place(row), shortened(row.info.name, 24), known ? fmt::format("{:.3g}", row.diff.rel_l2) : "-",
               known ? fmt::format("{:.3g}", row.diff.max_abs) : "-",
               row.verdict == Agreement::good  ? "ok"
               : row.verdict == Agreement::bad ? row.diff.why
                                               : "not compared",
               row.info.kernel.empty() ? "-" : row.info.kernel, shortened(row.info.origin, 60)});
  }
  return any ? table.str() : "";
}

std::string list_text(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("  {}: {}\n", what, fmt::join(names, ", "));
}

std::string first_text(const ValueRun& run, const Comparison& c, const CompareFlags& flags) {
  const ValueRow* bad = c.first_bad();
  if (bad == nullptr) return "";
  std::string out = fmt::format("first value over tolerance: '{}' of '{}' ({})\n", bad->info.name, bad->info.origin,
                                bad->info.op.empty() ? "output" : bad->info.op);
  out += fmt::format("  {}; worst element {}: {}, expected {}\n", bad->diff.why, index_text(bad->diff.worst),
                     bad->diff.got, bad->diff.expected);
  if (bad->is_output) {
    out += flags.against == "evaluator"
               ? "  every value of the optimized graph agrees with it, so that a pass has changed the meaning: fusec "
                 "optimize --bisect names it\n"
               : "  no value before it that could be compared differs\n";
    return out;
  }
  out += fmt::format("  region {}, step {}, kernel {}\n", bad->info.region, bad->info.step, bad->info.kernel);
  const RegionInputs inputs = inputs_of(run, c, *bad);
  out += list_text("its region read values that agree", inputs.good) +
         list_text("values that differ as well", inputs.bad) +
         list_text("values that were not compared", inputs.not_compared) +
         list_text("inputs and constants", inputs.given);
  return out;
}

Result<bool> compare_values(const CompareFlags& flags) {
  if (flags.denormals && !flags.check)
    return Status(StatusCode::invalid_argument, "--denormals extends --check-values");
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(loaded.model, request, symbols));
  FUSEC_ASSIGN(const ValueRun run, ValueRun::make(loaded.model, options));
  tell_engine(run.engine(), flags);
  FUSEC_ASSIGN(const std::unique_ptr<ValueReference> reference,
               make_value_reference(flags, loaded.model, options, run, inputs));
  std::optional<SpecialsCheck> check;
  if (flags.check) check.emplace(loaded.model, run, inputs, flags.denormals);
  FUSEC_ASSIGN(const Comparison c, compare_run(run, *reference, inputs, flags, check ? &*check : nullptr));
  const bool ok = c.first_bad() == nullptr && (!check || check->ok());
  if (flags.json) {
    Json values = Json::array();
    for (const ValueRow& row : c.rows) values.push_back(row_json(row));
    Json json = {{"ok", ok},
                 {"device", options.device},
                 {"against", flags.against},
                 {"symbols", symbols},
                 {"compared", c.compared},
                 {"only_here", c.only_here},
                 {"only_there", c.only_there},
                 {"nodes", run.nodes()},
                 {"nodes_inside_regions", run.nodes_inside_regions()},
                 {"first_bad", first_json(run, c)},
                 {"values", values}};
    if (check) json["check"] = check->json();
    print(json);
    return ok;
  }
  if (const std::string table = table_of(c, flags.verbose); !table.empty()) print_text(table);
  if (const std::string first = first_text(run, c, flags); !first.empty()) print_text(first);
  if (check) print_text(check->text());
  print_text(
      fmt::format("{} on {} against {}: {} values compared, {} here alone, {} there alone; {} of {} nodes are "
                  "inside regions{}",
                  ok ? "ok" : "FAILED", options.device, flags.against, c.compared, c.only_here, c.only_there,
                  run.nodes_inside_regions(), run.nodes(), options.fuse ? " (--no-fusion: none but views)" : ""));
  return ok;
}

}  // namespace

Command compare_command() {
  auto flags = std::make_shared<CompareFlags>();
  return {
      "compare", "name the first value between the steps that differs from a reference; exit code 1 when one does",
      "  fusec compare model.onnx --random-weights 1               against the evaluator, value by value\n"
      "  fusec compare model.onnx --against unfused                against one kernel per op\n"
      "  fusec compare model.onnx --device cuda:0 --against cpu\n"
      "  fusec compare model.onnx --against onnxruntime            by the Python package; --python names who has it\n"
      "  fusec compare model.onnx --against there/                 what fusec run --dump-values there/ has written\n"
      "  fusec compare model.onnx --check-values --json",
      [flags](Flags& f) {
        declare_model(f, *flags);
        f.option(
            "--against", flags->against,
            "evaluator (default: on the optimized graph, and for the outputs on the graph as imported), unfused "
            "(the same with --no-fusion), onnxruntime (of its values those that passes leave as they are), cpu (for "
            "another device), or a folder of fusec run --dump-values");
        f.option(
            "--python", flags->python,
            "of --against onnxruntime: an interpreter that has the packages numpy and onnxruntime (default python3)");
        f.option("--tolerance", flags->tolerance, "largest rel_l2 of float values, whatever their type");
        f.flag("--check-values", flags->check, "looks for NaN and infinities too, as fusec run does");
        f.flag("--denormals", flags->denormals, "of --check-values: subnormal numbers too");
      },
      [flags] { return compare_values(*flags); }};
}

}  // namespace fusec::tool
