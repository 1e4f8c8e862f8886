// SPDX-License-Identifier: Apache-2.0
// Runs a model launch by launch and finds the values of its graph in the memory of the run. The stages up to partition
// run a second time for this: they give the same regions as those of the Engine, which keeps none.

#include "runtime/tool/value_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/emit.h"
#include "fusec/device.h"
#include "ir/eval/graph.h"
#include "ir/support/check.h"
#include "ir/support/hash.h"
#include "ir/text/graph_text.h"
#include "ir/text/lexer.h"
#include "runtime/plan/state.h"
#include "runtime/run/stepwise.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

std::map<ir::ValueId, std::string> name_values(const ir::Graph& graph) {
  std::map<ir::ValueId, std::string> names;
  std::size_t number = 0;
  for (const ir::NodeId id : graph.order) names[graph.nodes[id].output] = fmt::format("%{}", number++);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) names[graph.outputs[i]] = graph.output_names[i];
  for (const ir::ValueId v : graph.inputs) names[v] = graph.values[v].name;
  return names;
}

std::string hashed(const std::string& text) { return fmt::format("{:016x}", ir::hash64(text)); }

std::string node_text(const ir::Graph& graph, const ir::Node& node) {
  std::string text =
      std::string(node.op.name()) + print_attrs(node.op, node.attrs) + to_string(graph.type(node.output));
  if (const Tensor* data = graph.constant(node.output)) text += fmt::format(" {:016x}", ir::content_hash(*data));
  return text;
}

// Where a step lies in the Program: the steps of slot i are the region i.
std::map<const ir::Step*, std::size_t> slots_of_steps(const ir::Program& program) {
  std::map<const ir::Step*, std::size_t> slots;
  for (std::size_t i = 0; i < program.slots.size(); ++i)
    for (const ir::Variant& variant : program.slots[i].variants)
      for (const ir::Candidate& candidate : variant.candidates)
        for (const ir::Step& step : candidate.steps) slots[&step] = i;
  return slots;
}

const std::vector<ir::View>& args_of(const ir::Step& step) {
  const auto* kernel = std::get_if<ir::KernelStep>(&step.v);
  return kernel != nullptr ? kernel->args : std::get<ir::LibraryStep>(step.v).args;
}

// Where the allocations of values begin, as far as launches had them as arguments.
class AllocationStarts {
 public:
  explicit AllocationStarts(const runtime::Plan& plan) : plan_(plan) {}

  void add(const runtime::Launch& launch, void* const* args) {
    const ir::Program& program = plan_.loaded->program;
    const std::vector<ir::View>& views = args_of(*launch.step);
    for (std::size_t a = 0; a < views.size(); ++a) {
      const ir::Allocation& alloc = program.allocs[views[a].alloc];
      if (!alloc.value.valid() || args[a] == nullptr) continue;
      const int64_t before =
          runtime::evaluate(views[a].offset, plan_.bindings) * static_cast<int64_t>(size_of(alloc.dtype));
      starts_[alloc.value] = static_cast<std::byte*>(args[a]) - before;
    }
  }

  // Null: no launch had it.
  std::byte* find(ir::ValueId base) const {
    const auto at = starts_.find(base);
    return at == starts_.end() ? nullptr : at->second;
  }

 private:
  const runtime::Plan& plan_;
  std::map<ir::ValueId, std::byte*> starts_;
};

}  // namespace

std::map<ir::ValueId, ValueKeys> make_value_keys(const ir::Graph& graph) {
  std::map<ir::ValueId, ValueKeys> keys;
  for (const ir::ValueId v : graph.inputs) {
    const std::string key = hashed("input " + graph.values[v].name + " " + to_string(graph.type(v)));
    keys[v] = {key, key};
  }
  for (const ir::NodeId id : graph.order) {
    const ir::Node& node = graph.nodes[id];
    std::string all = node_text(graph, node), own = all + " " + node.origin;
    for (const ir::ValueId v : node.inputs) {
      all += " " + keys.at(v).key;
      own += graph.is_constant(v) ? " " + keys.at(v).key : " *";
    }
    keys[node.output] = {hashed(all), hashed(own)};
  }
  return keys;
}

