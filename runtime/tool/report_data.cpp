// SPDX-License-Identifier: Apache-2.0
// Collects the data of a report from the stages up to select: no code is emitted and nothing runs.

#include "runtime/tool/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/cost/cost.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/resolve.h"

namespace fusec::tool {
namespace {

int64_t elements(const runtime::ResolvedView& view) {
  int64_t count = 1;
  for (const int64_t extent : view.shape) count *= extent;
  return count;
}

// Two for each multiplication and its addition. Pools and what else a library does count as none.
double library_operations(const ir::LibraryStep& call, const std::vector<runtime::ResolvedView>& args) {
  const auto out = static_cast<double>(elements(args.back()));
  if (call.op == ir::TensorOp::matmul) {
    const std::vector<int64_t>& a = args.front().shape;
    const bool transposed = call.attrs.i("transpose_a") != 0;
    return 2 * out * static_cast<double>(a[a.size() - (transposed ? 2 : 1)]);
  }
  if (call.op != ir::TensorOp::conv || args[1].shape.empty() || args[1].shape[0] == 0) return 0;
  return 2 * out * static_cast<double>(elements(args[1]) / args[1].shape[0]);
}

class ReportCollector {
 public:
  ReportCollector(const FrontEnd& f, const Symbols& symbols, runtime::ResolvedProgram resolved)
      : f_(f), symbols_(symbols), resolved_(std::move(resolved)) {
    for (std::size_t i = 0; i < f_.program.slots.size(); ++i)
      for (const ir::Variant& variant : f_.program.slots[i].variants)
        for (const ir::Candidate& candidate : variant.candidates)
          for (const ir::Step& step : candidate.steps) slot_of_[&step] = i;
  }

  Json collect(const std::optional<MeasuredTimes>& times) {
    count_mentions();
    Json steps = Json::array();
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) steps.push_back(step(i));
    Json out = totals();
    if (times) add_times(*times, steps, out);
    out["steps"] = std::move(steps);
    out["edges"] = edges();
    out["inputs"] = tensors(f_.program.inputs, f_.program.input_names, f_.program.input_types);
    out["outputs"] = tensors(f_.program.outputs, f_.program.output_names, f_.program.output_types);
    out["kernels"] = kernels_;
    out["memory"] = memory();
    out["notes"] = notes_;
    return out;
  }

 private:
  const ir::Allocation& alloc(ir::AllocId id) const { return f_.program.allocs[id]; }

  // Bytes that each step touches, and who writes what.
  void count_mentions() {
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) {
      const runtime::ResolvedStep& step = resolved_.steps[i];
      for (std::size_t a = 0; a < step.args.size(); ++a)
        if (runtime::writes(f_.program, *step.step, a)) writers_[step.args[a].alloc].insert(static_cast<int>(i));
    }
  }

  Json step(std::size_t i) {
    const runtime::ResolvedStep& resolved = resolved_.steps[i];
    const auto found = slot_of_.find(resolved.step);
    Json json = {{"step", i}, {"once", i < resolved_.once}};
    double read = 0, written = 0;
    for (std::size_t a = 0; a < resolved.args.size(); ++a) {
      const auto bytes =
          static_cast<double>(elements(resolved.args[a]) * static_cast<int64_t>(size_of(resolved.args[a].dtype)));
      (runtime::writes(f_.program, *resolved.step, a) ? written : read) += bytes;
    }
    json["read_bytes"] = read, json["written_bytes"] = written;
    if (const auto* launch = std::get_if<ir::KernelStep>(&resolved.step->v))
      add_kernel(*launch, resolved, json);
    else
      add_call(std::get<ir::LibraryStep>(resolved.step->v), resolved, json);
    if (found != slot_of_.end() && found->second < f_.partition.regions.size()) add_region(found->second, json);
    return json;
  }

  void add_kernel(const ir::KernelStep& launch, const runtime::ResolvedStep& resolved, Json& json) {
    const ir::Kernel& kernel = f_.program.kernels[launch.kernel];
    const ir::KernelCost cost = ir::cost(kernel, f_.target, {resolved.extents});
    if (!kernels_.contains(kernel.name)) kernels_[kernel.name] = ir::print(kernel);
    json.update(Json{{"kind", "generated"},
                     {"implementation", kernel.name},
                     {"predicted_us", cost.predicted_us},
                     {"bound_us", cost.bound_us},
                     {"operations", cost.ops().total()}});
    json["read_bytes"] = cost.read, json["written_bytes"] = cost.written;
    predicted_us_ += cost.predicted_us, bound_us_ += cost.bound_us;
  }

