// SPDX-License-Identifier: Apache-2.0
// Implements `fusec explain`: runs the stages up to select and shows, for each region, its nodes, bytes and kernel, and
// why each fusion boundary was not fused. It runs no code, and makes that of a GPU's kernels alone, where they are
// shown.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/lower/gpu/gpu.h"
#include "ir/cost/cost.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "runtime/plan/resolve.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/kernel_code.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

struct ExplainFlags : ModelFlags {
  std::string node;
};

// What one region became: slot i of the program is region i.
struct Explained {
  const compiler::Region* region = nullptr;
  const ir::Variant* variant = nullptr;  // that the given shapes take
  const ir::Candidate* candidate = nullptr;
  std::vector<std::string> nodes;
  std::vector<const compiler::FusionBoundary*> boundaries;  // into it
  int64_t bytes = 0;                                        // its inputs and outputs, each once
  std::optional<ir::KernelCost> cost;                       // of a generated step
  std::vector<CodePart> code;                               // of its kernels, where they are shown
  bool once = false;                                        // per plan, not in each run
};

int64_t count_bytes(const ir::Graph& graph, ir::ValueId v, const Symbols& symbols) {
  const ir::Type& type = graph.type(v);
  return num_elements(type.shape).eval(symbols).value_or(0) * static_cast<int64_t>(size_of(type.dtype));
}

std::string format_name(const ir::Graph& graph, const ir::Node& node) {
  const std::string& name = graph.values[node.output].name;
  std::string out(node.op.name());
  if (!node.origin.empty()) out += " from " + node.origin;
  return name.empty() ? out : out + " = " + name;
}

// For the given values of symbols.
std::optional<ir::KernelCost> cost_of(const FrontEnd& f, const ir::Candidate& candidate, const Symbols& symbols) {
  for (const ir::Step& step : candidate.steps) {
    const auto* launch = std::get_if<ir::KernelStep>(&step.v);
    if (launch == nullptr) continue;
    std::vector<int64_t> extents;
    for (const Dim& extent : launch->extents) extents.push_back(extent.eval(symbols).value_or(1));
    return ir::cost(f.program.kernels[launch->kernel], f.target, {extents});
  }
  return std::nullopt;
}

std::string phase_text(const ir::PhaseCost& p) {
  const auto bytes = [](double b) { return bytes_text(static_cast<int64_t>(b)); };
  std::string out = fmt::format("    {:.0f} x {:.0f} threads: reads {}, writes {}", p.blocks, p.threads, bytes(p.read),
                                bytes(p.written));
  if (p.reread_cache + p.reread_memory > 0)
    out += fmt::format(", again {} from cache and {} from memory", bytes(p.reread_cache), bytes(p.reread_memory));
  return out + fmt::format("; memory {:.1f} us, instructions {:.1f}, latency {:.1f}\n", p.memory_us, p.issue_us,
                           p.latency_us);
}

using Steps = std::set<const ir::Step*>;

// The steps that run once per plan. None where the symbols have values that no run can have.
Steps find_once_steps(const FrontEnd& f, const Symbols& symbols) {
  const auto resolved = ir::guarded([&] { return runtime::resolve(f.program, symbols); });
  Steps steps;
  if (!resolved.ok()) return steps;
  for (std::size_t i = 0; i < resolved->once; ++i) steps.insert(resolved->steps[i].step);
  return steps;
}

Explained explain_region(const FrontEnd& f, std::size_t i, const Symbols& symbols, const Steps& once) {
  Explained e;
  e.region = &f.partition.regions[i];
  if (i < f.program.slots.size()) {
    e.variant = &runtime::variant_for(f.program.slots[i], symbols);
    e.candidate = &e.variant->candidates[static_cast<std::size_t>(std::max(e.variant->picked, 0))];
    e.cost = cost_of(f, *e.candidate, symbols);
    e.once = std::any_of(e.candidate->steps.begin(), e.candidate->steps.end(),
                         [&](const ir::Step& step) { return once.contains(&step); });
  }
  for (const ir::NodeId id : e.region->nodes) e.nodes.push_back(format_name(f.graph, f.graph.nodes[id]));
  for (const compiler::FusionBoundary& boundary : f.partition.boundaries) {
    const auto& nodes = e.region->nodes;
    if (std::find(nodes.begin(), nodes.end(), boundary.user) != nodes.end()) e.boundaries.push_back(&boundary);
  }
  for (const ir::ValueId v : e.region->inputs) e.bytes += count_bytes(f.graph, v, symbols);
  for (const ir::ValueId v : e.region->outputs) e.bytes += count_bytes(f.graph, v, symbols);
  return e;
}

