// SPDX-License-Identifier: Apache-2.0
// Measures the algorithms that the libraries offer for each distinct convolution and matmul of a resolved program, for
// `fusec tune` and, with Strategy::profile, during bind. Failures are stored like times, so that an algorithm that
// fails is not tried again.

#include "runtime/plan/tuner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "ir/support/check.h"
#include "runtime/plan/bind.h"
#include "runtime/tuning/timed_call.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct TuneCandidate {
  std::shared_ptr<Library> library;
  Algorithm algorithm;
  bool is_default = false;  // bound if none is requested
};

double tuning_seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// All algorithms for a call. Fresh library instances are used where a library has them, so that weights packed for
// tuning are freed with the candidates.
std::vector<TuneCandidate> collect_candidates(const LoadedProgram& loaded, const LibraryCall& call) {
  std::vector<TuneCandidate> out;
  for (const std::shared_ptr<Library>& library : loaded.libraries) {
    if (library->get_unsupported_reason(*call.step)) continue;
    std::shared_ptr<Library> fresh = library->clone();
    if (!fresh) fresh = library;
    for (Algorithm& algorithm : fresh->algorithms(call)) out.push_back({fresh, std::move(algorithm)});
  }
  return out;
}

// Tunes one layer.
class LayerTuner {
 public:
  LayerTuner(const LoadedProgram& loaded, const LibraryCall& call, const TuneLimits& limits, Tuning& tuning,
             TimedCall& timed, TuneReport& report)
      : loaded_(loaded), call_(call), limits_(limits), tuning_(tuning), timed_(timed), report_(report) {}

  // False: the time was up.
  Result<bool> run(const Clock::time_point start, TunedLayer& layer) {
    std::vector<TuneCandidate> all = collect_candidates(loaded_, call_);
    FUSEC_TRY(timed_.begin(call_));
    const TuneCandidate* by_default = nullptr;
    bool finished = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      TuneCandidate& candidate = all[i];
      // The libraries' default algorithm is the first algorithm of the first library that works.
      candidate.is_default = by_default == nullptr && (i == 0 || all[i - 1].library != candidate.library);
      if (const TuningRow* known = find_row(layer, candidate)) {
        if (candidate.is_default && known->is_default && !known->failed()) by_default = &candidate;
        continue;
      }
      if (limits_.seconds > 0 && tuning_seconds_since(start) >= limits_.seconds) {
        finished = false;
        break;
      }
      FUSEC_ASSIGN(const TuningRow row, measure(layer, candidate, all.size()));
      if (candidate.is_default && !row.failed()) by_default = &candidate;
      store(layer, {row});
      (row.failed() ? report_.failed : report_.measured) += 1;
      is_new_ = true;
    }
    if (by_default != nullptr && is_new_) FUSEC_TRY(settle(layer, *by_default, all));
    timed_.end();
    return finished;
  }

 private:
  static const TuningRow* find_row(const TunedLayer& layer, const TuneCandidate& candidate) {
    const auto it = std::find_if(layer.rows.begin(), layer.rows.end(), [&](const TuningRow& row) {
      return row.library == candidate.library->name() && row.algorithm == candidate.algorithm.id;
    });
    return it == layer.rows.end() ? nullptr : &*it;
  }

  void store(TunedLayer& layer, const std::vector<TuningRow>& rows) {
    tuning_.add(rows);
    for (const TuningRow& row : rows) {
      std::erase_if(layer.rows,
                    [&](const TuningRow& r) { return r.library == row.library && r.algorithm == row.algorithm; });
      layer.rows.push_back(row);
    }
  }

  Result<std::unique_ptr<LibraryOp>> bind(const TuneCandidate& candidate) const {
    LibraryCall call = call_;
    if (!candidate.is_default) call.algorithm = candidate.algorithm.id;
    return candidate.library->bind(call);
  }

  static void fill(TuningRow& row, const std::vector<double>& us) {
    const Spread spread = compute_spread(us);
    row.median_us = spread.median;
    row.spread = spread.relative;
    row.runs = static_cast<int64_t>(us.size());
    row.time = seconds_now();
  }

  // Returns a row with times, or with the reason of the failure. An error means that the device itself failed.
  Result<TuningRow> measure(const TunedLayer& layer, const TuneCandidate& candidate, std::size_t listed) {
    TuningRow row;
    row.scope = tuning_.scope(), row.call = layer.call;
    row.library = candidate.library->name(), row.algorithm = candidate.algorithm.id;
    row.is_default = candidate.is_default;
    row.listed = static_cast<int64_t>(listed);
    row.time = seconds_now();
    auto op = bind(candidate);
    if (op.ok()) row.workspace = static_cast<int64_t>((*op)->workspace_bytes());
    const TuningRow* const best = best_row(layer.rows);
    Result<std::vector<double>> us = op.ok() ? timed_.time(**op, limits_.quick, best != nullptr ? best->median_us : 0)
                                             : Result<std::vector<double>>(op.status());
    if (us.ok()) {
      fill(row, *us);
      return row;
    }
    row.failure = us.status().message();
    row.is_default = false;
    // After the GPU is lost, every later call fails. The row is stored first, so that the next tuning skips this
    // algorithm.
    if (const Status alive = timed_.alive(); !alive.ok()) {
      tuning_.add({row});
      return alive;
    }
    return row;
  }

  // Times the fastest algorithm and the libraries' default algorithm again, alternating. The lowest of many noisy times
  // is biased, and the machine's speed may have changed between the two measurements.
  Status settle(TunedLayer& layer, const TuneCandidate& by_default, const std::vector<TuneCandidate>& all) {
    const TuningRow* best = best_row(layer.rows);
    if (best == nullptr || best->is_default) return {};
    const auto other =
        std::find_if(all.begin(), all.end(), [&](const TuneCandidate& c) { return find_row(layer, c) == best; });
    const TuningRow* const base = find_row(layer, by_default);
    if (other == all.end() || base == nullptr) return {};
    auto first = bind(by_default), second = bind(*other);
    if (!first.ok() || !second.ok()) return {};
    Result<std::pair<std::vector<double>, std::vector<double>>> us =
        timed_.time_in_turn(**first, **second, limits_.quick);
    if (!us.ok()) return timed_.alive();
    TuningRow of_own = *base, of_best = *best;
    fill(of_own, us->first);
    fill(of_best, us->second);
    store(layer, {of_own, of_best});
    return {};
  }

  const LoadedProgram& loaded_;
  const LibraryCall& call_;
  const TuneLimits& limits_;
  Tuning& tuning_;
  TimedCall& timed_;
  TuneReport& report_;
  bool is_new_ = false;
};