  void add_call(const ir::LibraryStep& call, const runtime::ResolvedStep& resolved, Json& json) {
    std::string epilogues;
    for (const ir::Epilogue& epilogue : call.epilogues) epilogues += " + " + std::string(ir::info(epilogue.op).name);
    std::string shapes;
    for (const runtime::ResolvedView& view : resolved.args)
      shapes += (shapes.empty() ? "" : ", ") + shape_text(view.shape);
    json.update(
        Json{{"kind", "library"},
             {"implementation", std::string(ir::info(call.op).name) + (call.bias >= 0 ? " + bias" : "") + epilogues},
             {"shapes", shapes},
             {"predicted_us", nullptr},
             {"bound_us", nullptr},
             {"operations", library_operations(call, resolved.args)}});
  }

  std::string node_text(ir::NodeId id) const {
    const ir::Node& node = f_.graph.nodes[id];
    const std::string& name = f_.graph.values[node.output].name;
    std::string out(node.op.name());
    if (!node.origin.empty()) out += " from " + node.origin;
    return name.empty() ? out : out + " = " + name;
  }

  void add_region(std::size_t slot, Json& json) {
    const compiler::Region& region = f_.partition.regions[slot];
    Json nodes = Json::array(), values = Json::array(), boundaries = Json::array();
    for (const ir::NodeId id : region.nodes) nodes.push_back(node_text(id));
    for (const ir::ValueId v : region.outputs)
      values.push_back(f_.graph.values[v].name + ": " + to_string(f_.graph.type(v)));
    for (const compiler::FusionBoundary& boundary : f_.partition.boundaries) {
      if (std::find(region.nodes.begin(), region.nodes.end(), boundary.user) == region.nodes.end()) continue;
      const ir::NodeId from = f_.graph.values[boundary.value].producer;
      boundaries.push_back({{"from", from.valid() ? node_text(from) : f_.graph.values[boundary.value].name},
                            {"to", node_text(boundary.user)},
                            {"reason", boundary.reason}});
    }
    json["region"] = slot;
    json["nodes"] = std::move(nodes), json["values"] = std::move(values), json["not_fused"] = std::move(boundaries);
    const ir::Variant& variant = runtime::variant_for(f_.program.slots[slot], symbols_);
    json["why"] = variant.candidates[static_cast<std::size_t>(std::max(variant.picked, 0))].why;
    json["candidates"] = variant.candidates.size();
  }

