// SPDX-License-Identifier: Apache-2.0
// Tuning: what one Engine knows of measured times, and where it keeps new ones. A key tells what a measured time holds
// for, as text that people can read: equal texts, equal times.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusec/options.h"
#include "fusec/target.h"
#include "runtime/cache/tuning.h"
#include "runtime/library/interface/library.h"
#include "runtime/link/link.h"

namespace fusec::runtime {

// The call: op, types, extents, strides, window, bias, epilogues, alignment, what is constant. Not its threads.
std::string tuning_call(const LibraryCall& call);
// All else: the device, threads of a host, versions of the libraries, and the options that change what they may do.
std::string tuning_scope(const Options& options, const Target& target, const LoadedProgram& loaded, int threads);

// Algorithms are measured with up to this much workspace, also where Options::workspace_limit is lower. picks() leaves
// out those above the limit, so one measurement serves all lower limits. Times under higher limits have a scope of
// their own.
inline constexpr int64_t kMeasuredWorkspace = int64_t{1} << 30;

// Multiplications of the call, for an order of tuning.
double count_work(const LibraryCall& call);

struct TuningPick {
  std::string library, algorithm;
};

// The row of what the libraries take by themselves, and the one to take: the fastest, if it is faster than that by more
// than noise, and if no run of a whole model was slower with it; null: none was measured.
const TuningRow* default_row(const std::vector<TuningRow>& rows);
const TuningRow* best_row(const std::vector<TuningRow>& rows);

// The library in rows of whole models: `algorithm` was the fastest alone, and the row has the time of a run of a model
// with it, or, as a failure, that the model was slower.
inline constexpr const char* kWholeModel = "model";
// The library and the algorithm of a row, as rows of whole models name them.
std::string name_pick(const TuningRow& row);
// What is to be tried in whole models: the fastest alone, where that is not what the libraries take by themselves and
// no model has been run with it; null: nothing.
const TuningRow* untried_pick(const std::vector<TuningRow>& rows);
// Whether every algorithm that was listed has a row.
bool is_complete(const std::vector<TuningRow>& rows);

// Thread-safe. The database, the shared one for what it lacks, and the cache server for what both lack are read once,
// when a call is first asked for; where there is none that costs nothing. What the server has is stored in the
// database, and what is added is sent to it. Their faults are one warning of each, and the Engine goes on without.
class Tuning {
 public:
  // target and loaded outlive it.
  Tuning(const Options& options, const Target& target, const LoadedProgram& loaded, int threads);
  // Of times with another scope, which is asked for once, if at all. target outlives it. silent: faults are left to be
  // told by another one of the same options.
  Tuning(const Options& options, const Target& target, std::function<std::string()> scope, bool silent = false);

  Strategy strategy() const { return strategy_of(options_); }
  const Options& options() const { return options_; }
  std::string scope();              // tuning_scope of this Engine
  int64_t workspace_limit() const;  // of a call: Options::workspace_limit on a GPU, none on a CPU
  int64_t flush_bytes() const;      // that are read between two timed runs (runtime/tuning/timed_call.h)
  int64_t cache_bytes() const;      // of a GPU's last-level cache; 0 of a CPU

  // What is known of a call (by its key), whatever the strategy.
  std::vector<TuningRow> rows(const std::string& call);
  std::vector<TuningRow> all_rows();
  // Whether any call has picks: where not, none need be asked for.
  bool has_picks();
  // What to try before the libraries decide, fastest first: empty by strategy, where nothing is known within the
  // workspace limit, and where nothing is worth leaving what the libraries take by themselves.
  std::vector<TuningPick> picks(const std::string& call);
  // Until it is called again, picks() answers for these calls what was the fastest alone, or nothing for those that are
  // not in `taken`, whatever rows of whole models say. Not while plans are bound.
  void set_trial(std::set<std::string> calls, std::set<std::string> taken);
  // Where the rows came from that were not added here.
  struct Sources {
    int64_t own = 0, shared = 0, server = 0;
  };
  Sources sources();
  // Remembers the rows and stores them; each has scope() and is on disk by itself.
  void add(const std::vector<TuningRow>& rows);
  // Says, once, that a library has no such algorithm any more.
  void note_vanished(const std::string& call, const TuningPick& pick);

 private:
  void load();
  void load_from(const std::string& path, bool shared, bool& warned, int64_t& count);
  void load_from_server();
  bool add_unknown(TuningRow row);
  Warn warn() const;  // empty: silent
  void warn_once(bool& warned, const std::string& text);
  TuningDatabase* writer();
  void store(const std::vector<TuningRow>& rows);  // all or none
  void send(const std::vector<TuningRow>& rows);

  const std::string& scope_of_machine();

  const Options options_;
  const Target& target_;
  const std::function<std::string()> make_scope_;
  const int threads_;
  const bool silent_ = false;
  const std::string path_, shared_path_;
  std::mutex mutex_;
  std::string scope_;  // empty: not asked for yet
  bool loaded_ = false, warned_ = false, warned_of_shared_ = false, noted_ = false, unwritable_ = false;
  std::map<std::string, std::vector<TuningRow>> known_;  // by call
  std::set<std::string> tried_, taken_;                  // calls, by set_trial
  std::unique_ptr<TuningDatabase> writer_;
  std::shared_ptr<CacheServer> server_;
  Sources sources_;
};

}  // namespace fusec::runtime
