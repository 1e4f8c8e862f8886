// SPDX-License-Identifier: Apache-2.0
// Measures the algorithms that the libraries offer for each distinct convolution and matmul of a resolved program, for
// `fusec tune` and, with Strategy::profile, during bind.

#include "runtime/plan/tuner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ir/support/hash.h"
#include "runtime/plan/alternative_calls.h"
#include "runtime/plan/bind.h"
#include "runtime/plan/measuring.h"
#include "runtime/tuning/timed_call.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {
namespace {

struct LibraryAlgorithm {
  std::shared_ptr<Library> library;
  Algorithm algorithm;
};

// Algorithms whose time alone is within so much of the fastest one are timed one after another, too.
constexpr double kMayWin = 1.5;

using MayWin = std::function<bool(const Library& library, const Algorithm& algorithm)>;

// By rows of the call alone.
MayWin may_win_by(std::vector<TuningRow> rows) {
  const TuningRow* const best = best_row(rows);
  const double limit = best == nullptr ? 0 : kMayWin * best->median_us;
  return [rows = std::move(rows), limit](const Library& library, const Algorithm& algorithm) {
    return std::any_of(rows.begin(), rows.end(), [&](const TuningRow& row) {
      return row.library == library.name() && row.algorithm == algorithm.id && !row.failed() &&
             (row.is_default || row.median_us <= limit);
    });
  };
}

// The algorithms for a call, all or those that may win. Fresh library instances are used where a library has them, so
// that weights packed for tuning are freed with the algorithms.
std::vector<LibraryAlgorithm> collect_algorithms(const LoadedProgram& loaded, const LibraryCall& call,
                                                 const MayWin& may_win) {
  std::vector<LibraryAlgorithm> out;
  for (const std::shared_ptr<Library>& library : loaded.libraries) {
    if (library->get_unsupported_reason(*call.step)) continue;
    std::shared_ptr<Library> fresh = library->clone(kMeasuredWorkspace);
    if (!fresh) fresh = library;
    for (Algorithm& algorithm : fresh->algorithms(call))
      if (!may_win || may_win(*fresh, algorithm)) out.push_back({fresh, std::move(algorithm)});
  }
  return out;
}

// The algorithms for one call, which is timed from `begin` until this ends.
class LibraryAlgorithms final : public Algorithms {
 public:
  LibraryAlgorithms(const LoadedProgram& loaded, const LibraryCall& call, const MayWin& may_win, TimedCall& timed)
      : call_(call), timed_(timed), all_(collect_algorithms(loaded, call, may_win)) {}
  ~LibraryAlgorithms() override { timed_.end(); }

  std::size_t count() const override { return all_.size(); }
  void name(std::size_t number, TuningRow& row) const override {
    row.library = all_[number].library->name(), row.algorithm = all_[number].algorithm.id;
  }
  // The libraries' default algorithm is the first algorithm of the first library that works.
  bool may_be_default(std::size_t number) const override {
    return number == 0 || all_[number - 1].library != all_[number].library;
  }
  Result<std::vector<double>> time(std::size_t number, bool is_default, bool quick, double best_us,
                                   TuningRow& row) override {
    FUSEC_ASSIGN(const std::unique_ptr<LibraryOp> op, bind(number, is_default));
    row.workspace = static_cast<int64_t>(op->limited_bytes());
    return timed_.time(*op, quick, best_us);
  }
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(std::size_t by_default, std::size_t other,
                                                                           bool quick) override {
    FUSEC_ASSIGN(const std::unique_ptr<LibraryOp> first, bind(by_default, true));
    FUSEC_ASSIGN(const std::unique_ptr<LibraryOp> second, bind(other, false));
    return timed_.time_in_turn(*first, *second, quick);
  }
  Status alive() const override { return timed_.alive(); }

 private:
  Result<std::unique_ptr<LibraryOp>> bind(std::size_t number, bool is_default) const {
    LibraryCall call = call_;
    if (!is_default) call.algorithm = all_[number].algorithm.id;
    return all_[number].library->bind(call);
  }