  Json totals() const {
    int64_t launches = 0, library = 0, constants = 0;
    std::set<const ir::Kernel*> distinct;
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) {
      const auto* launch = std::get_if<ir::KernelStep>(&resolved_.steps[i].step->v);
      if (launch != nullptr) distinct.insert(&f_.program.kernels[launch->kernel]);
      launches += i >= resolved_.once;
      library += i >= resolved_.once && launch == nullptr;
    }
    for (const Tensor& constant : f_.program.constants) constants += static_cast<int64_t>(constant.bytes());
    Json stages = Json::array();
    double compile_ms = 0;
    for (const StageTime& stage : f_.times) {
      stages.push_back({{"stage", stage.stage}, {"ms", stage.ms}});
      compile_ms += stage.ms;
    }
    const MachineModel& model = f_.target.model;
    return {{"target", f_.target.name},
            {"symbols", symbols_},
            {"precision", f_.options.precision ? to_string(*f_.options.precision) : "f32"},
            {"ops", f_.program.imported_ops},
            {"launches", launches},
            {"generated", launches - library},
            {"library", library},
            {"distinct_kernels", distinct.size()},
            {"constant_bytes", constants},
            {"predicted_us", predicted_us_},
            {"bound_us", bound_us_},
            {"compile_ms", compile_ms},
            {"stages", stages},
            {"machine",
             {{"memory_copy", model.memory_copy.value},
              {"cache_copy", model.cache_copy.value},
              {"source", to_string(model.memory_copy.source)}}}};
  }

  void add_times(const MeasuredTimes& times, Json& steps, Json& out) {
    out["measured_us"] = times.run_us;
    out["times"] = times.source;
    // A profile has no steps that run once; times of steps one by one have them.
    std::vector<std::size_t> timed;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (times.step_us.size() == steps.size() || !steps[i]["once"]) timed.push_back(i);
    if (times.step_us.size() != timed.size()) {
      notes_.push_back(fmt::format("the times of steps are left out: {} has {} steps, this compile {}", times.source,
                                   times.step_us.size(), timed.size()));
      return;
    }
    double sum = 0;
    for (std::size_t t = 0; t < timed.size(); ++t) {
      Json& step = steps[timed[t]];
      step["us"] = times.step_us[t];
      sum += step["once"] ? 0 : times.step_us[t];
      if (t < times.implementations.size() && step["kind"] == "library") step["library"] = times.implementations[t];
    }
    out["sum_us"] = sum;
  }

  // From the step, or the input, that writes memory to those that read it.
  Json edges() const {
    Json list = Json::array();
    std::set<std::tuple<int, int>> seen;
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) {
      const runtime::ResolvedStep& step = resolved_.steps[i];
      for (std::size_t a = 0; a < step.args.size(); ++a) {
        const runtime::ResolvedView& view = step.args[a];
        const ir::Allocation& memory = alloc(view.alloc);
        if (memory.kind == ir::AllocKind::constant) continue;
        const int to = static_cast<int>(i);
        const int64_t bytes = elements(view) * static_cast<int64_t>(size_of(view.dtype));
        const auto add = [&](int from, const char* kind) {
          if (from != to && seen.insert({from, to}).second)
            list.push_back({{"from", from},
                            {"to", to},
                            {"kind", kind},
                            {"bytes", bytes},
                            {"shape", shape_text(view.shape)},
                            {"dtype", to_string(view.dtype)}});
        };
        if (runtime::writes(f_.program, *step.step, a)) continue;
        if (memory.kind == ir::AllocKind::input) add(-1 - static_cast<int>(memory.ordinal), "input");
        const auto writers = writers_.find(view.alloc);
        if (writers == writers_.end()) continue;
        for (const int from : writers->second)
          if (from < to) add(from, "value");
      }
    }
    return list;
  }

  Json tensors(const std::vector<ir::AllocId>& allocs, const std::vector<std::string>& names,
               const std::vector<ir::Type>& types) const {
    Json list = Json::array();
    for (std::size_t i = 0; i < names.size(); ++i) {
      Json writers = Json::array();
      if (const auto it = writers_.find(allocs[i]); it != writers_.end())
        for (const int step : it->second) writers.push_back(step);
      list.push_back({{"name", names[i]}, {"type", to_string(types[i])}, {"steps", writers}});
    }
    return list;
  }

  // Temporaries over the steps, laid out by the planner of an arena. Workspaces of library calls and values that take
  // over the memory of another are known to a bound plan alone.
  Json memory() const {
    const std::vector<runtime::Lifetime> lives = runtime::lifetimes(f_.program, resolved_);
    std::vector<runtime::BufferInterval> intervals;
    for (std::size_t i = 0; i < f_.program.allocs.size(); ++i) {
      const ir::AllocId id{static_cast<uint32_t>(i)};
      if (alloc(id).kind != ir::AllocKind::temporary || !lives[i].used() || resolved_.kept[i]) continue;
      intervals.push_back({resolved_.alloc_bytes[i], lives[i].first, lives[i].last});
    }
    const runtime::MemoryPlan plan = runtime::plan_memory(intervals);
    Json buffers = Json::array();
    for (std::size_t i = 0; i < intervals.size(); ++i)
      buffers.push_back({{"bytes", intervals[i].bytes},
                         {"offset", plan.offsets[i]},
                         {"first", intervals[i].first},
                         {"last", intervals[i].last}});
    return {{"arena_bytes", plan.arena_bytes}, {"buffers", buffers}};
  }

  const FrontEnd& f_;
  const Symbols& symbols_;
  const runtime::ResolvedProgram resolved_;
  std::map<const ir::Step*, std::size_t> slot_of_;
  std::map<ir::AllocId, std::set<int>> writers_;
  Json kernels_ = Json::object();
  std::vector<std::string> notes_;
  double predicted_us_ = 0, bound_us_ = 0;
};

}  // namespace

Result<MeasuredTimes> parse_times(const Json& json, const std::string& file) {
  MeasuredTimes times;
  times.source = file;
  const auto list = json.is_object()
                        ? json.find(json.contains("launches") && json["launches"].is_array() ? "launches" : "steps")
                        : json.end();
  const bool bench = json.is_object() && json.contains("median_ms") && json["median_ms"].is_number();
  const bool profile = json.is_object() && json.contains("measured_us") && json["measured_us"].is_number();
  if (!(bench || profile) || list == json.end() || !list->is_array()) {
    return Status(
        StatusCode::invalid_argument,
        fmt::format("--times {}: it is not what `fusec bench M --steps --json` or `fusec profile M --json` prints",
                    file));
  }
  times.run_us = bench ? 1e3 * json["median_ms"].get<double>() : json["measured_us"].get<double>();
  for (const Json& step : *list) {
    if (!step.is_object() || !step.contains("us") || !step["us"].is_number())
      return Status(StatusCode::invalid_argument, fmt::format("--times {}: a step has no time", file));
    times.step_us.push_back(step["us"].get<double>());
    const auto name = step.find("implementation");
    times.implementations.push_back(name != step.end() && name->is_string() ? name->get<std::string>() : "");
  }
  return times;
}

Result<Json> report_data(const FrontEnd& f, const Symbols& symbols, const std::optional<MeasuredTimes>& times) {
  return ir::guarded([&]() -> Result<Json> {
    FUSEC_ASSIGN(runtime::ResolvedProgram resolved, runtime::resolve(f.program, symbols));
    return ReportCollector(f, symbols, std::move(resolved)).collect(times);
  });
}

}  // namespace fusec::tool
