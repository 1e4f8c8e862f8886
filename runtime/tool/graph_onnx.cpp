// SPDX-License-Identifier: Apache-2.0
// Makes the drawing that `fusec graph --onnx` writes: a graph of calls, a function per region, and metadata with what
// each region runs and how long that takes.

#include "runtime/tool/graph_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "fusec/session.h"
#include "ir/cost/cost.h"
#include "ir/text/lexer.h"
#include "runtime/plan/resolve.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

using exporter::DrawnFunction;
using exporter::DrawnNode;
using exporter::Metadata;

// Names that are in use; an empty name would stand for an absent value.
class Names {
 public:
  std::string unique(const std::string& wanted) {
    const std::string base = wanted.empty() ? "value" : exporter::valid_utf8(wanted);
    std::string name = base;
    for (int i = 2; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

 private:
  std::set<std::string> used_;
};

int64_t count_bytes(const ir::Graph& graph, ir::ValueId v, const Symbols& symbols) {
  const ir::Type& type = graph.type(v);
  return num_elements(type.shape).eval(symbols).value_or(0) * static_cast<int64_t>(size_of(type.dtype));
}

// The times of the steps, each of which is taken once: steps of equal names come in the order of the program.
class Times {
 public:
  explicit Times(const std::vector<StepTime>& times) : times_(times), taken_(times.size()) {}

  std::optional<double> take(const std::string& origin, const std::string& kernel) {
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (taken_[i] || times_[i].origin != origin || (!kernel.empty() && times_[i].implementation != kernel)) continue;
      taken_[i] = true;
      last_ = times_[i].implementation;
      return times_[i].us;
    }
    return std::nullopt;
  }
  const std::string& implementation() const { return last_; }  // of the last one that was taken

 private:
  const std::vector<StepTime>& times_;
  std::vector<bool> taken_;
  std::string last_;
};

// The code of one region: its values' names are its own.
class Body {
 public:
  Body(const ir::Graph& graph, const compiler::Region& region) : graph_(graph), region_(region) {
    for (const ir::NodeId id : region.nodes) own_.insert(graph.nodes[id].output);
    for (const ir::NodeId id : region.nodes) add(id, Metadata{});
    for (const ir::ValueId v : region.outputs) {
      function.outputs.push_back(input(v));
      outputs.push_back(v);
    }
  }

  DrawnFunction function;
  std::vector<ir::ValueId> inputs, outputs;

 private:
  // Whether the value is computed from one of the region's.
  bool is_of_own(ir::ValueId v) {
    if (own_.contains(v)) return true;
    if (const auto known = of_own_.find(v); known != of_own_.end()) return known->second;
    const ir::Node* from = graph_.producer(v);
    bool out = false;
    if (from != nullptr && reads_through(*from)) out = is_of_own(from->inputs[0]);
    of_own_[v] = out;
    return out;
  }
  static bool reads_through(const ir::Node& node) {
    return node.inputs.size() == 1 && (node.op == ir::TensorOp::broadcast || node.op == ir::TensorOp::reshape ||
                                       node.op == ir::TensorOp::transpose || node.op == ir::TensorOp::slice);
  }

  std::string input(ir::ValueId v) {
    if (const auto known = names_.find(v); known != names_.end()) return known->second;
    const ir::Node* from = graph_.producer(v);
    if (graph_.is_constant(v) || is_of_own(v)) {
      add(graph_.values[v].producer, from->op == ir::TensorOp::constant ? Metadata{} : Metadata{{"view", "yes"}});
      return names_.at(v);
    }
    inputs.push_back(v);
    function.inputs.push_back(names_[v] = fmt::format("in{}", inputs.size() - 1));
    return names_.at(v);
  }

  void add(ir::NodeId id, Metadata metadata) {
    const ir::Node& node = graph_.nodes[id];
    if (names_.contains(node.output)) return;
    DrawnNode drawn;
    for (const ir::ValueId v : node.inputs) drawn.inputs.push_back(input(v));
    const std::string name = names_[node.output] = fmt::format("v{}", node.output.index);
    drawn.name = name;
    drawn.op = node.op.name();
    drawn.domain = exporter::kOps;
    drawn.outputs = {name};
    drawn.attrs = node.attrs;
    drawn.metadata = std::move(metadata);
    if (!node.origin.empty()) drawn.metadata.emplace_back("origin", node.origin);
    if (const Tensor* data = graph_.constant(node.output); data != nullptr && data->num_elements() == 1)
      drawn.metadata.emplace_back("value", ir::literal(data->dtype(), data->data()));
    if (const auto weight = graph_.weight_names.find(id); weight != graph_.weight_names.end())
      drawn.metadata.emplace_back("weight", weight->second);
    function.nodes.push_back(std::move(drawn));
    function.values.push_back({name, graph_.type(node.output)});
  }