ValueRun::ValueRun(Engine engine, runtime::Stages stages)
    : engine_(std::move(engine)),
      stages_(std::move(stages)),
      names_(name_values(stages_.graph)),
      keys_(make_value_keys(stages_.graph)) {}

Result<ValueRun> ValueRun::make(const Model& model, Options options) {
  if (!model.graph)
    return Status(StatusCode::invalid_argument, "a package has no graph, so its values have no names: name the model");
  options.replaceable_weights.clear();  // who may replace a weight changes no value
  FUSEC_ASSIGN(Engine engine, compile_model(model, options));
  options.dump_dir.clear();  // the compile has written it
  const Target target = codegen::writable_target(engine.target(), options.codegen);
  FUSEC_ASSIGN(runtime::Stages stages, runtime::run_stages(*model.graph, target, options, runtime::Stage::partition));
  FUSEC_CHECK(stages.partition.regions.size() == engine.state()->program().slots.size())
      << "the second partition has other regions";
  return ValueRun(std::move(engine), std::move(stages));
}

std::size_t ValueRun::nodes() const {
  const ir::Graph& g = graph();
  return static_cast<std::size_t>(
      std::count_if(g.order.begin(), g.order.end(), [&](ir::NodeId id) { return !g.is_constant(g.nodes[id].output); }));
}

std::size_t ValueRun::nodes_inside_regions() const {
  std::set<ir::ValueId> exist;
  for (const compiler::Region& region : stages_.partition.regions)
    exist.insert(region.outputs.begin(), region.outputs.end());
  return nodes() - exist.size();
}

Result<std::vector<Tensor>> ValueRun::run(const std::vector<Tensor>& inputs, const OnValue& on_value) const {
  FUSEC_ASSIGN(runtime::StepwiseRun stepwise, runtime::StepwiseRun::make(engine_, inputs));
  const runtime::Plan& plan = stepwise.plan();
  const auto slots = slots_of_steps(plan.loaded->program);
  std::map<std::size_t, std::size_t> last;  // launch of each region
  for (std::size_t i = 0; i < plan.launches.size(); ++i) last[slots.at(plan.launches[i].step)] = i;
  const PlanStats stats = runtime::describe(plan);
  AllocationStarts starts(plan);
  const auto give = [&](std::size_t region, std::size_t launch) -> Status {
    for (const ir::ValueId v : stages_.partition.regions[region].outputs) {
      const ir::Type& type = graph().type(v);
      const compiler::Storage& storage = stages_.partition.storage.at(v);
      const std::vector<int64_t> shape = runtime::evaluate(type.shape, plan.bindings);
      FUSEC_ASSIGN(Tensor value, Tensor::make(type.dtype, shape));
      std::byte* const start = starts.find(storage.base);
      if (start == nullptr && value.num_elements() > 0) continue;
      if (value.num_elements() > 0) {
        const int64_t offset = runtime::evaluate(storage.offset, plan.bindings);
        const Tensor there =
            Tensor::borrow(type.dtype, shape, start + offset * static_cast<int64_t>(size_of(type.dtype)),
                           runtime::evaluate(storage.strides, plan.bindings), engine_.device());
        FUSEC_TRY(copy(there, value));
      }
      const ir::Node& node = *graph().producer(v);
      const ValueKeys& keys = keys_.at(v);
      FUSEC_TRY(on_value({v, names_.at(v), node.origin, std::string(node.op.name()), region, launch,
                          stats.steps[launch].implementation, keys.key, keys.own_key},
                         value));
    }
    return {};
  };
  return stepwise.run(inputs, [&](std::size_t launch, void* const* args) -> Status {
    starts.add(plan.launches[launch], args);
    const std::size_t region = slots.at(plan.launches[launch].step);
    return last.at(region) == launch ? give(region, launch) : Status();
  });
}

}  // namespace fusec::tool