  const LibraryCall& call_;
  TimedCall& timed_;
  const std::vector<LibraryAlgorithm> all_;
};

struct Layers {
  std::vector<MeasuredWork> works;
  std::vector<LibraryCall> calls;  // of each
  std::vector<MayWin> may_win;     // of each; empty: every algorithm is timed
};

void add(LibraryCall call, const std::string& origin, Tuning& tuning, bool again, Layers& layers, MayWin may_win = {}) {
  std::string key = tuning_call(call);
  const auto it = std::find_if(layers.works.begin(), layers.works.end(),
                               [&](const MeasuredWork& w) { return w.layer.call == key; });
  if (it != layers.works.end()) {
    ++it->layer.count;
    return;
  }
  std::vector<TuningRow> rows;
  if (!again) rows = tuning.rows(key);
  layers.works.push_back({{std::move(key), origin, 1, std::move(rows)}, 0, {}});
  layers.calls.push_back(std::move(call));
  layers.may_win.push_back(std::move(may_win));
}

// Calls f(call, origin) for every library step that is tuned.
template <class F>
void for_tuned_calls(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, const Tuning& tuning,
                     const F& f) {
  const bool warm = keeps_constants_cached(loaded.program, resolved, tuning);
  for (const ResolvedStep& step : resolved.steps) {
    const auto* const library_step = std::get_if<ir::LibraryStep>(&step.step->v);
    if (library_step == nullptr || !is_tuned(*library_step)) continue;
    LibraryCall call = library_call(loaded, step, threads);
    call.warm_constants = warm;
    f(std::move(call), step.step->origin);
  }
}

Result<std::unique_ptr<TimedCall>> make_timed_call(const LoadedProgram& loaded, int threads, const Tuning& tuning) {
  FUSEC_ASSIGN(auto stopwatch, loaded.device ? loaded.device->make_stopwatch(tuning.flush_bytes())
                                             : Result<std::unique_ptr<CallStopwatch>>(
                                                   make_host_stopwatch(threads, tuning.flush_bytes())));
  return std::make_unique<TimedCall>(std::move(stopwatch), loaded.device.get());
}

}  // namespace

bool is_tuned(const ir::LibraryStep& step) { return ir::is_product(step.op) || step.op == ir::TensorOp::attention; }

bool keeps_constants_cached(const ir::Program& program, const ResolvedProgram& resolved, const Tuning& tuning) {
  double constants = 0, largest = 0;  // bytes
  for (std::size_t i = 0; i < program.allocs.size(); ++i) {
    if (program.allocs[ir::AllocId(static_cast<uint32_t>(i))].kind == ir::AllocKind::constant)
      constants += static_cast<double>(resolved.alloc_bytes[i]);
  }
  for (const ResolvedStep& step : resolved.steps) {
    double operands = 0;
    for (const ResolvedView& view : step.args) {
      if (program.allocs[view.alloc].kind != ir::AllocKind::constant)
        operands += static_cast<double>(resolved.alloc_bytes[view.alloc.index]);
    }
    largest = std::max(largest, operands);
  }
  return constants + 2 * largest <= static_cast<double>(tuning.cache_bytes());
}

bool Shard::has(const std::string& call) const { return ir::hash64(call) % count == index; }

TuneTotals totals(const TuneReport& report) {
  TuneTotals out;
  for (const TunedLayer& layer : report.layers) {
    const TuningRow *by_default = default_row(layer.rows), *best = best_row(layer.rows);
    if (by_default == nullptr) continue;
    out.default_us += static_cast<double>(layer.count) * by_default->median_us;
    out.best_us += static_cast<double>(layer.count) * best->median_us;
  }
  return out;
}

double typical_spread(const TuneReport& report) {
  std::vector<double> spreads;
  for (const TunedLayer& layer : report.layers) {
    if (const TuningRow* by_default = default_row(layer.rows)) spreads.push_back(by_default->spread);
  }
  return compute_spread(std::move(spreads)).median;
}

