// SPDX-License-Identifier: Apache-2.0
// The select stage: picks a candidate in every variant, by measured times or by predicted ones. It also checks that the
// variants of every slot cover all shapes.

#include "compiler/select/select.h"

#include <algorithm>
#include <optional>

#include "compiler/lower/lower.h"
#include "ir/support/hash.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {

namespace {

constexpr double kMeasuredMargin = 0.97;  // what is closer is noise
constexpr std::size_t kMaxShapes = 8;     // of one variant that have a pick of their own

using Times = TuningData::Times;

std::string unnamed_text(ir::Kernel kernel) {
  kernel.name.clear();
  return ir::print(kernel);
}

std::string digest(const std::string& text) {
  const ir::Sha256Digest whole = ir::sha256(text);
  return ir::to_hex(std::span(whole).first(8));
}

const std::vector<Dim>* launch_extents(const ir::Candidate& candidate) {
  const auto* launch = candidate.steps.empty() ? nullptr : std::get_if<ir::KernelStep>(&candidate.steps[0].v);
  return launch == nullptr ? nullptr : &launch->extents;
}

bool matches(const std::vector<Dim>& extents, const std::vector<int64_t>& measured) {
  return std::equal(extents.begin(), extents.end(), measured.begin(), measured.end(),
                    [](const Dim& extent, int64_t value) { return !extent.is_const() || extent.is(value); });
}

// The sum over all measured extents, of the candidates that have a time for each of them.
Times add_times(const std::vector<const Times*>& measured) {
  Times sums = *measured[0];
  for (std::size_t i = 1; i < measured.size(); ++i) {
    std::erase_if(sums, [&](const auto& item) { return !measured[i]->contains(item.first); });
    for (auto& [key, sum] : sums) {
      const CandidateTime& other = measured[i]->at(key);
      sum = {sum.us + other.us, sum.failed || other.failed};
    }
  }
  return sums;
}

int pick_predicted(const std::vector<ir::Candidate>& candidates) {
  const std::vector<Dim>* extents = launch_extents(candidates[0]);
  const bool fixed =
      extents != nullptr && std::all_of(extents->begin(), extents->end(), [](const Dim& d) { return d.is_const(); });
  if (!fixed) return 0;
  const auto best =
      std::min_element(candidates.begin(), candidates.end(),
                       [](const ir::Candidate& a, const ir::Candidate& b) { return a.predicted_us < b.predicted_us; });
  const bool clearly = best->predicted_us < kClearlyFaster * candidates[0].predicted_us;
  return clearly ? static_cast<int>(best - candidates.begin()) : 0;
}

std::vector<std::optional<CandidateTime>> in_order(const ir::Program& program, const ir::Variant& variant,
                                                   const Times& times) {
  std::vector<std::optional<CandidateTime>> out;
  for (const ir::Candidate& candidate : variant.candidates) {
    const auto found = times.find(candidate_key(program, candidate));
    out.push_back(found == times.end() ? std::nullopt : std::optional(found->second));
  }
  return out;
}

// What was measured of the variant, by extents; null: nothing.
const std::map<std::vector<int64_t>, Times>* find_measured(const ir::Program& program, const ir::Variant& variant,
                                                           const TuningData& tuning) {
  if (launch_extents(variant.candidates[0]) == nullptr || variant.candidates.size() < 2 || tuning.empty())
    return nullptr;
  const auto known = tuning.candidates.find(candidate_key(program, variant.candidates[0]));
  return known == tuning.candidates.end() ? nullptr : &known->second;
}

// The candidate that is taken untimed gives way to one that is faster by more than noise.
std::optional<int> pick_measured(const std::vector<std::optional<CandidateTime>>& times, int untimed) {
  if (times.empty() || !times[static_cast<std::size_t>(untimed)]) return std::nullopt;
  const CandidateTime& own = *times[static_cast<std::size_t>(untimed)];
  int best = untimed;
  std::optional<double> least;
  if (!own.failed) least = own.us * kMeasuredMargin;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (static_cast<int>(i) == untimed || !times[i] || times[i]->failed || (least && times[i]->us >= *least)) continue;
    best = static_cast<int>(i), least = times[i]->us;
  }
  return best;
}

}  // namespace

std::string kernel_key(const ir::Kernel& kernel) { return digest(unnamed_text(kernel)); }

std::string candidate_key(const ir::Program& program, const ir::Candidate& candidate) {
  std::string text;
  for (const ir::Step& step : candidate.steps)
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.v))
      text += unnamed_text(program.kernels[launch->kernel]);
  return digest(text);
}

std::vector<std::optional<CandidateTime>> measured_times(const ir::Program& program, const ir::Variant& variant,
                                                         const TuningData& tuning) {
  const auto* known = find_measured(program, variant, tuning);
  if (known == nullptr) return {};
  std::vector<const Times*> measured;
  for (const auto& [values, times] : *known)
    if (matches(*launch_extents(variant.candidates[0]), values)) measured.push_back(&times);
  if (measured.empty()) return {};
  return in_order(program, variant, add_times(measured));
}

namespace {

// The same variant for one value of each symbolic extent of its launch.
ir::Variant fix_extents(ir::Variant variant, const std::vector<int64_t>& values) {
  const std::vector<Dim> extents = *launch_extents(variant.candidates[0]);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].is_const()) continue;
    variant.when.push_back(extents[i] - values[i]);
    variant.when.push_back(values[i] - extents[i]);
  }
  // By these, measured times are looked up; those of other candidates have the same values.
  std::get<ir::KernelStep>(variant.candidates[0].steps[0].v).extents.assign(values.begin(), values.end());
  return variant;
}

// Variants for measured extents for which another candidate is faster than the one that is best for all of them.
std::vector<ir::Variant> pick_by_shape(const ir::Program& program, const ir::Variant& variant,
                                       const TuningData& tuning) {
  std::vector<ir::Variant> own;
  const auto* known = find_measured(program, variant, tuning);
  if (known == nullptr) return own;
  for (const auto& [values, times] : *known) {
    if (own.size() == kMaxShapes) break;
    if (!matches(*launch_extents(variant.candidates[0]), values)) continue;
    const int best = pick_measured(in_order(program, variant, times), variant.picked).value_or(variant.picked);
    if (best == variant.picked) continue;
    own.push_back(fix_extents(variant, values));
    own.back().picked = best;
  }
  return own;
}

Status pick(const ir::Program& program, const TuningData& tuning, ir::Variant& variant) {
  const auto& candidates = variant.candidates;
  if (candidates.empty()) return Status(StatusCode::internal, "a variant without a candidate");
  const int untimed = pick_predicted(candidates);
  variant.picked = pick_measured(measured_times(program, variant, tuning), untimed).value_or(untimed);
  return {};
}

}  // namespace

Status select(ir::Program& program, const Target&, const TuningData& tuning) {
  for (ir::Slot& slot : program.slots) {
    if (slot.variants.empty() || !slot.variants.back().when.empty())
      return Status(StatusCode::internal, "a slot whose variants do not cover every shape");
    std::vector<ir::Variant> all;
    for (ir::Variant& variant : slot.variants) {
      FUSEC_TRY(pick(program, tuning, variant));
      for (ir::Variant& own : pick_by_shape(program, variant, tuning)) all.push_back(std::move(own));
      all.push_back(std::move(variant));
    }
    slot.variants = std::move(all);
  }
  return {};
}

}  // namespace fusec::compiler
