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
    ir::Variant alone{{}, {}, variant.picked};
    for (const ir::Candidate& candidate : variant.candidates) {
      alone.candidates.push_back({{}, candidate.why, candidate.predicted_us});
      alone.candidates.back().steps.push_back({launch(std::get<ir::KernelStep>(candidate.steps[0].v)), work_.origin});
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
  }

  ir::KernelStep launch(const ir::KernelStep& step) {
    ir::KernelStep out;
    out.kernel = work_.program.kernels.push_back(from_.kernels[step.kernel]);
    for (const Dim& extent : step.extents) out.extents.emplace_back(evaluate(extent, bindings_));
    out.args = args_;
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
  KernelWork work_;
  std::vector<ir::View> args_;
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
    if (variant.candidates.size() < 2) continue;
    if (!std::all_of(variant.candidates.begin(), variant.candidates.end(), is_one_launch)) continue;
    KernelWork work = Isolation(program, bindings).run(variant);
    if (writes_nothing(work)) continue;
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
  const std::unique_ptr<KernelCache> cache = KernelCache::open(options);
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
  if (options.strategy != Strategy::cached && options.strategy != Strategy::profile) return {};
  Options silent = options;  // faults of the database are told by whoever reads the times of library calls
  silent.on_warning = [](const std::string&) {};
  Tuning tuning(silent, machine.target, [&] { return kernel_scope(options, machine); });
  return to_tuning_data(tuning.all_rows());
}

}  // namespace fusec::runtime
