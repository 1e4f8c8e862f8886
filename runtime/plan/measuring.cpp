// SPDX-License-Identifier: Apache-2.0
// Measures algorithms one by one, then the fastest ones in turn with the default one. Failures are stored like times,
// so that what fails is not tried again.

#include "runtime/plan/measuring.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "ir/support/stage_context.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxSettled = 8;  // algorithms of one layer that are timed in turn with the default one

double seconds_after(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void fill(TuningRow& row, const std::vector<double>& us) {
  const Spread spread = compute_spread(us);
  row.median_us = spread.median;
  row.spread = spread.relative;
  row.runs = static_cast<int64_t>(us.size());
  row.time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Measures one layer.
class LayerMeasuring {
 public:
  LayerMeasuring(Algorithms& listed, TunedLayer& layer, TuneReport& report, Tuning& tuning, const TuneLimits& limits)
      : algorithms_(listed), layer_(layer), report_(report), tuning_(tuning), limits_(limits) {
    for (std::size_t i = 0; i < algorithms_.count(); ++i) names_.insert(named(i));
  }

  // False: the time was up. `check` is asked before each algorithm.
  Result<bool> run(Clock::time_point start, const std::function<Status()>& check) {
    bool finished = true;
    for (std::size_t i = 0; i < algorithms_.count() && finished; ++i) {
      if (const TuningRow* known = find_row(i)) {
        if (!default_ && known->is_default && !known->failed()) default_ = i;
        continue;
      }
      FUSEC_TRY(check());
      finished = limits_.seconds <= 0 || seconds_after(start) < limits_.seconds;
      if (finished) FUSEC_TRY(add_row(i));
    }
    if (finished) FUSEC_TRY(refuse());
    if (is_new_) FUSEC_TRY(settle());
    if (finished && !is_complete(layer_.rows)) correct_listed();
    return finished;
  }

 private:
  using Name = std::pair<std::string, std::string>;  // library and algorithm

  Name named(std::size_t number) const {
    TuningRow row;
    algorithms_.name(number, row);
    return {row.library, row.algorithm};
  }

  // A library may list an algorithm more than once; there is one row of it.
  int64_t listed() const { return static_cast<int64_t>(names_.size()); }

  TuningRow new_row(std::size_t number) const {
    TuningRow row;
    row.scope = tuning_.scope(), row.call = layer_.call;
    algorithms_.name(number, row);
    row.listed = listed();
    return row;
  }

  const TuningRow* find_row(std::size_t number) const {
    const Name wanted = named(number);
    const auto it = std::find_if(layer_.rows.begin(), layer_.rows.end(), [&](const TuningRow& row) {
      return row.library == wanted.first && row.algorithm == wanted.second;
    });
    return it == layer_.rows.end() ? nullptr : &*it;
  }

  // Everything has a row, but some say that more was listed: an earlier version counted what was listed twice, or
  // another version of the library listed more.
  void correct_listed() {
    std::vector<TuningRow> rows;
    for (const TuningRow& row : layer_.rows)
      if (row.listed > listed()) rows.push_back(row);
    for (TuningRow& row : rows) row.listed = listed();
    store(rows);
  }

  void store(const std::vector<TuningRow>& rows) {
    tuning_.add(rows);
    for (const TuningRow& row : rows) {
      std::erase_if(layer_.rows,
                    [&](const TuningRow& r) { return r.library == row.library && r.algorithm == row.algorithm; });
      layer_.rows.push_back(row);
    }
  }

  // A row with times, or with the reason of the failure. An error means that nothing more can be timed.
  Status add_row(std::size_t number) {
    TuningRow row = new_row(number);
    row.is_default = !default_ && algorithms_.may_be_default(number);
    const TuningRow* const best = best_row(layer_.rows);
    const Result<std::vector<double>> us =
        algorithms_.time(number, row.is_default, limits_.quick, best == nullptr ? 0 : best->median_us, row);
    fill(row, us.ok() ? *us : std::vector<double>());
    if (!us.ok()) {
      row.failure = us.status().message();
      row.is_default = false;
      // After the GPU is lost, every later call fails. The row is stored first, so that the next tuning skips it.
      if (const Status alive = algorithms_.alive(); !alive.ok()) {
        tuning_.add({row});
        return alive;
      }
    }
    if (row.is_default) default_ = number;
    store({row});
    (row.failed() ? report_.failed : report_.measured) += 1;
    is_new_ = true;
    return {};
  }

  Status refuse() {
    std::vector<std::size_t> working;
    for (std::size_t i = 0; i < algorithms_.count(); ++i)
      if (const TuningRow* row = find_row(i); row != nullptr && !row->failed()) working.push_back(i);
    FUSEC_ASSIGN(const auto refused, algorithms_.refuse(working));
    for (const auto& [number, why] : refused) {
      TuningRow row = *find_row(number);
      row.failure = why;
      row.median_us = row.spread = 0;
      row.runs = 0;
      row.is_default = false;
      store({row});
      if (default_ == number) default_.reset();
      ++report_.failed, --report_.measured;
    }
    return {};
  }

  // Times the fastest and the default algorithm again, in turn. The lowest of many noisy times is too low, and the
  // machine's speed may have changed between the two measurements. Where that leaves another one as the fastest, it is
  // timed so, too.
  Status settle() {
    std::set<std::size_t> settled;
    while (settled.size() < kMaxSettled) {
      const TuningRow* const best = best_row(layer_.rows);
      if (best == nullptr || best->is_default || !default_) return {};
      std::size_t other = 0;
      while (other < algorithms_.count() && find_row(other) != best) ++other;
      if (other == algorithms_.count()) return {};  // of another version, which had other algorithms
      if (!settled.insert(other).second) return {};
      const auto us = algorithms_.time_in_turn(*default_, other, limits_.quick);
      if (!us.ok()) return algorithms_.alive();
      TuningRow of_own = *find_row(*default_), of_best = *best;
      fill(of_own, us->first);
      fill(of_best, us->second);
      store({of_own, of_best});
    }
    return {};
  }

  Algorithms& algorithms_;
  TunedLayer& layer_;
  TuneReport& report_;
  Tuning& tuning_;
  const TuneLimits& limits_;
  std::set<Name> names_;
  std::optional<std::size_t> default_;
  bool is_new_ = false;
};

// Those of the shard that lack measurements, by decreasing amount. elsewhere: grows by those of other shards.
std::vector<std::size_t> order_of_measuring(const std::vector<MeasuredWork>& works, const Shard& shard,
                                            int64_t& elsewhere) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (is_complete(works[i].layer.rows)) continue;
    if (shard.has(works[i].layer.call))
      order.push_back(i);
    else
      ++elsewhere;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return works[a].amount > works[b].amount; });
  return order;
}

}  // namespace

