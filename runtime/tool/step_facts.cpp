// SPDX-License-Identifier: Apache-2.0
// Collects what is known of each step. A region of the partition is a slot of the Program, whose steps share one row of
// the tuning database.

#include "runtime/tool/step_facts.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/select/select.h"
#include "ir/cost/cost.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/plan/alternative_calls.h"
#include "runtime/plan/bind.h"
#include "runtime/plan/tuner.h"
#include "runtime/tool/insight/boundaries.h"
#include "runtime/tuning/tuning.h"

namespace fusec::tool {
namespace {

using runtime::ResolvedStep;
using runtime::ResolvedView;

// Products of f16, and of TF32, in the time of one of f32 by GPUs from sm_80 on: 312, 156 and 19.5 TFLOP/s of an A100
// by its data sheet (an H100's are about 15 and 7 times those in f32); and by CPUs that compute in f16, an assumption.
constexpr double kHalfPerSingle = 16, kTf32PerSingle = 8, kCpuHalfPerSingle = 2;

struct ByteRange {
  uint32_t alloc = 0;
  int64_t begin = 0, end = 0;  // bytes
};

ByteRange byte_range(const ResolvedView& view) {
  const auto element = static_cast<int64_t>(size_of(view.dtype));
  ByteRange out{view.alloc.index, view.offset, view.offset + element};
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    const int64_t reach = (view.shape[axis] - 1) * view.strides[axis] * element;
    (reach < 0 ? out.begin : out.end) += reach;
  }
  return out;
}

bool meet(const ByteRange& a, const ByteRange& b) { return a.alloc == b.alloc && a.begin < b.end && b.begin < a.end; }

double count_bytes(const ResolvedView& view) {
  double elements = view.empty() ? 0 : 1;
  for (std::size_t i = 0; i < view.shape.size(); ++i)
    if (view.strides[i] != 0) elements *= static_cast<double>(view.shape[i]);
  return elements * static_cast<double>(size_of(view.dtype));
}

// Rows of ways that may be taken.
std::vector<runtime::TuningRow> usable(std::vector<runtime::TuningRow> rows, int64_t workspace_limit) {
  std::erase_if(rows, [&](const runtime::TuningRow& row) {
    return row.failed() || row.library == runtime::kWholeModel || row.workspace > workspace_limit;
  });
  return rows;
}

const runtime::TuningRow* fastest(const std::vector<runtime::TuningRow>& rows) {
  const auto best = std::min_element(
      rows.begin(), rows.end(),
      [](const runtime::TuningRow& a, const runtime::TuningRow& b) { return a.median_us < b.median_us; });
  return best == rows.end() ? nullptr : &*best;
}

// Whether a run of a model was slower with this way.
bool is_refused(const std::vector<runtime::TuningRow>& rows, const runtime::TuningRow& way) {
  return std::any_of(rows.begin(), rows.end(), [&](const runtime::TuningRow& row) {
    return row.library == runtime::kWholeModel && row.failed() && row.algorithm == name_pick(way);
  });
}

bool is_move(const ir::Graph& graph, const compiler::Region& region) {
  if (region.kind != compiler::RegionKind::kernel) return false;
  return std::all_of(region.nodes.begin(), region.nodes.end(), [&](ir::NodeId id) {
    const ir::Op& op = graph.nodes[id].op;
    if (op.is_scalar()) return op.scalar() == ir::ScalarOp::cast;
    return is_kind(op, ir::OpPattern::index_map) || is_kind(op, ir::OpPattern::source);
  });
}

// Bytes of a step, and its multiplications.
struct Work {
  double read = 0, written = 0, products = 0;
  double ops_us = 0;  // of other operations
  bool is_f32 = false;
};

class Collector {
 public:
  explicit Collector(const FactSources& from) : from_(from) {
    for (std::size_t slot = 0; slot < program().slots.size(); ++slot)
      for (const ir::Variant& variant : program().slots[slot].variants)
        for (const ir::Candidate& candidate : variant.candidates)
          for (const ir::Step& step : candidate.steps) slots_[&step] = slot, candidates_[&step] = &candidate;
    for (const runtime::KernelWork& work : runtime::list_kernel_work(from_.listed, from_.bindings))
      tuned_kernels_.insert(work.call());
  }