  const ir::Graph& graph_;
  const compiler::Region& region_;
  std::set<ir::ValueId> own_;
  std::map<ir::ValueId, bool> of_own_;
  std::map<ir::ValueId, std::string> names_;
};

class Drawer {
 public:
  Drawer(const FrontEnd& f, const Symbols& symbols, const std::vector<StepTime>& times)
      : f_(f), graph_(f.graph), symbols_(symbols), times_(times) {}

  exporter::Drawing draw() {
    out_.name = graph_.name;
    out_.metadata = {{"target", f_.target.name}, {"symbols", symbols_text(symbols_)}};
    for (const ir::ValueId v : graph_.inputs) {
      const std::string name = names_[v] = used_.unique(graph_.values[v].name);
      out_.inputs.push_back({name, graph_.type(v)});
    }
    reserve_outputs();
    for (std::size_t i = 0; i < f_.partition.regions.size(); ++i)
      for (const ir::ValueId v : f_.partition.regions[i].outputs) maker_.emplace(v, i);
    for (std::size_t i = 0; i < f_.partition.regions.size(); ++i) region(i);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) output(i);
    return std::move(out_);
  }

 private:
  // The value of an output is called as the output is, if nothing else has named it.
  void reserve_outputs() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      output_names_.push_back(used_.unique(graph_.output_names[i]));
      if (!graph_.is_constant(graph_.outputs[i])) wanted_.emplace(graph_.outputs[i], output_names_.back());
    }
  }

  std::string define(ir::ValueId v) {
    const auto wanted = wanted_.find(v);
    const std::string name = wanted != wanted_.end() ? wanted->second : used_.unique(fmt::format("v{}", v.index));
    names_[v] = name;
    if (wanted == wanted_.end()) out_.values.push_back({name, graph_.type(v)});
    return name;
  }

  // The name of a value in the main graph; views and constants are drawn when they are first read.
  std::string value(ir::ValueId v) {
    if (const auto known = names_.find(v); known != names_.end()) return known->second;
    const ir::Node& node = graph_.nodes[graph_.values[v].producer];
    DrawnNode drawn;
    for (const ir::ValueId in : node.inputs) drawn.inputs.push_back(value(in));
    drawn.op = node.op.name();
    drawn.domain = exporter::kOps;
    drawn.attrs = node.attrs;
    if (node.op != ir::TensorOp::constant) drawn.metadata.emplace_back("view", "yes");
    if (!node.origin.empty()) drawn.metadata.emplace_back("origin", node.origin);
    drawn.outputs = {define(v)};
    drawn.name = drawn.outputs[0];
    out_.nodes.push_back(std::move(drawn));
    return names_.at(v);
  }

  void region(std::size_t i) {
    Body body(graph_, f_.partition.regions[i]);
    DrawnNode call;
    for (const ir::ValueId v : body.inputs) call.inputs.push_back(value(v));
    for (const ir::ValueId v : body.outputs)
      call.outputs.push_back(maker_.at(v) == i && !names_.contains(v) ? define(v) : used_.unique("again"));
    call.metadata = metadata(i);
    call.op = body.function.name = fmt::format("r{}_{}", i, title_);
    call.name = fmt::format("region {}", i);
    call.domain = exporter::kRegions;
    body.function.metadata = call.metadata;
    out_.nodes.push_back(std::move(call));
    out_.functions.push_back(std::move(body.function));
  }

  Metadata metadata(std::size_t i) {
    const compiler::Region& region = f_.partition.regions[i];
    const bool is_library = region.kind == compiler::RegionKind::anchor;
    title_ = is_library ? std::string(graph_.nodes[region.nodes.front()].op.name()) : "kernel";
    Metadata out = {{"region", std::to_string(i)}, {"kind", is_library ? "library" : "generated"}};
    if (i < f_.program.slots.size()) add_candidate(out, region, f_.program.slots[i]);
    return out;
  }

  void add_candidate(Metadata& out, const compiler::Region& region, const ir::Slot& slot) {
    const ir::Variant& variant = runtime::variant_for(slot, symbols_);
    const ir::Candidate& candidate = variant.candidates[static_cast<std::size_t>(std::max(variant.picked, 0))];
    std::string kernels, implementation;
    double predicted = 0, bound = 0, measured = 0;
    bool is_costed = false, is_measured = !candidate.steps.empty();
    for (const ir::Step& step : candidate.steps) {
      const auto* launch = std::get_if<ir::KernelStep>(&step.v);
      std::string kernel;
      if (launch != nullptr) {
        kernel = f_.program.kernels[launch->kernel].name;
        kernels += (kernels.empty() ? "" : " ") + kernel;
        title_ = kernel;
        std::vector<int64_t> extents;
        for (const Dim& extent : launch->extents) extents.push_back(extent.eval(symbols_).value_or(1));
        const ir::KernelCost cost = ir::cost(f_.program.kernels[launch->kernel], f_.target, {extents});
        predicted += cost.predicted_us, bound += cost.bound_us, is_costed = true;
      }
      const std::optional<double> us = times_.take(step.origin, kernel);
      is_measured &= us.has_value();
      if (us) measured += *us, implementation += (implementation.empty() ? "" : " ") + times_.implementation();
    }
    if (!kernels.empty()) out.emplace_back("kernel", kernels);
    if (!implementation.empty()) out.emplace_back("implementation", implementation);
    if (is_costed) {
      out.emplace_back("predicted_us", fmt::format("{:.2f}", predicted));
      out.emplace_back("bound_us", fmt::format("{:.2f}", bound));
    }
    int64_t bytes = 0;
    for (const auto* list : {&region.inputs, &region.outputs})
      for (const ir::ValueId v : *list) bytes += count_bytes(graph_, v, symbols_);
    out.emplace_back("bytes", std::to_string(bytes));
    if (is_measured && measured > 0) {
      out.emplace_back("measured_us", fmt::format("{:.2f}", measured));
      // As `fusec bench --patterns` counts it: the time of a copy of these bytes, by the target's figures.
      const double copy = static_cast<double>(bytes) / (1e3 * f_.target.model.memory_copy);
      out.emplace_back("score", fmt::format("{:.3f}", copy / measured));
    }
    if (!candidate.why.empty()) out.emplace_back("why", candidate.why);
  }

  // Outputs that are inputs, constants or other outputs too are copies, by an op that viewers know.
  void output(std::size_t i) {
    const std::string from = value(graph_.outputs[i]), &name = output_names_[i];
    out_.outputs.push_back({name, graph_.type(graph_.outputs[i])});
    if (from == name) return;
    DrawnNode copy;
    copy.name = name;
    copy.op = "Identity";
    copy.inputs = {from};
    copy.outputs = {name};
    out_.nodes.push_back(std::move(copy));
  }

  const FrontEnd& f_;
  const ir::Graph& graph_;
  const Symbols& symbols_;
  Times times_;
  Names used_;
  exporter::Drawing out_;
  std::vector<std::string> output_names_;
  std::map<ir::ValueId, std::string> names_, wanted_;
  std::map<ir::ValueId, std::size_t> maker_;  // the first region that makes a value
  std::string title_;                         // of the region's function
};

}  // namespace

