// SPDX-License-Identifier: Apache-2.0
// Takes variants out of a program, so that their candidates can be timed alone, and turns rows of the tuning database
// into what select takes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "codegen/emit.h"
#include "ir/support/check.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_tuner.h"

namespace fusec::runtime {
namespace {

constexpr int64_t kTunedAlignment = 256;  // bytes from which the offset of an argument counts

// Builds the program of one KernelWork.
class Isolation {
 public:
  Isolation(const ir::Program& from, const Bindings& bindings) : from_(from), bindings_(bindings) {}

  KernelWork run(const ir::Variant& variant) {
    const auto& first = std::get<ir::KernelStep>(variant.candidates[0].steps[0].v);
    work_.extents = evaluate(first.extents, bindings_);
    work_.key = compiler::candidate_key(from_, variant.candidates[0]);
    work_.origin = variant.candidates[0].steps[0].origin;
    ir::Program& to = work_.program;
    to.name = "candidates";
    for (const ir::View& view : params_of(first)) add_param(view, first);
    ir::Variant alone{{}, {}, 0};
    for (std::size_t i = 0; i < variant.candidates.size(); ++i) {
      std::optional<ir::Candidate> candidate = place(variant.candidates[i]);
      if (!candidate) continue;
      if (variant.picked == static_cast<int>(i)) alone.picked = static_cast<int>(alone.candidates.size());
      alone.candidates.push_back(*std::move(candidate));
    }
    to.slots.push_back({{std::move(alone)}});
    return std::move(work_);
  }

 private:
  std::size_t param_count(const ir::KernelStep& step) const { return from_.kernels[step.kernel].params.size(); }
  std::span<const ir::View> params_of(const ir::KernelStep& step) const {
    return std::span(step.args).first(param_count(step));
  }

  // Memory for one argument, in which it is as aligned as in the plan.
  void add_param(const ir::View& view, const ir::KernelStep& step) {
    const DType dtype = from_.allocs[view.alloc].dtype;
    const ir::Kernel& kernel = from_.kernels[step.kernel];
    const std::size_t index = args_.size();
    const bool is_out = kernel.buffers[kernel.params[index]].space == ir::Space::out;
    const int64_t size = static_cast<int64_t>(size_of(dtype)), elements = evaluate(view.shape[0], bindings_);
    const int64_t odd = evaluate(view.offset, bindings_) * size % kTunedAlignment / size;
    ir::Program& to = work_.program;
    auto& ids = is_out ? to.outputs : to.inputs;
    auto& types = is_out ? to.output_types : to.input_types;
    auto& names = is_out ? to.output_names : to.input_names;
    const std::string name = fmt::format("{}{}", is_out ? 'y' : 'x', ids.size());
    ids.push_back(to.allocs.push_back({is_out ? ir::AllocKind::output : ir::AllocKind::input, name, dtype,
                                       odd + elements, static_cast<uint32_t>(ids.size())}));
    types.push_back({dtype, {odd + elements}});
    names.push_back(name);
    args_.push_back({ids.back(), odd, {elements}, {1}});
    params_.push_back({view.alloc, evaluate(view.offset, bindings_), is_out});
  }

  // The candidate over the memory of the first one; nullopt where it reads or writes anything else.
  std::optional<ir::Candidate> place(const ir::Candidate& candidate) {
    ir::Candidate out{{}, candidate.why, candidate.predicted_us};
    between_.clear();
    for (const ir::Step& step : candidate.steps) {
      const auto* launch = std::get_if<ir::KernelStep>(&step.v);
      std::optional<ir::KernelStep> placed = launch == nullptr ? std::nullopt : place(*launch);
      if (!placed) return std::nullopt;
      out.steps.push_back({*std::move(placed), work_.origin});
    }
    return out;
  }

  // An argument is one of the first candidate's kernel, or a value that a step of this candidate keeps for the next.
  std::optional<ir::View> find_arg(const ir::View& view, bool is_out) {
    const Param wanted{view.alloc, evaluate(view.offset, bindings_), is_out};
    const auto known = std::find(params_.begin(), params_.end(), wanted);
    if (known != params_.end()) return args_[static_cast<std::size_t>(known - params_.begin())];
    const ir::Allocation& alloc = from_.allocs[view.alloc];
    const bool is_foreign =
        std::any_of(params_.begin(), params_.end(), [&](const Param& param) { return param.alloc == view.alloc; });
    if (is_foreign || alloc.kind != ir::AllocKind::temporary) return std::nullopt;
    auto [at, is_new] = between_.try_emplace(view.alloc);
    if (is_new != is_out) return std::nullopt;  // read before it is written
    if (is_new)
      at->second = work_.program.allocs.push_back(
          {ir::AllocKind::temporary, "", alloc.dtype, evaluate(alloc.elements, bindings_), 0});
    return ir::View{at->second, wanted.offset, {evaluate(view.shape[0], bindings_)}, {1}};
  }