Result<std::vector<std::pair<std::size_t, std::string>>> Algorithms::refuse(const std::vector<std::size_t>&) {
  return std::vector<std::pair<std::size_t, std::string>>();
}

Result<TuneReport> measure_all(std::vector<MeasuredWork> works, Tuning& tuning, const TuneLimits& limits,
                               const TuneProgress& progress) {
  const Clock::time_point start = Clock::now();
  TuneReport report;
  for (const MeasuredWork& work : works) {
    report.reused += std::count_if(work.layer.rows.begin(), work.layer.rows.end(),
                                   [](const TuningRow& row) { return row.library != kWholeModel; });
  }
  const std::vector<std::size_t> order = order_of_measuring(works, limits.shard, report.elsewhere);
  const ir::Deadline told = ir::Deadline::progress_alone(tuning.options());
  for (std::size_t done = 0; done < order.size() && report.finished; ++done) {
    const auto check = [&] {
      return told.check("tune", static_cast<double>(done) / static_cast<double>(order.size()));
    };
    MeasuredWork& work = works[order[done]];
    if (progress) progress(done, order.size(), work.layer);
    const std::string where = "while timing step '" + work.layer.origin + "'";
    const Result<std::unique_ptr<Algorithms>> listed = work.list();
    if (!listed.ok()) return listed.status().with_note(where);
    const Result<bool> finished = LayerMeasuring(**listed, work.layer, report, tuning, limits).run(start, check);
    if (!finished.ok()) return finished.status().with_note(where);
    report.finished = *finished;
  }
  for (MeasuredWork& work : works) report.layers.push_back(std::move(work.layer));
  report.seconds = seconds_after(start);
  return report;
}

}  // namespace fusec::runtime