  std::vector<StepFacts> run() {
    for (std::size_t i = from_.resolved.once; i < from_.resolved.steps.size(); ++i) add(i);
    share_rows();
    for (std::size_t i = 0; i < facts_.size(); ++i) set_floors(i);
    set_edges();
    return std::move(facts_);
  }

 private:
  const ir::Program& program() const { return from_.loaded.program; }
  const ResolvedStep& step(std::size_t fact) const { return from_.resolved.steps[from_.resolved.once + fact]; }
  std::size_t slot(std::size_t fact) const { return slots_.at(step(fact).step); }

  void add(std::size_t index) {
    const ResolvedStep& step = from_.resolved.steps[index];
    StepFacts facts;
    facts.origin = step.step->origin;
    if (index < from_.times.size()) facts.us = from_.times[index];
    Work work;
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.step->v)) {
      add_kernel(step, *launch, facts, work);
    } else {
      add_call(step, facts, work);
    }
    link(step, facts);
    facts_.push_back(std::move(facts));
    works_.push_back(work);
  }

  void add_call(const ResolvedStep& step, StepFacts& facts, Work& work) {
    facts.kind = StepKind::call;
    const auto& library_step = std::get<ir::LibraryStep>(step.step->v);
    for (std::size_t i = 0; i < step.args.size(); ++i)
      (i + 1 == step.args.size() ? work.written : work.read) += count_bytes(step.args[i]);
    work.is_f32 = step.args.back().dtype == DType::f32;
    facts.implementation = ir::info(library_step.op).name;
    if (!runtime::is_tuned(library_step)) return;
    runtime::LibraryCall call = runtime::library_call(from_.loaded, step, from_.threads);
    call.warm_constants = from_.warm_constants;
    work.products = runtime::count_work(call);
    facts.layer = runtime::tuning_call(call);
    const std::string taken = from_.taken_way ? from_.taken_way(facts.layer) : "";
    set_row(facts, from_.call_rows(facts.layer),
            [&](const runtime::TuningRow& row) { return name_pick(row) == taken; });
    const std::optional<double> isolated_us = facts.layer_us,
                                first_us = fastest_us(runtime::with_channels_first(call), false);
    if (isolated_us && first_us && *isolated_us > 0) facts.channels_first_ratio = *first_us / *isolated_us;
    facts.repeated = use_repeated(facts, call, taken);
    facts.channels_first_us = fastest_us(runtime::with_channels_first(call), facts.repeated);
    if (from_.allowed.half) facts.half_us = fastest_us(runtime::in_half(call), facts.repeated);
  }

  std::vector<runtime::TuningRow> repeated_rows(runtime::LibraryCall call) const {
    call.repeated = true;
    return usable(from_.call_rows(runtime::tuning_call(call)), from_.workspace_limit);
  }

  // The same ways by the rows of the call one after another, if both have one.
  bool use_repeated(StepFacts& facts, const runtime::LibraryCall& call, const std::string& taken) const {
    const std::vector<runtime::TuningRow> alone = usable(from_.call_rows(facts.layer), from_.workspace_limit);
    const std::vector<runtime::TuningRow> repeated = repeated_rows(call);
    const auto find = [](const std::vector<runtime::TuningRow>& rows, const auto& is) {
      const auto it = std::find_if(rows.begin(), rows.end(), is);
      return it == rows.end() ? nullptr : &*it;
    };
    const auto* const fastest =
        find(alone, [&](const runtime::TuningRow& row) { return facts.layer_us == row.median_us; });
    if (fastest == nullptr) return false;
    const auto repeated_us = [&](const std::string& way) -> std::optional<double> {
      const auto* const row = find(repeated, [&](const runtime::TuningRow& r) { return name_pick(r) == way; });
      return row == nullptr ? std::nullopt : std::optional(row->median_us);
    };
    const std::optional<double> fastest_us = repeated_us(name_pick(*fastest));
    const std::optional<double> taken_us = facts.taken_us ? repeated_us(taken) : fastest_us;
    if (!fastest_us || !taken_us) return false;
    facts.layer_us = std::min(*fastest_us, *taken_us);
    if (facts.taken_us) facts.taken_us = taken_us;
    return true;
  }

  // By the rows of a call that this program does not make.
  std::optional<double> fastest_us(const std::optional<runtime::LibraryCall>& call, bool repeated) const {
    if (!call) return std::nullopt;
    const auto ways =
        repeated ? repeated_rows(*call) : usable(from_.call_rows(runtime::tuning_call(*call)), from_.workspace_limit);
    const runtime::TuningRow* const best = fastest(ways);
    return best == nullptr ? std::nullopt : std::optional(best->median_us);
  }

  void add_kernel(const ResolvedStep& step, const ir::KernelStep& launch, StepFacts& facts, Work& work) {
    const ir::Kernel& kernel = program().kernels[launch.kernel];
    facts.implementation = kernel.name;
    const std::size_t at = slots_.at(step.step);
    if (at < from_.partition.regions.size() && is_move(from_.graph, from_.partition.regions[at]))
      facts.kind = StepKind::move;
    const ir::KernelCost cost =
        ir::cost(kernel, from_.target, {step.extents, ir::Residence::near, ir::Launching::in_plan});
    work.read = cost.read, work.written = cost.written;
    work.ops_us = ops_us(cost.ops());
    work.is_f32 = !step.args.empty() && step.args.back().dtype == DType::f32;
    if (at >= from_.listed.slots.size()) return;
    const std::string call = kernel_call(from_.listed.slots[at]);
    if (!tuned_kernels_.contains(call)) return;
    facts.layer = call;
    const std::string taken = compiler::candidate_key(program(), *candidates_.at(step.step));
    set_row(facts, from_.kernel_rows(call), [&](const runtime::TuningRow& row) {
      return row.algorithm.substr(0, row.algorithm.find(' ')) == taken;  // before the space is the key
    });
  }

  // As KernelWork::call has it.
  std::string kernel_call(const ir::Slot& slot) const {
    const ir::Variant& variant = runtime::variant_for(slot, from_.bindings);
    const auto* first = std::get_if<ir::KernelStep>(&variant.candidates[0].steps[0].v);
    if (first == nullptr) return "";
    runtime::KernelWork named;
    named.key = compiler::candidate_key(from_.listed, variant.candidates[0]);
    named.extents = runtime::evaluate(Shape(first->extents.begin(), first->extents.end()), from_.bindings);
    return named.call();
  }

  template <typename F>
  void set_row(StepFacts& facts, const std::vector<runtime::TuningRow>& rows, const F& is_taken) const {
    facts.lacks_row = !runtime::is_complete(rows);
    const std::vector<runtime::TuningRow> ways = usable(rows, from_.workspace_limit);
    const runtime::TuningRow* best = fastest(ways);
    if (best == nullptr) return;
    if (const auto taken = std::find_if(ways.begin(), ways.end(), is_taken); taken != ways.end())
      facts.taken_us = taken->median_us;
    // Nothing is faster in the model than what runs.
    facts.layer_us = facts.us && is_refused(rows, *best) ? facts.taken_us : best->median_us;
  }

  // Results are read where they lie: allocations are those of the Program, which no two values share.
  void link(const ResolvedStep& step, StepFacts& facts) {
    std::set<std::size_t> after;
    const std::size_t own = facts_.size();
    for (std::size_t a = 0; a < step.args.size(); ++a) {
      if (step.args[a].empty()) continue;
      const ByteRange range = byte_range(step.args[a]);
      if (runtime::writes(program(), *step.step, a)) {
        written_.emplace_back(range, own);
        continue;
      }
      for (const auto& [other, by] : written_)
        if (by != own && meet(range, other)) after.insert(by);
    }
    facts.after.assign(after.begin(), after.end());
  }

  // A row is of all steps of a slot: each has its part by the time in place, or an equal one.
  void share_rows() {
    std::map<std::size_t, std::vector<std::size_t>> by_slot;
    for (std::size_t i = 0; i < facts_.size(); ++i) by_slot[slot(i)].push_back(i);
    for (const auto& [at, members] : by_slot) {
      if (members.size() < 2) continue;
      double sum = 0;
      for (const std::size_t i : members) sum += facts_[i].us.value_or(1);
      for (const std::size_t i : members)
        for (std::optional<double>* row :
             {&facts_[i].layer_us, &facts_[i].taken_us, &facts_[i].channels_first_us, &facts_[i].half_us})
          if (*row && sum > 0) **row *= facts_[i].us.value_or(1) / sum;
    }
  }

  double workers() const {
    return std::max(1, from_.target.kind == TargetKind::cpu ? from_.target.threads : from_.target.sm_count);
  }

  double ops_us(const ir::OpCounts& ops) const {
    const MachineModel& m = from_.target.model;
    const auto us = [&](double count, const Figure& rate) { return rate > 0 ? count / (1e3 * rate * workers()) : 0; };
    return us(ops.simple, m.simple_ops) + us(ops.transcendental, m.transcendental_ops) +
           us(ops.division, m.division_ops) + us(ops.conversion, m.conversion_ops);
  }

  // Products per us: what the model says of additions, or more where a row of this model was faster.
  double peak(bool is_f32) const {
    double best = 1e3 * from_.target.model.simple_ops * workers();
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      if (works_[i].is_f32 == is_f32 && facts_[i].layer_us && *facts_[i].layer_us > 0)
        best = std::max(best, works_[i].products / *facts_[i].layer_us);
    }
    return best;
  }

  double type_ratio() const {
    if (from_.target.kind == TargetKind::cpu)
      return from_.allowed.half && from_.target.has_avx512_fp16 ? kCpuHalfPerSingle : 1;
    if (from_.target.sm < 80) return 1;
    const double now = from_.tf32 ? kTf32PerSingle : 1;
    return from_.allowed.half ? kHalfPerSingle / now : from_.allowed.tf32 ? kTf32PerSingle / now : 1;
  }

  void set_floors(std::size_t i) {
    const Work& work = works_[i];
    const auto floor = [&](double bytes, double rate) {
      const double memory = ir::copy_us(from_.target, work.read * bytes, work.written * bytes, ir::Residence::near,
                                        ir::Launching::in_plan);
      return std::max({memory, work.products / rate, work.ops_us});
    };
    const double rate = peak(work.is_f32);
    facts_[i].floor_us = floor(1, rate);
    facts_[i].best_type_us = facts_[i].floor_us;
    if (work.is_f32)
      facts_[i].best_type_us = std::min(floor(from_.allowed.half ? 0.5 : 1, rate * type_ratio()), facts_[i].floor_us);
  }

  // Time of so many more bytes in a step that runs anyway.
  double traffic_us(double read, double written) const {
    const auto copy = [&](double r, double w) {
      return ir::copy_us(from_.target, r, w, ir::Residence::near, ir::Launching::in_plan);
    };
    return copy(read, written) - copy(0, 0);
  }

  void set_edges() {
    const auto& regions = from_.partition.regions;
    std::map<ir::ValueId, bool> removable;  // whether no user needs it in memory
    std::vector<double> read(regions.size()), written(regions.size());
    for (const compiler::FusionBoundary& b : from_.partition.boundaries) {
      const bool fuses = could_fuse(b.reason);
      const auto [it, is_new] = removable.emplace(b.value, fuses);
      it->second = it->second && fuses;
      if (!fuses) continue;
      for (std::size_t r = 0; r < regions.size(); ++r) {
        const auto& nodes = regions[r].nodes;
        if (std::find(nodes.begin(), nodes.end(), b.user) != nodes.end() && counted_.insert({r, b.value}).second)
          read[r] += count_value_bytes(b.value);
      }
    }
    for (std::size_t r = 0; r < regions.size(); ++r) {
      for (const ir::ValueId v : regions[r].outputs) {
        const auto& outs = from_.graph.outputs;
        const auto it = removable.find(v);
        if (it != removable.end() && it->second && std::find(outs.begin(), outs.end(), v) == outs.end())
          written[r] += count_value_bytes(v);
      }
    }
    std::set<std::size_t> seen;
    for (std::size_t i = 0; i < facts_.size(); ++i)
      if (slot(i) < regions.size() && seen.insert(slot(i)).second && read[slot(i)] + written[slot(i)] > 0)
        facts_[i].edge_us = traffic_us(read[slot(i)], written[slot(i)]);
  }

  double count_value_bytes(ir::ValueId v) const {
    const ir::Type& type = from_.graph.type(v);
    return static_cast<double>(num_elements(type.shape).eval(from_.bindings).value_or(0)) *
           static_cast<double>(size_of(type.dtype));
  }

  const FactSources& from_;
  std::map<const ir::Step*, std::size_t> slots_;
  std::map<const ir::Step*, const ir::Candidate*> candidates_;
  std::set<std::string> tuned_kernels_;
  std::vector<std::pair<ByteRange, std::size_t>> written_;
  std::set<std::pair<std::size_t, ir::ValueId>> counted_;
  std::vector<StepFacts> facts_;
  std::vector<Work> works_;
};

}  // namespace

std::vector<StepFacts> collect_facts(const FactSources& from) { return Collector(from).run(); }

}  // namespace fusec::tool
