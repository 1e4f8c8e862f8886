// SPDX-License-Identifier: Apache-2.0
// The tuner: times every way that the libraries have for the convolutions and matrix products of one set of shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/resolve.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {

// Whether the library steps of this kind are tuned.
bool is_tuned(const ir::LibraryStep& step);
// Whether runs one after another find all constants in the last-level cache: these and twice the operands of the
// largest step fit in it.
bool keeps_constants_cached(const ir::Program& program, const ResolvedProgram& resolved, const Tuning& tuning);

// One of `count` parts of the work, which several processes share. Each call belongs to one part, the same everywhere.
struct Shard {
  uint64_t index = 0, count = 1;
  bool has(const std::string& call) const;
};

struct TuneLimits {
  double seconds = 0;  // no algorithm is begun after so many; 0: no limit
  bool quick = false;  // fewer runs of each
  bool again = false;  // also what is known
  Shard shard = {};
};

// Equal calls of a plan, measured once.
struct TunedLayer {
  std::string call;    // runtime/tuning/tuning.h
  std::string origin;  // of the first step
  int64_t count = 1;   // steps
  std::vector<TuningRow> rows;
};

struct TuneReport {
  std::vector<TunedLayer> layers;                // in order of execution
  int64_t measured = 0, reused = 0, failed = 0;  // algorithms: timed here, known before, tried here in vain
  int64_t elsewhere = 0;                         // layers that are left to other shards
  double seconds = 0;
  bool finished = true;  // false: the time was up
};

// Totals of the layers that have both times, in microseconds of one run: by the libraries' own algorithms, and by the
// fastest.
struct TuneTotals {
  double default_us = 0, best_us = 0;
};
TuneTotals totals(const TuneReport& report);
// The median spread of the libraries' own times: large on a machine that does other work.
double typical_spread(const TuneReport& report);

// done of all layers, and the one at hand
using TuneProgress = std::function<void(std::size_t done, std::size_t all, const TunedLayer& layer)>;

// Measures what `tuning` has no rows of, the layers of most work first, and gives it each row as soon as it is known. A
// algorithm that fails is a row; an error is one of the device or of memory.
Result<TuneReport> tune(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning,
                        const TuneLimits& limits, const TuneProgress& progress = {});

// Calls beside those of the program (runtime/plan/alternative_calls.h).
struct Alternatives {
  bool channels_first = false, half = false;
  bool repeated = false;  // also these calls and those of the program one after another, by the algorithms that may win
};
// As tune(), of these.
Result<TuneReport> tune_alternatives(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads,
                                     Tuning& tuning, const TuneLimits& limits, const Alternatives& which);

// tune() within the limits of the Options of Strategy::profile; an error is a warning,
// unless it is `cancelled`.
Status profile(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads, Tuning& tuning);

}  // namespace fusec::runtime