std::string boundary_text(const FrontEnd& f, const compiler::FusionBoundary& boundary) {
  const ir::Node* from = f.graph.producer(boundary.value);
  const std::string producer = from == nullptr ? f.graph.values[boundary.value].name : format_name(f.graph, *from);
  return fmt::format("{} -> {}: {}", producer, format_name(f.graph, f.graph.nodes[boundary.user]), boundary.reason);
}

std::string kernel_texts(const FrontEnd& f, const Explained& e) {
  std::string out;
  if (e.candidate == nullptr) return out;
  for (const ir::Step& step : e.candidate->steps) {
    if (const auto* kernel = std::get_if<ir::KernelStep>(&step.v)) out += ir::print(f.program.kernels[kernel->kernel]);
  }
  return out;
}

// The kernels of a generated region, by the names that texts, messages and profilers show.
std::vector<std::string> kernel_names(const FrontEnd& f, const Explained& e) {
  std::vector<std::string> names;
  if (e.candidate == nullptr) return names;
  for (const ir::Step& step : e.candidate->steps)
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.v))
      names.push_back(f.program.kernels[launch->kernel].name);
  return names;
}

// The functions of a generated region's kernels on a GPU, with their registers and spills, as `fusec emit` tells. None
// where nothing makes machine code.
std::vector<CodePart> code_parts(const FrontEnd& f, const Explained& e) {
  std::vector<CodePart> parts;
  if (e.candidate == nullptr || f.target.kind != TargetKind::cuda) return parts;
  for (const ir::Step& step : e.candidate->steps) {
    const auto* launch = std::get_if<ir::KernelStep>(&step.v);
    if (launch == nullptr) continue;
    const auto lowered = compiler::lower_for_writer(f.program.kernels[launch->kernel], f.target);
    if (!lowered.ok()) continue;
    const auto code = make_code(*lowered, f.target, {.form = CodeForm::ptx, .codegen = f.options.codegen});
    if (code.ok()) parts.insert(parts.end(), code->parts.begin(), code->parts.end());
  }
  return parts;
}

// The symbols whose values these kernels all serve; Options::specialize makes others for the values at hand.
std::set<std::string> served_symbols(const Explained& e) {
  std::set<std::string> symbols;
  if (e.candidate == nullptr) return symbols;
  for (const ir::Step& step : e.candidate->steps) {
    const auto* launch = std::get_if<ir::KernelStep>(&step.v);
    if (launch == nullptr) continue;
    for (const Dim& extent : launch->extents) extent.collect_symbols(symbols);
    for (const ir::View& view : launch->args)
      for (const Dim& extent : view.shape) extent.collect_symbols(symbols);
  }
  return symbols;
}

std::string served_text(const Explained& e) {
  std::string out;
  for (const std::string& symbol : served_symbols(e))
    out += (out.empty() ? ", generic: for all values of " : ", ") + symbol;
  return out;
}

bool matches(const Explained& e, const std::string& node) {
  return std::any_of(e.nodes.begin(), e.nodes.end(),
                     [&](const std::string& n) { return n.find(node) != std::string::npos; });
}

const char* kind_text(const Explained& e) {
  return e.region->kind == compiler::RegionKind::anchor ? "library" : "generated";
}

// The condition under which the step takes this kernel and not another.
std::string when_text(const ir::Variant& variant) {
  std::string out;
  for (const Dim& dim : variant.when) out += (out.empty() ? "  when: " : " and ") + dim.str() + " >= 0";
  return out.empty() ? out : out + "\n";
}

// Why the picked candidate is that.
std::string pick_text(const FrontEnd& f, const ir::Variant& variant) {
  if (variant.candidates.size() == 1) return variant.candidates[0].why;
  if (!measured_times(f.program, variant, f.tuning).empty()) return "by measured times";
  return variant.picked == 0 ? "the first, as no other one is predicted to be clearly faster" : "by predicted times";
}

// The candidates of a region that has several, with the times that select knows: predicted, then measured.
std::string candidate_lines(const FrontEnd& f, const ir::Variant& variant) {
  if (variant.candidates.size() == 1) return "";
  std::string out;
  const auto measured = measured_times(f.program, variant, f.tuning);
  for (std::size_t i = 0; i < variant.candidates.size(); ++i) {
    const ir::Candidate& c = variant.candidates[i];
    const bool picked = static_cast<int>(i) == variant.picked;
    out += fmt::format("  {}candidate {}: predicted {} us", picked ? "picked " : "", i, c.predicted_us);
    if (i < measured.size() && measured[i])
      out += measured[i]->failed ? ", failed" : fmt::format(", measured {:.1f} us", measured[i]->us);
    out += "; " + c.why + "\n";
  }
  return out;
}