namespace {

Result<TuneReport> measure_layers(Layers layers, const LoadedProgram& loaded, int threads, Tuning& tuning,
                                  const TuneLimits& limits, const TuneProgress& progress) {
  std::shared_ptr<void> entered;
  if (loaded.device) {
    FUSEC_ASSIGN(entered, loaded.device->enter());
  }
  const ThreadCount as_at_run(threads);
  const Lease team(loaded.device ? 1 : threads);  // awake, as in a run
  std::unique_ptr<TimedCall> timed;
  for (std::size_t i = 0; i < layers.works.size(); ++i) {
    MeasuredWork& work = layers.works[i];
    const LibraryCall& call = layers.calls[i];
    const MayWin& may_win = layers.may_win[i];
    work.amount = count_work(call) * static_cast<double>(work.layer.count);
    work.list = [&]() -> Result<std::unique_ptr<Algorithms>> {
      if (!timed) {
        FUSEC_ASSIGN(timed, make_timed_call(loaded, threads, tuning));
      }
      auto listed = std::make_unique<LibraryAlgorithms>(loaded, call, may_win, *timed);
      FUSEC_TRY(timed->begin(call));
      return std::unique_ptr<Algorithms>(std::move(listed));
    };
  }
  FUSEC_ASSIGN(TuneReport report, measure_all(std::move(layers.works), tuning, limits, progress));
  for (TunedLayer& layer : report.layers)  // what this Engine may take
    std::erase_if(layer.rows, [&](const TuningRow& row) { return row.workspace > tuning.workspace_limit(); });
  return report;
}

}  // namespace

Result<TuneReport> tune(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning,
                        const TuneLimits& limits, const TuneProgress& progress) {
  Layers layers;
  for_tuned_calls(loaded, resolved, threads, tuning, [&](LibraryCall call, const std::string& origin) {
    add(std::move(call), origin, tuning, limits.again, layers);
  });
  return measure_layers(std::move(layers), loaded, threads, tuning, limits, progress);
}

Result<TuneReport> tune_alternatives(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads,
                                     Tuning& tuning, const TuneLimits& limits, const Alternatives& which) {
  std::vector<std::pair<LibraryCall, std::string>> own, others;  // with the origin of each
  for_tuned_calls(loaded, resolved, threads, tuning, [&](const LibraryCall& call, const std::string& origin) {
    own.emplace_back(call, origin);
    for (const std::optional<LibraryCall>& other :
         {which.channels_first ? with_channels_first(call) : std::nullopt, which.half ? in_half(call) : std::nullopt})
      if (other) others.emplace_back(*other, origin);
  });
  Layers alone;
  for (const auto& [call, origin] : others) add(call, origin, tuning, limits.again, alone);
  FUSEC_ASSIGN(TuneReport report, measure_layers(std::move(alone), loaded, threads, tuning, limits, {}));
  if (!which.repeated) return report;
  Layers repeated;
  for (const auto* calls : {&own, &others}) {
    for (auto [call, origin] : *calls) {
      MayWin may_win = may_win_by(tuning.rows(tuning_call(call)));
      call.repeated = true;
      add(std::move(call), origin, tuning, limits.again, repeated, std::move(may_win));
    }
  }
  FUSEC_ASSIGN(const TuneReport more, measure_layers(std::move(repeated), loaded, threads, tuning, limits, {}));
  report.measured += more.measured, report.reused += more.reused, report.failed += more.failed;
  report.layers.insert(report.layers.end(), more.layers.begin(), more.layers.end());
  return report;
}

Status profile(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning) {
  const Options& options = tuning.options();
  const Result<TuneReport> report =
      tune(loaded, resolved, threads, tuning, {options.tuning_seconds, options.quick_tuning});
  if (report.status().code() == StatusCode::cancelled) return report.status();
  if (!report.ok()) make_warn(options)("measuring stopped: " + report.status().str());
  return {};
}

}  // namespace fusec::runtime
