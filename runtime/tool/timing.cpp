// SPDX-License-Identifier: Apache-2.0
// Measures wall-clock times of a call, alone or between two copies of as many bytes. Rounds whose two copies differ too
// much are dropped, because the machine changed its memory speed in between.

#include "runtime/tool/timing.h"

#include <algorithm>
#include <cmath>

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMinRuns = 5, kMaxRuns = 100'000;
constexpr double kPatience = 4;   // budgets that a restless machine may cost
constexpr double kSteady = 1.08;  // two copies of one round: the machine changes its memory speed within seconds
constexpr double kBlockUs = 200;  // what is timed takes at least so long, against the clock's own cost
constexpr int64_t kMaxRepeats = 1000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// good: runs that will count, of all of them.
bool enough(const Budget& budget, int64_t runs, int64_t good, Clock::time_point start) {
  if (budget.runs > 0) return runs >= budget.runs;
  if (runs < kMinRuns) return false;
  const double seconds = seconds_since(start);
  return runs >= kMaxRuns || seconds >= kPatience * budget.seconds || (good >= kMinRuns && seconds >= budget.seconds);
}

int64_t repeats_for(double us) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kBlockUs / std::max(us, 0.01))), 1, kMaxRepeats);
}

double time_repeated(const Call& call, int64_t repeats) {
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < repeats; ++i) call();
  return 1e6 * seconds_since(start) / static_cast<double>(repeats);
}

struct Round {
  double before = 0, call = 0, after = 0;
  bool steady() const { return std::max(before, after) <= kSteady * std::min(before, after); }
  double copy() const { return (before + after) / 2; }
};

Paired summary(const std::vector<Round>& rounds) {
  Paired out;
  out.rounds = static_cast<int64_t>(rounds.size());
  out.kept = std::count_if(rounds.begin(), rounds.end(), [](const Round& r) { return r.steady(); });
  std::vector<double> copies, scores;
  for (const Round& round : rounds) {
    if (out.kept > 0 && !round.steady()) continue;
    out.us.push_back(round.call);
    copies.push_back(round.copy());
    scores.push_back(round.copy() / round.call);
  }
  out.copy_us = median(copies);
  out.score = median(scores);
  const auto [low, high] = std::minmax_element(copies.begin(), copies.end());
  out.copy_spread = *high / *low;
  return out;
}

}  // namespace

double time_us(const Call& call) { return time_repeated(call, 1); }

std::vector<double> time_runs(const Call& call, const Budget& budget) {
  for (int64_t i = 0; i < budget.warmup; ++i) call();
  std::vector<double> us;
  const Clock::time_point start = Clock::now();
  while (!enough(budget, static_cast<int64_t>(us.size()), static_cast<int64_t>(us.size()), start))
    us.push_back(time_us(call));
  return us;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
  const std::size_t at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

Paired time_paired(const Call& call, CopySpeed& copy, int64_t bytes, const Budget& budget) {
  double last_us = 0;
  for (int64_t i = 0; i < std::max<int64_t>(budget.warmup, 1); ++i) last_us = time_us(call);
  const CopyMethod method = copy.fastest(bytes);
  const Call copy_call = [&] { copy.run(method, bytes); };
  const int64_t calls = repeats_for(last_us), copies = repeats_for(time_us(copy_call));
  std::vector<Round> rounds;
  int64_t steady = 0;
  double before = time_repeated(copy_call, copies);
  const Clock::time_point start = Clock::now();
  while (!enough(budget, static_cast<int64_t>(rounds.size()), steady, start)) {
    Round round;
    round.before = before;
    round.call = time_repeated(call, calls);
    round.after = before = time_repeated(copy_call, copies);
    rounds.push_back(round);
    steady += round.steady();
  }
  Paired out = summary(rounds);
  out.method = method;
  return out;
}

}  // namespace fusec::tool