Json candidates_json(const FrontEnd& f, const ir::Variant& variant) {
  Json list = Json::array();
  const auto measured = measured_times(f.program, variant, f.tuning);
  for (std::size_t i = 0; i < variant.candidates.size(); ++i) {
    const ir::Candidate& c = variant.candidates[i];
    Json one = {{"why", c.why}, {"predicted_us", c.predicted_us}, {"picked", static_cast<int>(i) == variant.picked}};
    const bool known = i < measured.size() && measured[i] && !measured[i]->failed;
    one["measured_us"] = known ? Json(measured[i]->us) : Json();
    list.push_back(std::move(one));
  }
  return list;
}

std::string text(const FrontEnd& f, const Explained& e, std::size_t number, bool detail) {
  std::string out =
      fmt::format("step {}: {}, {} ops, {} in and out", number, kind_text(e), e.nodes.size(), bytes_text(e.bytes));
  if (e.once) out += "; once per plan";
  if (e.cost) out += fmt::format("; predicted {} us, bound {} us", e.cost->predicted_us, e.cost->bound_us);
  out += "\n";
  for (const std::string& name : kernel_names(f, e)) out += "  kernel " + name + served_text(e) + "\n";
  for (const std::string& node : e.nodes) out += "  " + node + "\n";
  for (const compiler::FusionBoundary* boundary : e.boundaries)
    out += "  not fused: " + boundary_text(f, *boundary) + "\n";
  if (!detail) return out;
  if (e.variant != nullptr) out += when_text(*e.variant);
  if (e.variant != nullptr)
    out += candidate_lines(f, *e.variant) + fmt::format("  picked: {}\n", pick_text(f, *e.variant));
  if (e.cost)
    for (const ir::PhaseCost& phase : e.cost->phases) out += phase_text(phase);
  for (const CodePart& part : e.code) out += "    " + part_text(part) + "\n";
  return out + kernel_texts(f, e);
}

Json make_json(const FrontEnd& f, const Explained& e, std::size_t number, bool detail) {
  Json boundaries = Json::array();
  for (const compiler::FusionBoundary* boundary : e.boundaries) boundaries.push_back(boundary_text(f, *boundary));
  Json json = {{"step", number},   {"kind", kind_text(e)}, {"kernels", kernel_names(f, e)},
               {"bytes", e.bytes}, {"nodes", e.nodes},     {"not_fused", boundaries}};
  json["once"] = e.once;
  json["generic"] = served_symbols(e);
  json["predicted_us"] = e.cost ? Json(e.cost->predicted_us) : Json();
  json["bound_us"] = e.cost ? Json(e.cost->bound_us) : Json();
  if (e.variant != nullptr && e.variant->candidates.size() > 1) json["candidates"] = candidates_json(f, *e.variant);
  if (!detail) return json;
  json["kernel"] = kernel_texts(f, e);
  json["code"] = Json::array();
  for (const CodePart& part : e.code) json["code"].push_back(make_json(part));
  return json;
}

Result<bool> explain(const ExplainFlags& flags) {
  const bool detail = !flags.node.empty() || flags.verbose;
  const runtime::Listing listing = detail ? runtime::Listing::all : runtime::Listing::needed;
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::select, listing));
  FUSEC_ASSIGN(const Request request, parse_request(f.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(f.model, request));
  Json list = Json::array();
  std::string out;
  std::map<std::string, int> reasons;
  const Steps once = find_once_steps(f, symbols);
  for (std::size_t i = 0; i < f.partition.regions.size(); ++i) {
    Explained e = explain_region(f, i, symbols, once);
    if (!flags.node.empty() && !matches(e, flags.node)) continue;
    if (detail) e.code = code_parts(f, e);
    for (const compiler::FusionBoundary* boundary : e.boundaries) ++reasons[boundary->reason];
    out += text(f, e, i, detail);
    list.push_back(make_json(f, e, i, detail));
  }
  if (list.empty() && !flags.node.empty()) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("--node {}: no step holds a node of this name; it may be folded or a view", flags.node));
  }
  if (flags.json) {
    print(Json{{"symbols", symbols}, {"steps", list}, {"reasons", reasons}});
    return true;
  }
  print_text(out);
  Table table({"boundaries", "reason"});
  for (const auto& [reason, count] : reasons) table.row({std::to_string(count), reason});
  if (!reasons.empty()) print_text("\n" + table.str());
  return true;
}

}  // namespace

Command explain_command() {
  auto flags = std::make_shared<ExplainFlags>();
  return {
      "explain", "what each step fuses, and why its boundaries were not fused",
      "  fusec explain model.onnx --random-weights 1\n"
      "  fusec explain model.onnx --node /features.0/Add     the step of this node, with its kernel; of a GPU, with\n"
      "                                                      its registers and spills\n"
      "  fusec explain graph.fir -v                          every kernel",
      [flags](Flags& f) {
        declare_model(f, *flags, kWeights | kCompiles | kShapes | kVerbose);
        f.option("--node", flags->node, "NAME: only steps with a node whose name or origin holds this");
      },
      [flags] { return explain(*flags); }};
}

}  // namespace fusec::tool
