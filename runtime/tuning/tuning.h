// SPDX-License-Identifier: Apache-2.0
// Tuning: what one Engine knows of measured times, and where it keeps new ones.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/target.h"
#include "runtime/cache/tuning.h"
#include "runtime/link.h"

namespace fusec::runtime {

struct TuningPick {
  std::string library, choice;
};

// The row of what the libraries take by themselves, and the fastest of all; null: none was measured.
const TuningRow* own_row(const std::vector<TuningRow>& rows);
const TuningRow* best_row(const std::vector<TuningRow>& rows);
// Whether every choice that was listed has a row.
bool is_complete(const std::vector<TuningRow>& rows);

// Thread-safe. The database is read once, when a call is first asked for; where there is none that costs nothing. Its faults
// are one warning, and the Engine goes on without.
class Tuning {
 public:
  Tuning(const Options& options, const Target& target, const LoadedProgram& loaded, int threads);

  Strategy strategy() const { return options_.strategy; }
  const Options& options() const { return options_; }
  const std::string& scope() const { return scope_; }
  int64_t cache_bytes() const { return cache_bytes_; }  // of the device's last-level cache

  // What is known of a call (runtime/tuning/key.h), whatever the strategy.
  std::vector<TuningRow> rows(const std::string& call);
  // What to try before the libraries decide, fastest first: empty by strategy, where nothing is known, and where nothing is
  // faster than what the libraries take by themselves.
  std::vector<TuningPick> picks(const std::string& call);
  // Remembers the rows and stores them; each has scope() and is on disk by itself.
  void add(const std::vector<TuningRow>& rows);
  // Says, once, that a library has no such choice any more.
  void note_vanished(const std::string& call, const TuningPick& pick);

 private:
  void load();
  void warn_once(const std::string& text);
  TuningDatabase* writer();

  const Options options_;
  const std::string scope_;
  const int64_t cache_bytes_;
  const std::string path_;
  std::mutex mutex_;
  bool loaded_ = false, warned_ = false, noted_ = false, unwritable_ = false;
  std::map<std::string, std::vector<TuningRow>> known_;  // by call
  std::unique_ptr<TuningDatabase> writer_;
};

}  // namespace fusec::runtime
