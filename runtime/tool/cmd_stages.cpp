// SPDX-License-Identifier: Apache-2.0
// Implements the commands that print what one stage returns: `import`, `partition`, `lower`, `select` and `bind`.

#include <fmt/format.h>

#include "ir/text/graph_text.h"
#include "ir/text/program_text.h"
#include "runtime/link/link.h"
#include "runtime/plan/state.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

void show(const ModelFlags& flags, const char* stage, const std::string& text) {
  if (flags.json) {
    print(Json{{"stage", stage}, {"text", text}});
  } else {
    print_text(text);
  }
}

Result<bool> import(const ModelFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::import));
  show(flags, "import", ir::print(f.graph));
  return true;
}

Result<bool> partition(const ModelFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::partition));
  show(flags, "partition", compiler::to_string(f.graph, f.partition));
  return true;
}

Result<bool> lower(const ModelFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::lower));
  show(flags, "lower", ir::print(f.program));
  return true;
}

Result<bool> select(const ModelFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::select));
  show(flags, "select", ir::print(f.program));
  return true;
}

std::string text(const runtime::Address& a) {
  switch (a.base) {
    case runtime::Base::arena:
      return fmt::format("arena+{}", a.bytes);
    case runtime::Base::kept:
      return fmt::format("kept+{}", a.bytes);
    case runtime::Base::input:
      return fmt::format("input{}+{}", a.ordinal, a.bytes);
    case runtime::Base::output:
      return fmt::format("output{}+{}", a.ordinal, a.bytes);
    case runtime::Base::constant:
      break;
  }
  return fmt::format("constant{}+{}", a.ordinal, a.bytes);
}

std::string text(const runtime::Plan& plan, const runtime::Launch& launch) {
  std::string out;
  if (launch.kernel != nullptr) {
    const auto& step = std::get<ir::KernelStep>(launch.step->v);
    out = "@" + plan.loaded->program.kernels[step.kernel].name;
  } else {
    out = launch.op->implementation();
  }
  out += " (";
  for (uint32_t i = 0; i < launch.args; ++i) out += (i ? ", " : "") + text(plan.args[launch.first_arg + i]);
  out += ")";
  for (uint32_t i = 0; i < launch.phases; ++i) {
    const runtime::PhaseLaunch& phase = plan.phases[launch.first_phase + i];
    const char* const text = phase.device_function != nullptr ? " {}{} blocks of {}" : " {}{} tasks on {}";
    out += fmt::format(fmt::runtime(text), i ? "then " : "", phase.iterations, phase.threads);
  }
  if (launch.workspace >= 0) out += fmt::format(" workspace arena+{}", launch.workspace);
  return out + "  // " + launch.step->origin;
}

Result<bool> bind(const ModelFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(loaded.model, symbols));
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  FUSEC_ASSIGN(const runtime::PlanPtr plan, engine.state()->plan(shapes));
  std::string out =
      fmt::format("plan {}\narena {} bytes, at least {}; {} bytes per thread; {} threads\n", symbols_text(symbols),
                  plan->arena_bytes, plan->live_lower_bound_bytes, plan->local_bytes, plan->threads);
  int number = 0;
  if (plan->once > 0) out += fmt::format("kept {} bytes, written once per plan\n", plan->kept_bytes);
  for (const runtime::Launch& launch : plan->launches) {
    const bool once = static_cast<std::size_t>(number) < plan->once;
    out += fmt::format("{}: {}{}\n", number++, once ? "once " : "", text(*plan, launch));
  }
  for (const runtime::OutputCopy& copy : plan->copies) {
    out += fmt::format("copy {} -> output{}, {} bytes\n", text(copy.from), copy.output, copy.bytes);
  }
  show(flags, "bind", out);
  return true;
}

using StageFunction = Result<bool> (*)(const ModelFlags&);

// No stage up to select asks for shapes, makes library calls or stores a kernel.
constexpr unsigned kFrontGroups = kWeights | kCompiles;
constexpr unsigned kBindGroups = kEverything & ~static_cast<unsigned>(kVerbose);

Command stage(const char* name, const char* summary, const std::string& examples, StageFunction function,
              unsigned groups = kFrontGroups) {
  auto flags = std::make_shared<ModelFlags>();
  return {name, summary, examples, [flags, groups](Flags& f) { declare_model(f, *flags, groups); },
          [flags, function] { return function(*flags); }};
}

}  // namespace

Command import_command() {
  return stage("import", "print the graph as imported",
               "  fusec import model.onnx --random-weights 1 > model.fir\n"
               "  fusec import graph.fir                               the same text in canonical form",
               import);
}
Command partition_command() {
  return stage("partition", "print the regions, and why each boundary between them was not fused",
               "  fusec partition model.onnx --random-weights 1\n"
               "  fusec partition graph.fir --disable-pass fold_affine",
               partition);
}
Command lower_command() {
  return stage("lower", "print the program with all candidates, and its kernels",
               "  fusec lower graph.fir\n"
               "  fusec lower graph.fir --target x86-64-v3",
               lower);
}
Command select_command() {
  return stage("select", "print the program with the candidates that were picked", "  fusec select graph.fir", select);
}
Command bind_command() {
  return stage("bind", "print the plan for one set of shapes: launches, addresses, tasks",
               "  fusec bind graph.fir\n"
               "  fusec bind model.onnx --random-weights 1 --shape N=8",
               bind, kBindGroups);
}

}  // namespace fusec::tool