  std::optional<ir::KernelStep> place(const ir::KernelStep& step) {
    const ir::Kernel& kernel = from_.kernels[step.kernel];
    ir::KernelStep out;
    for (std::size_t i = 0; i < param_count(step); ++i) {
      const bool is_out = kernel.buffers[kernel.params[i]].space == ir::Space::out;
      const std::optional<ir::View> arg = find_arg(step.args[i], is_out);
      if (!arg) return std::nullopt;
      out.args.push_back(*arg);
    }
    out.kernel = work_.program.kernels.push_back(kernel);
    for (const Dim& extent : step.extents) out.extents.emplace_back(evaluate(extent, bindings_));
    for (std::size_t i = param_count(step); i < step.args.size(); ++i) {
      const int64_t elements = evaluate(step.args[i].shape[0], bindings_);
      const DType dtype = from_.allocs[step.args[i].alloc].dtype;
      const ir::AllocId id = work_.program.allocs.push_back({ir::AllocKind::temporary, "", dtype, elements, 0});
      out.args.push_back({id, 0, {elements}, {1}});
    }
    return out;
  }

  const ir::Program& from_;
  const Bindings& bindings_;
  // What a parameter of the first candidate is.
  struct Param {
    ir::AllocId alloc;
    int64_t offset = 0;
    bool is_out = false;
    bool operator==(const Param&) const = default;
  };

  KernelWork work_;
  std::vector<Param> params_;
  std::vector<ir::View> args_;                  // of these
  std::map<ir::AllocId, ir::AllocId> between_;  // of one candidate, from the program's allocations
};

bool is_one_launch(const ir::Candidate& candidate) {
  return candidate.steps.size() == 1 && std::holds_alternative<ir::KernelStep>(candidate.steps[0].v);
}

bool writes_nothing(const KernelWork& work) {
  return std::all_of(work.program.output_types.begin(), work.program.output_types.end(),
                     [](const ir::Type& type) { return type.shape[0].is(0); });
}

// The extents of a row's call, "kernel 0123456789abcdef [8,768]", and its key.
std::optional<std::pair<std::string, std::vector<int64_t>>> parse_call(const std::string& call) {
  constexpr std::string_view kBegin = "kernel ";
  const std::size_t open = call.find(" [");
  if (!call.starts_with(kBegin) || open == std::string::npos || call.back() != ']') return std::nullopt;
  std::vector<int64_t> extents;
  const char *at = call.data() + open + 2, *const end = call.data() + call.size() - 1;
  while (at < end) {
    const auto [rest, error] = std::from_chars(at, end, extents.emplace_back());
    if (error != std::errc() || (rest != end && *rest != ',')) return std::nullopt;
    at = rest + 1;
  }
  return std::pair(call.substr(kBegin.size(), open - kBegin.size()), extents);
}

}  // namespace

std::string KernelWork::call() const { return fmt::format("kernel {} [{}]", key, fmt::join(extents, ",")); }

std::vector<KernelWork> list_kernel_work(const ir::Program& program, const Bindings& bindings) {
  std::vector<KernelWork> all;
  std::map<std::string, std::size_t> known;  // by call
  for (const ir::Slot& slot : program.slots) {
    const ir::Variant& variant = variant_for(slot, bindings);
    if (variant.candidates.size() < 2 || !is_one_launch(variant.candidates[0])) continue;
    KernelWork work = Isolation(program, bindings).run(variant);
    if (writes_nothing(work) || work.program.slots[0].variants[0].candidates.size() < 2) continue;
    const auto [it, is_new] = known.emplace(work.call(), all.size());
    if (is_new) {
      all.push_back(std::move(work));
    } else {
      ++all[it->second].count;
    }
  }
  return all;
}

void compile_candidates(ir::Program program, const Options& options, const Target& target) {
  const std::unique_ptr<KernelCache> cache = KernelCache::open(options, target.name);
  if (!cache) return;
  Options machine = options;
  machine.threads = 0;  // compiling is not bound by the threads of a run
  bool found = true;
  for (int number = 0; found; ++number) {
    found = false;
    for (ir::Slot& slot : program.slots) {
      for (ir::Variant& variant : slot.variants) {
        const bool has = variant.candidates.size() > 1 && number < static_cast<int>(variant.candidates.size());
        if (has) variant.picked = number;
        found |= has;
      }
    }
    KernelCounts counts;
    if (found)
      (void)obtain_kernels(program, usual_kernels(program), target, options.codegen, cache.get(), true,
                           host_threads(machine), {}, counts);
  }
}

std::string kernel_scope(const Options& options, const Machine& machine) {
  const Target& target = machine.target;
  if (target.kind == TargetKind::cuda) {
    return fmt::format("kernels; {}; {} {} SMs; {}", machine.hardware, target.name, target.sm_count,
                       codegen::emitter_version(target, options.codegen));
  }
  return fmt::format("kernels; {}; {}; {} threads; {}", cpu_name(), target.name, target.threads,
                     codegen::emitter_version(target, options.codegen));
}

compiler::TuningData to_tuning_data(const std::vector<TuningRow>& rows) {
  compiler::TuningData data;
  for (const TuningRow& row : rows) {
    const auto call = parse_call(row.call);
    if (!call) continue;
    const std::string key = row.algorithm.substr(0, row.algorithm.find(' '));
    data.candidates[call->first][call->second][key] = {row.median_us, row.failed()};
  }
  return data;
}

compiler::TuningData read_kernel_times(const Options& options, const Machine& machine) {
  if (strategy_of(options) != Strategy::cached && strategy_of(options) != Strategy::profile) return {};
  // Faults of the database are told by whoever reads the times of library calls.
  Tuning tuning(
      options, machine.target, [&] { return kernel_scope(options, machine); }, true);
  return to_tuning_data(tuning.all_rows());
}

}  // namespace fusec::runtime
