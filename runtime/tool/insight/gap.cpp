// SPDX-License-Identifier: Apache-2.0
// Splits the gap of a run. A step's time is used up part by part, so that no microsecond is promised twice.

#include "runtime/tool/insight/gap.h"

#include <algorithm>
#include <numeric>

namespace fusec::tool {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::vector<double> model_floors(const std::vector<StepFacts>& steps) {
  std::vector<double> us;
  for (const StepFacts& step : steps) us.push_back(step.floor_us);
  return us;
}

double library_floor(const StepFacts& step) {
  if (!step.us) return step.layer_us.value_or(step.floor_us);
  if (!step.layer_us) return *step.us;
  if (step.taken_us && *step.taken_us > 0) return *step.us * std::min(*step.layer_us / *step.taken_us, 1.0);
  return std::min(*step.us, *step.layer_us);
}

double channels_first_ratio(const StepFacts& step) {
  if (!step.channels_first_us || !step.layer_us || *step.layer_us <= 0) return 1;
  return *step.channels_first_us / *step.layer_us;
}

// What is left of a call, as a share, with images in the faster order, as far as both kinds of rows say so.
double order_share(const StepFacts& step) {
  return std::min(std::max(channels_first_ratio(step), step.channels_first_ratio.value_or(0)), 1.0);
}

// What is left in the best type that is allowed: by rows of the call where it has them, else by the machine model.
double type_share(const StepFacts& step) {
  const double now = step.layer_us.value_or(0) * order_share(step);
  if (step.half_us && now > 0) return std::min(*step.half_us / now, 1.0);
  return step.floor_us > 0 ? std::clamp(step.best_type_us / step.floor_us, 0.0, 1.0) : 1;
}

// Of the way that ran, which is the fastest one where it has no row.
std::optional<double> taken_us(const StepFacts& step) { return step.taken_us ? step.taken_us : step.layer_us; }

// By a row of a call that does the step's work otherwise.
double gain_of(const StepFacts& step, double other_us) {
  const std::optional<double> taken = taken_us(step);
  return taken && *taken > 0 ? step.us.value_or(0) * (1 - other_us / *taken) : 0;
}

double& at(Parts& parts, Part part) { return parts[static_cast<std::size_t>(part)]; }

// Takes the parts of one step from its time, down to this floor and below it; the answer is what is left of it.
double take_parts(const StepFacts& step, double floor_us, bool by_floor, Parts& parts) {
  double left = step.us.value_or(0);
  const auto take = [&](Part part, double us) {
    at(parts, part) = us;
    left -= us;
  };
  if (step.kind == StepKind::move) {
    take(Part::layout, left);
    return left;
  }
  take(Part::algorithm, left - floor_us);
  if (!by_floor) take(Part::layout, left * (1 - order_share(step)));
  take(Part::fusion, std::clamp(step.edge_us, 0.0, std::max(left, 0.0)));
  take(Part::precision, left * (1 - type_share(step)));
  return left;
}

}  // namespace

double gain_channels_first(const StepFacts& step) {
  if (step.channels_first_ratio) return step.us.value_or(0) * (1 - *step.channels_first_ratio);
  return step.channels_first_us ? gain_of(step, *step.channels_first_us) : 0;
}

double gain_in_best_type(const StepFacts& step) {
  const double by_row = step.half_us ? gain_of(step, *step.half_us) : 0;
  return step.half_us ? std::max(by_row, 0.0) : step.us.value_or(0) * (1 - type_share(step));
}

const char* to_string(Part part) {
  constexpr std::array<const char*, kParts> kNames = {"launch", "layout",    "algorithm",
                                                      "fusion", "precision", "branches"};
  return kNames[static_cast<std::size_t>(part)];
}

std::vector<std::size_t> missing_layers(const std::vector<StepFacts>& steps) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_new =
        std::none_of(out.begin(), out.end(), [&](std::size_t known) { return steps[known].layer == steps[i].layer; });
    if (steps[i].lacks_row && is_new) out.push_back(i);
  }
  return out;
}

double critical_path(const std::vector<StepFacts>& steps, const std::vector<double>& us) {
  std::vector<double> done(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const std::size_t before : steps[i].after) done[i] = std::max(done[i], done[before]);
    done[i] += us[i];
  }
  return done.empty() ? 0 : *std::max_element(done.begin(), done.end());
}

namespace {

std::vector<double> fastest_ways(const std::vector<StepFacts>& steps) {
  std::vector<double> us;
  for (const StepFacts& step : steps) us.push_back(step.kind == StepKind::move ? 0 : library_floor(step));
  return us;
}

}  // namespace

std::vector<double> library_floors(const std::vector<StepFacts>& steps) {
  std::vector<double> us = fastest_ways(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) us[i] *= std::min(channels_first_ratio(steps[i]), 1.0);
  return us;
}

Bound library_bound(const std::vector<StepFacts>& steps) {
  const std::vector<double> us = library_floors(steps);
  return {sum(us), critical_path(steps, us)};
}

Bound fusion_bound(const std::vector<StepFacts>& steps) {
  const std::vector<double> us = model_floors(steps);
  return {sum(us), critical_path(steps, us)};
}

namespace {

Gap split_by(const std::vector<double>& floors, bool by_floors, const RunTimes& run,
             const std::vector<StepFacts>& steps) {
  Gap gap;
  gap.by_floors = by_floors;
  gap.measured_us = run.measured_us;
  at(gap.parts, Part::launch) = run.launch_us;
  std::vector<double> left;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    left.push_back(take_parts(steps[i], floors[i], by_floors, gap.steps.emplace_back()));
    for (std::size_t p = 0; p < kParts; ++p) gap.parts[p] += gap.steps.back()[p];
  }
  gap.bound_us = critical_path(steps, left);
  at(gap.parts, Part::branches) = sum(left) - gap.bound_us;
  gap.other = gap.gap_us() - std::accumulate(gap.parts.begin(), gap.parts.end(), 0.0);
  return gap;
}

}  // namespace

Gap split_gap(const RunTimes& run, const std::vector<StepFacts>& steps) {
  std::vector<double> floors = fastest_ways(steps);
  Gap gap = split_by(floors, false, run, steps);
  gap.below_library = run.measured_us < library_bound(steps).critical_us;
  if (run.measured_us >= gap.bound_us) return gap;
  for (std::size_t i = 0; i < steps.size(); ++i) floors[i] = std::min(floors[i], steps[i].floor_us);
  gap = split_by(floors, true, run, steps);
  gap.below_library = true;
  return gap;
}

std::optional<std::size_t> largest_step(const Gap& gap, Part part) {
  const auto p = static_cast<std::size_t>(part);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < gap.steps.size(); ++i)
    if (gap.steps[i][p] > (best ? gap.steps[*best][p] : 0)) best = i;
  return best;
}

}  // namespace fusec::tool