struct Layers {
  std::vector<TunedLayer> layers;
  std::vector<LibraryCall> calls;  // of each
};

Layers collect_layers(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning,
                      bool again) {
  Layers out;
  for (const ResolvedStep& step : resolved.steps) {
    const auto* const library_step = std::get_if<ir::LibraryStep>(&step.step->v);
    if (library_step == nullptr || !is_tuned(*library_step)) continue;
    LibraryCall call = library_call(loaded, step, threads);
    std::string key = tuning_call(call);
    const auto it =
        std::find_if(out.layers.begin(), out.layers.end(), [&](const TunedLayer& l) { return l.call == key; });
    if (it != out.layers.end()) {
      ++it->count;
      continue;
    }
    std::vector<TuningRow> rows;
    if (!again) rows = tuning.rows(key);
    out.layers.push_back({std::move(key), step.step->origin, 1, std::move(rows)});
    out.calls.push_back(std::move(call));
  }
  return out;
}

Result<std::unique_ptr<CallStopwatch>> stopwatch_for(const LoadedProgram& loaded, int threads, const Tuning& tuning) {
  if (loaded.device) return loaded.device->make_stopwatch(tuning.flush_bytes());
  return make_host_stopwatch(threads, tuning.flush_bytes());
}

// The indices of the layers that lack measurements, by decreasing work.
std::vector<std::size_t> order_of_tuning(const Layers& layers) {
  std::vector<std::size_t> order;
  std::vector<double> work;
  for (std::size_t i = 0; i < layers.layers.size(); ++i) {
    work.push_back(count_work(layers.calls[i]) * static_cast<double>(layers.layers[i].count));
    if (!is_complete(layers.layers[i].rows)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  return order;
}

}  // namespace

bool is_tuned(const ir::LibraryStep& step) { return ir::is_product(step.op); }

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

Result<TuneReport> tune(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning,
                        const TuneLimits& limits, const TuneProgress& progress) {
  const Clock::time_point start = Clock::now();
  std::shared_ptr<void> entered;
  if (loaded.device) {
    FUSEC_ASSIGN(entered, loaded.device->enter());
  }
  const ThreadCount as_at_run(threads);
  const Lease team(loaded.device ? 1 : threads);  // awake, as in a run
  TuneReport report;
  Layers layers = collect_layers(loaded, resolved, threads, tuning, limits.again);
  for (const TunedLayer& layer : layers.layers) report.reused += static_cast<int64_t>(layer.rows.size());
  const std::vector<std::size_t> order = order_of_tuning(layers);
  std::unique_ptr<TimedCall> timed;
  for (std::size_t done = 0; done < order.size() && report.finished; ++done) {
    if (!timed) {
      FUSEC_ASSIGN(auto stopwatch, stopwatch_for(loaded, threads, tuning));
      timed = std::make_unique<TimedCall>(std::move(stopwatch), loaded.device.get());
    }
    TunedLayer& layer = layers.layers[order[done]];
    if (progress) progress(done, order.size(), layer);
    LayerTuner tuner(loaded, layers.calls[order[done]], limits, tuning, *timed, report);
    Result<bool> finished = tuner.run(start, layer);
    if (!finished.ok()) return finished.status().with_note("while timing step '" + layer.origin + "'");
    report.finished = *finished;
  }
  report.layers = std::move(layers.layers);
  report.seconds = tuning_seconds_since(start);
  return report;
}

void profile(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning) {
  const Options& options = tuning.options();
  const Result<TuneReport> report =
      tune(loaded, resolved, threads, tuning, {options.tuning_seconds, options.quick_tuning});
  if (!report.ok()) make_warn(options)("measuring stopped: " + report.status().str());
}

}  // namespace fusec::runtime