Result<std::vector<StepTime>> read_step_times(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("--times: '{}' cannot be opened", path));
  const Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  const Status other(StatusCode::invalid_argument,
                     fmt::format("--times: '{}' is not what fusec bench MODEL --steps --json prints", path));
  if (!json.is_object() || !json.contains("steps") || !json["steps"].is_array()) return other;
  std::vector<StepTime> out;
  for (const Json& step : json["steps"]) {
    const auto text = [&](const char* key) { return step.is_object() && step.contains(key) && step[key].is_string(); };
    if (!text("origin") || !text("implementation") || !step.contains("us") || !step["us"].is_number()) return other;
    out.push_back({step["origin"], step["implementation"], step["us"]});
  }
  return out;
}

Result<std::vector<StepTime>> time_steps(const FrontEnd& f, const Request& request, const Symbols& symbols) {
  FUSEC_ASSIGN(const Engine engine, compile_model(f.model, f.options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(const std::vector<Tensor> made, make_inputs(f.model, request, symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, made));
  FUSEC_ASSIGN(const PlanStats plan, time_launches(session, inputs, 9));
  std::vector<StepTime> out;
  for (const LaunchInfo& step : plan.steps) out.push_back({step.origin, step.implementation, step.us});
  return out;
}

exporter::Drawing draw_regions(const FrontEnd& f, const Symbols& symbols, const std::vector<StepTime>& times) {
  return Drawer(f, symbols, times).draw();
}

}  // namespace fusec::tool
