// SPDX-License-Identifier: Apache-2.0
// Measures the candidates of generated kernels, for `fusec tune` and, with Strategy::profile, during a compile. Rows
// look like those of library calls: the candidate that select takes by itself stands for the default algorithm.

#include "runtime/engine/kernel_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ir/support/check.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kOwn = "fusec";  // in the place of a library's name

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Tunes one variant.
class VariantTuner {
 public:
  VariantTuner(const KernelWork& work, CandidateTimer& timer, const TuneLimits& limits, Tuning& tuning,
               TuneReport& report, TunedLayer& layer)
      : work_(work),
        timer_(timer),
        limits_(limits),
        tuning_(tuning),
        report_(report),
        layer_(layer),
        variant_(work.program.slots[0].variants[0]) {}

  // False: the time was up.
  Result<bool> run(Clock::time_point start) {
    FUSEC_TRY(timer_.begin(work_.program));
    for (int i = 0; i < count(); ++i) {
      if (find_row(i) != nullptr) continue;
      if (limits_.seconds > 0 && seconds_since(start) >= limits_.seconds) return false;
      FUSEC_ASSIGN(const TuningRow row, measure(i));
      store({row});
      (row.failed() ? report_.failed : report_.measured) += 1;
    }
    FUSEC_TRY(refuse_spilling());
    FUSEC_TRY(settle());
    return true;
  }

 private:
  int count() const { return static_cast<int>(variant_.candidates.size()); }

  std::string name(int candidate) const {
    const ir::Candidate& c = variant_.candidates[static_cast<std::size_t>(candidate)];
    return compiler::candidate_key(work_.program, c) + " " + c.why;
  }

  const TuningRow* find_row(int candidate) const {
    const std::string wanted = name(candidate);
    const auto it = std::find_if(layer_.rows.begin(), layer_.rows.end(),
                                 [&](const TuningRow& row) { return row.algorithm == wanted; });
    return it == layer_.rows.end() ? nullptr : &*it;
  }

  void store(const std::vector<TuningRow>& rows) {
    tuning_.add(rows);
    for (const TuningRow& row : rows) {
      std::erase_if(layer_.rows, [&](const TuningRow& r) { return r.algorithm == row.algorithm; });
      layer_.rows.push_back(row);
    }
  }

  static void fill(TuningRow& row, const std::vector<double>& us) {
    const Spread spread = compute_spread(us);
    row.median_us = spread.median;
    row.spread = spread.relative;
    row.runs = static_cast<int64_t>(us.size());
    row.time =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  // A row with times, or with the reason of the failure. An error means that nothing more can be timed.
  Result<TuningRow> measure(int candidate) {
    TuningRow row;
    row.scope = tuning_.scope(), row.call = layer_.call;
    row.library = kOwn, row.algorithm = name(candidate);
    row.is_default = candidate == variant_.picked;
    row.listed = count();
    const TuningRow* const best = best_row(layer_.rows);
    const Result<std::vector<double>> us = timer_.time(candidate, limits_.quick, best == nullptr ? 0 : best->median_us);
    fill(row, us.ok() ? *us : std::vector<double>());
    if (us.ok()) return row;
    row.failure = us.status().message();
    row.is_default = false;
    if (const Status alive = timer_.alive(); !alive.ok()) {
      tuning_.add({row});
      return alive;
    }
    return row;
  }

  // A candidate whose registers spill is a failure where another one's do not: its time depends on what the caches
  // hold.
  Status refuse_spilling() {
    std::vector<std::pair<int, int64_t>> spilling;
    bool is_dense = false;
    for (int i = 0; i < count(); ++i) {
      if (find_row(i)->failed()) continue;
      FUSEC_ASSIGN(const int64_t bytes, timer_.local_bytes(i));
      if (bytes > 0) spilling.emplace_back(i, bytes);
      is_dense |= bytes == 0;
    }
    for (const auto& [candidate, bytes] : spilling) {
      if (!is_dense) continue;
      TuningRow row = *find_row(candidate);
      row.failure = fmt::format("a thread needs {} bytes beside its registers, and another candidate none", bytes);
      row.median_us = row.spread = 0;
      row.runs = 0;
      row.is_default = false;
      store({row});
      ++report_.failed, --report_.measured;
    }
    return {};
  }

  // Times the fastest candidate and the first choice in turn, as tune() of calls does.
  Status settle() {
    const TuningRow *const best = best_row(layer_.rows), *const own = default_row(layer_.rows);
    if (best == nullptr || own == nullptr || best == own) return {};
    int fastest = 0;
    while (fastest < count() && find_row(fastest) != best) ++fastest;
    if (fastest == count()) return {};  // of another version, which had other candidates
    const auto us = timer_.time_in_turn(variant_.picked, fastest, limits_.quick);
    if (!us.ok()) return timer_.alive();
    TuningRow of_own = *own, of_best = *best;
    fill(of_own, us->first);
    fill(of_best, us->second);
    store({of_own, of_best});
    return {};
  }

  const KernelWork& work_;
  CandidateTimer& timer_;
  const TuneLimits& limits_;
  Tuning& tuning_;
  TuneReport& report_;
  TunedLayer& layer_;
  const ir::Variant& variant_;
};

// The works that lack measurements, those of most time first.
std::vector<std::size_t> order_of_tuning(const std::vector<KernelWork>& works, const TuneReport& report) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < works.size(); ++i)
    if (!is_complete(report.layers[i].rows)) order.push_back(i);
  const auto us = [&](std::size_t i) {
    return works[i].program.slots[0].variants[0].candidates[0].predicted_us * static_cast<double>(works[i].count);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return us(a) > us(b); });
  return order;
}

}  // namespace

Result<TuneReport> tune_kernels(const ir::Program& program, const Bindings& bindings, CandidateTimer& timer,
                                Tuning& tuning, const TuneLimits& limits, const TuneProgress& progress) {
  const Clock::time_point start = Clock::now();
  TuneReport report;
  const std::vector<KernelWork> works = list_kernel_work(program, bindings);
  for (const KernelWork& work : works) {
    std::vector<TuningRow> rows;
    if (!limits.again) rows = tuning.rows(work.call());
    report.reused += static_cast<int64_t>(rows.size());
    report.layers.push_back({work.call(), work.origin, work.count, std::move(rows)});
  }
  const std::vector<std::size_t> order = order_of_tuning(works, report);
  for (std::size_t done = 0; done < order.size() && report.finished; ++done) {
    TunedLayer& layer = report.layers[order[done]];
    if (progress) progress(done, order.size(), layer);
    Result<bool> finished = VariantTuner(works[order[done]], timer, limits, tuning, report, layer).run(start);
    if (!finished.ok()) return finished.status().with_note("while timing step '" + layer.origin + "'");
    report.finished = *finished;
  }
  report.seconds = seconds_since(start);
  return report;
}

void profile_kernels(ir::Program& program, const Options& options, const Machine& machine) {
  if (!program.symbols.empty()) return;
  Tuning tuning(options, machine.target, [&] { return kernel_scope(options, machine); });
  const auto timer = make_candidate_timer(options, machine, tuning.flush_bytes());
  const Result<TuneReport> report =
      tune_kernels(program, {}, *timer, tuning, {options.tuning_seconds, options.quick_tuning});
  if (!report.ok()) make_warn(options)("measuring stopped: " + report.status().str());
  (void)compiler::select(program, machine.target, to_tuning_data(tuning.all_rows()));
}

}  // namespace fusec::runtime
