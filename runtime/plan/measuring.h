// SPDX-License-Identifier: Apache-2.0
// The measuring step of both tuners: times every algorithm that there is for the same work, and keeps a row of each. It
// is an algorithm of a library, or a candidate of a generated kernel; each has a number.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/tuner.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {

class Algorithms {
 public:
  virtual ~Algorithms() = default;
  virtual std::size_t count() const = 0;
  // Fills library and algorithm.
  virtual void name(std::size_t number, TuningRow& row) const = 0;
  // What is taken untimed is the first of these that works.
  virtual bool may_be_default(std::size_t number) const = 0;
  // Microseconds, as TimedCall has them; may fill the row's workspace. An error is one of this algorithm unless `alive`
  // says otherwise.
  virtual Result<std::vector<double>> time(std::size_t number, bool is_default, bool quick, double best_us,
                                           TuningRow& row) = 0;
  virtual Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(std::size_t by_default,
                                                                                   std::size_t other, bool quick) = 0;
  virtual Status alive() const = 0;
  // Which of those that work may not be taken, with the reason.
  virtual Result<std::vector<std::pair<std::size_t, std::string>>> refuse(const std::vector<std::size_t>& working);
};

// Work of one kind: what is known of it, how much it is beside the others, and what lists the algorithms.
struct MeasuredWork {
  TunedLayer layer;
  double amount = 0;
  std::function<Result<std::unique_ptr<Algorithms>>()> list;
};

// Measures what lacks rows, the largest first, and gives `tuning` each row as soon as it is known.
Result<TuneReport> measure_all(std::vector<MeasuredWork> works, Tuning& tuning, const TuneLimits& limits,
                               const TuneProgress& progress);

}  // namespace fusec::runtime
