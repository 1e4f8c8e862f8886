// SPDX-License-Identifier: Apache-2.0
// The tuning database: how long a library takes for a call in each of its ways, measured on this machine. Data only:
// numbers and names, which every reader checks. The one place that knows SQLite.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "runtime/cache/artifact.h"

namespace fusec::runtime {

// One algorithm of one call. Failures are rows too: they are not tried again.
struct TuningRow {
  std::string scope, call;         // runtime/tuning/tuning.h
  std::string library, algorithm;  // Library::name(), Algorithm::id
  bool is_default = false;         // what the libraries take by themselves
  int64_t listed = 0;              // algorithms that the call had when this was measured
  double median_us = 0;            // 0 where it failed
  double spread = 0;               // quartile distance / median
  int64_t runs = 0;
  int64_t workspace = 0;  // bytes
  std::string failure;    // why it failed; empty: it did not
  int64_t time = 0;       // seconds since 1970
  bool failed() const { return !failure.empty(); }
  bool operator==(const TuningRow&) const = default;
};

// Whether the numbers and texts can be such of a measurement.
bool is_sound(const TuningRow& row);

// One measured figure of a device, as runtime/device/machine_model.h names both.
struct FigureRow {
  std::string device, name;
  double value = 0;
  int64_t time = 0;  // seconds since 1970
  bool operator==(const FigureRow&) const = default;
};
bool is_sound(const FigureRow& row);

// Options::strategy, or heuristic in batch-invariant mode: measured times belong to one batch.
inline Strategy strategy_of(const Options& options) {
  return options.batch_invariant ? Strategy::heuristic : options.strategy;
}

// Options::tuning_db, else tuning.v1.sqlite in the cache folder; empty: neither is known, or Options::use_cache is
// false.
std::string tuning_path(const Options& options);

// tuning.v1.sqlite in shared_cache_root; empty: there is none. It is read for what the database above lacks.
std::string shared_tuning_path(const Options& options);

// One open file; not thread-safe, and not for use across fork(). Every fault is a Status of code `cache`; so is a file,
// or a journal beside it, that is a link, or that others than the user and root could have written or put there.
class TuningDatabase {
 public:
  ~TuningDatabase();
  TuningDatabase(const TuningDatabase&) = delete;
  TuningDatabase& operator=(const TuningDatabase&) = delete;

  // Of a file that exists, for reading only. A transaction that a killed process left is rolled back first; `shared`:
  // it is an error, because the file is left as it is.
  static Result<std::unique_ptr<TuningDatabase>> open(const std::string& path, bool shared = false);
  // Made where it is missing; its folder too, closed to other users. A damaged file is renamed to PATH.damaged, which
  // is warned of; a file of another kind is left alone.
  static Result<std::unique_ptr<TuningDatabase>> open_to_write(const std::string& path, const Warn& warn);

  // Of one scope, or of all for an empty one. skipped, if not null: the number of rows that are not sound.
  Result<std::vector<TuningRow>> rows(const std::string& scope, int64_t* skipped = nullptr) const;
  // Adds or replaces, on disk when it answers: a killed process loses the row it was about to put.
  Status put(const TuningRow& row);
  // The same for many: all or none.
  Status put(const std::vector<TuningRow>& rows);
  // Takes the rows with the keys (scope, call, library, algorithm) of these out: all or none.
  Status remove(const std::vector<TuningRow>& rows);
  // Figures of one device, or of all for an empty one. Rows that are not sound are left out.
  Result<std::vector<FigureRow>> figures(const std::string& device) const;
  // Adds or replaces: all or none.
  Status put(const std::vector<FigureRow>& rows);
  // Takes over the rows of another database that are missing here or better measured there: a time before a failure,
  // then more runs, then the later one; figures by the later one. All or none; the number of rows taken.
  Result<int64_t> merge(const TuningDatabase& other);

 private:
  struct Impl;
  explicit TuningDatabase(std::unique_ptr<Impl> impl);
  Status put_within(const FigureRow& row);
  Result<int64_t> merge_figures(const TuningDatabase& other);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusec::runtime
