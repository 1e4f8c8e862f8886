// SPDX-License-Identifier: Apache-2.0
// Words for the parts of a gap: which step has most of it, and the flag or the change of the model that wins it.

#include "runtime/tool/insight/advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace fusec::tool {
namespace {

constexpr const char *kHalfFlag = "--precision f16", *kOrderFlag = "--disable-pass channels_last";

struct Remedy {
  std::string flag;
  std::string text;
};

// What flags gain that change all steps at once, whatever an earlier part takes of their time.
struct FlagGains {
  double channels_first = 0, best_type = 0;
};

FlagGains sum_gains(const std::vector<StepFacts>& steps) {
  FlagGains out;
  for (const StepFacts& step : steps)
    out.channels_first += gain_channels_first(step), out.best_type += gain_in_best_type(step);
  return out;
}

Remedy launch_remedy(const RunSettings& run) {
  if (run.gpu && !run.cuda_graph) return {"without --no-cuda-graph", "a CUDA graph launches all steps at once"};
  if (run.gpu) return {"", "time between the steps: fewer steps or a larger batch"};
  return {"", "time between the steps: fewer steps, fewer --threads or a larger batch"};
}

Remedy algorithm_remedy(const StepFacts& step, const RunSettings& run, bool by_floors) {
  if (!run.uses_rows) return {"--strategy cached", "the tuning database knows faster ways"};
  if (by_floors) return {"", "it takes longer than its bytes and operations bound it to"};
  if (step.kind == StepKind::call)
    return {"", "another way of the libraries is faster alone, by less than fusec tune takes for more than noise"};
  return {"", "another candidate of the kernel is faster alone, by less than fusec tune takes for more than noise"};
}

Remedy fusion_remedy(const RunSettings& run) {
  if (!run.fuses) return {"without --no-fusion", "its neighbours can be fused"};
  return {"", "what it exchanges with its neighbours goes through memory; fusec explain names the boundaries"};
}

Remedy precision_remedy(const RunSettings& run) {
  if (run.allows_half && !run.half) return {kHalfFlag, "half the bytes, and faster products"};
  if (run.allows_tf32 && !run.tf32) return {"--tf32", "products of f32 rounded to TF32"};
  return {"", "a narrower type"};
}

Remedy remedy_of(Part part, const StepFacts* step, const RunSettings& run, bool by_floors, const FlagGains& all) {
  switch (part) {
    case Part::launch:
      return launch_remedy(run);
    case Part::layout:
      if (step->kind == StepKind::call) {
        const std::string why = "the call alone is faster with channels first (N C ...)";
        if (all.channels_first <= 0) return {"", why + "; with all images of the model so, other calls lose more"};
        return {kOrderFlag, why + "; the flag puts all images of the model so"};
      }
      return {"", "it only moves data: a model in the layout and type that its neighbours take needs no such step"};
    case Part::algorithm:
      return algorithm_remedy(*step, run, by_floors);
    case Part::fusion:
      return fusion_remedy(run);
    case Part::precision:
      return precision_remedy(run);
    case Part::branches:
      return {"", "steps that do not wait for each other run one after another"};
  }
  return {};
}

}  // namespace

std::vector<Advice> make_advice(const std::vector<StepFacts>& steps, const Gap& gap, const RunSettings& run,
                                double least_us) {
  std::vector<Advice> out;
  const FlagGains all = sum_gains(steps);
  for (std::size_t p = 0; p < kParts; ++p) {
    const auto part = static_cast<Part>(p);
    Advice advice;
    advice.part = part, advice.us = gap.parts[p];
    const bool of_run = part == Part::launch || part == Part::branches;
    const std::optional<std::size_t> most = of_run ? std::nullopt : largest_step(gap, part);
    // Steps that are faster than their floor hide others in the sum.
    const double step_us = most ? gap.steps[*most][p] : 0;
    if (std::max(advice.us, step_us) < least_us || (!of_run && !most)) continue;
    const StepFacts* const step = most ? &steps[*most] : nullptr;
    const Remedy remedy = remedy_of(part, step, run, gap.by_floors, all);
    advice.flag = remedy.flag;
    double of_step_us = step_us;
    if (advice.flag == kHalfFlag) advice.us = all.best_type, of_step_us = gain_in_best_type(*step);
    if (advice.flag == kOrderFlag) advice.us = all.channels_first, of_step_us = gain_channels_first(*step);
    if (step != nullptr) {
      advice.step = step->origin, advice.layer = step->layer, advice.step_us = of_step_us;
      advice.of_call = step->kind == StepKind::call;
      advice.text =
          fmt::format("{} of {}: {:.1f} us of {:.1f} us; {}", to_string(part),
                      step->origin.empty() ? step->implementation : step->origin, of_step_us, advice.us, remedy.text);
    } else {
      advice.text = fmt::format("{}: {:.1f} us; {}", to_string(part), advice.us, remedy.text);
    }
    if (!remedy.flag.empty()) advice.text += " (" + remedy.flag + ")";
    out.push_back(std::move(advice));
  }
  std::stable_sort(out.begin(), out.end(), [](const Advice& a, const Advice& b) { return a.us > b.us; });
  return out;
}

}  // namespace fusec::tool
