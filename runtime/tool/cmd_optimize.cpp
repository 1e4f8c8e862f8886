// SPDX-License-Identifier: Apache-2.0
// Implements `fusec optimize`: prints the graph after the optimizer or after named passes, lists the passes with their
// times, and bisects for the first pass after which the compiled outputs differ from the evaluator's.

#include <fmt/format.h>

#include "fusec/session.h"
#include "ir/text/graph_text.h"
#include "runtime/device/host/detect.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/reference.h"

namespace fusec::tool {
namespace {

struct OptimizeFlags : ModelFlags {
  std::string passes;
  bool list = false, bisect = false;
};

Status check_passes(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (compiler::find_pass(name) == nullptr) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("there is no pass '{}'; see fusec optimize --list-passes", name));
    }
  }
  return {};
}

// With a model: how long each took and whether it changed the graph.
Result<bool> list_passes(const OptimizeFlags& flags) {
  Table table({"pass", "ms", "changed"});
  Json list = Json::array();
  std::vector<compiler::PassTime> times;
  if (!flags.model.empty()) {
    FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::optimize));
    times = f.passes;
  } else {
    for (const compiler::Pass& pass : compiler::pipeline()) times.push_back({pass.name, 0, false});
  }
  for (const compiler::PassTime& time : times) {
    const bool ran = !flags.model.empty();
    table.row({std::string(time.name), ran ? fmt::format("{:.2f}", time.ms) : "-",
               !ran           ? "-"
               : time.changed ? "yes"
                              : "no"});
    list.push_back({{"pass", time.name}, {"ms", time.ms}, {"changed", time.changed}});
  }
  if (flags.json) {
    print(list);
  } else {
    print_text(table.str());
  }
  return true;
}

// The named passes alone, in the order given.
Result<ir::Graph> run_named(const OptimizeFlags& flags, const std::vector<std::string>& names) {
  FUSEC_TRY(check_passes(names));
  FUSEC_ASSIGN(FrontEnd f, run_stages(flags, Stage::import));
  const compiler::PassContext context{f.target, f.options};
  for (const std::string& name : names) {
    FUSEC_TRY(compiler::run_pass(*compiler::find_pass(name), f.graph, context).status());
  }
  return ir::compact(f.graph);
}

// One model with one set of inputs and their reference; tried with the first `count` passes of the optimizer.
struct Trial {
  Model model;
  Options options;
  std::vector<Tensor> inputs, reference;

  Result<bool> passes(int count) const {
    Options some = options;
    some.stop_after_passes = count;
    FUSEC_ASSIGN(const Engine engine, Engine::compile(model, some));
    FUSEC_ASSIGN(Session session, Session::create(engine));
    FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(inputs));
    return compare_to_expected(model, got, Expected{reference, {}}, std::nullopt).ok;
  }
};

Result<Trial> make_trial(const OptimizeFlags& flags) {
  Trial trial;
  FUSEC_ASSIGN(trial.options, parse_options(flags));
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  trial.model = std::move(loaded.model);
  FUSEC_ASSIGN(const Request request, parse_request(trial.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(trial.model, request));
  FUSEC_ASSIGN(trial.inputs, make_inputs(trial.model, request, symbols));
  FUSEC_ASSIGN(trial.reference, evaluate_model(trial.model, trial.inputs, false));
  return trial;
}

// A count of passes that verifies, and a larger one that does not: halved until they are neighbours. A compile or run
// that fails counts as not verified.
int first_bad_pass(const Trial& trial, int good, int bad) {
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    const Result<bool> ok = trial.passes(middle);
    (ok.ok() && *ok ? good : bad) = middle;
  }
  return bad - 1;
}

Result<bool> bisect(const OptimizeFlags& flags) {
  FUSEC_ASSIGN(const Trial trial, make_trial(flags));
  const std::vector<compiler::Pass>& passes = compiler::pipeline();
  const int all = static_cast<int>(passes.size());
  const Result<bool> whole = trial.passes(all), none = trial.passes(0);
  if (whole.ok() && *whole) {
    print_text("all passes verify");
    return true;
  }
  if (!none.ok() || !*none) {
    print_text("it fails before any pass: the fault lies in a later stage" +
               (none.ok() ? "" : ": " + none.status().str()));
    return false;
  }
  const int bad = first_bad_pass(trial, 0, all);
  print_text(fmt::format("verify fails after pass {} ({} of {}); see fusec optimize --dump DIR",
                         passes[static_cast<std::size_t>(bad)].name, bad + 1, all));
  return false;
}

Result<bool> optimize(const OptimizeFlags& flags) {
  FUSEC_TRY(check_passes(flags.disabled_passes));
  if (flags.list) return list_passes(flags);
  if (flags.model.empty())
    return Status(StatusCode::invalid_argument, "optimize needs a model; see fusec optimize --help");
  if (!flags.passes.empty() && (flags.bisect || !flags.disabled_passes.empty())) {
    return Status(StatusCode::invalid_argument,
                  "--passes names all passes that run; leave --bisect and --disable-pass out");
  }
  if (flags.bisect) return bisect(flags);
  std::string text;
  if (flags.passes.empty()) {
    FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::optimize));
    text = ir::print(f.graph);
  } else {
    FUSEC_ASSIGN(const ir::Graph graph, run_named(flags, split(flags.passes, ',')));
    text = ir::print(graph);
  }
  if (flags.json) {
    print(Json{{"stage", "optimize"}, {"text", text}});
  } else {
    print_text(text);
  }
  return true;
}

}  // namespace

Command optimize_command() {
  auto flags = std::make_shared<OptimizeFlags>();
  return {"optimize", "print the graph after the optimizer, or find the pass that breaks a model",
          "  fusec optimize model.onnx --random-weights 1\n"
          "  fusec optimize graph.fir --passes apply_rules,share_nodes    these alone\n"
          "  fusec optimize model.onnx --list-passes                      times; without a model the list\n"
          "  fusec optimize model.onnx --bisect                           the first pass after which verify fails",
          [flags](Flags& f) {
            f.argument("model", flags->model, "an .onnx model, or the text of a graph (.fir)", false);
            declare_common(f, *flags, kEverything & ~kVerbose);  // --bisect runs the model
            f.option("--passes", flags->passes, "A,B: these passes alone, in this order");
            f.flag("--list-passes", flags->list, "the passes, with times if a model is given");
            f.flag("--bisect", flags->bisect, "find the first pass after which verify fails");
          },
          [flags] { return optimize(*flags); }};
}

}  // namespace fusec::tool
