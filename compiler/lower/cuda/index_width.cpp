// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: for which shapes of the model 32 bits hold every index of a kernel. Where that depends on symbols,
// the lower stage lists a variant with 32-bit indices in front of the one that covers every shape.

#include <algorithm>

#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {
namespace {

// Blocks at the end of a grid compute indices beyond the last element before they compare them with it; no tile of all
// blocks at once is as large as this.
constexpr int64_t kBeyondTheEnd = int64_t{1} << 24;
constexpr int64_t kMaxElements = (int64_t{1} << 31) - kBeyondTheEnd;

// Whether a >= 0 wherever b >= 0, for extents that are at least 0.
bool follows(const Dim& a, const Dim& b) { return proves_nonneg(a - b, {}); }

void add_condition(std::vector<Dim>& conditions, const Dim& condition) {
  const auto makes_idle = [&](const Dim& other) { return follows(condition, other); };
  if (std::any_of(conditions.begin(), conditions.end(), makes_idle)) return;
  std::erase_if(conditions, [&](const Dim& other) { return follows(other, condition); });
  conditions.push_back(condition);
}

}  // namespace

std::optional<std::vector<Dim>> when_32_bits_suffice(const std::vector<Dim>& sizes) try {
  std::vector<Dim> conditions;
  for (const Dim& elements : sizes) {
    const auto least = lower_bound(elements, {}), most = upper_bound(elements, {});
    if (least && *least > kMaxElements) return std::nullopt;
    if (!most || *most > kMaxElements) add_condition(conditions, kMaxElements - elements);
  }
  return conditions;
} catch (const DimOverflow&) {
  return std::nullopt;  // more elements than any memory has
}

}  // namespace fusec::compiler
