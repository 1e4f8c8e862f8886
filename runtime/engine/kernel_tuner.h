// SPDX-License-Identifier: Apache-2.0
// The tuner of generated kernels: times the candidates of a program's variants for one set of shapes, each alone with
// memory of its own, and keeps the times as rows of the tuning database. Later compiles give them to select.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/select/select.h"
#include "fusec/model.h"
#include "ir/program/program.h"
#include "runtime/device/device.h"
#include "runtime/plan/resolve.h"
#include "runtime/plan/tuner.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {

// What times of generated kernels are stored under: the machine, its threads, and who writes the code.
std::string kernel_scope(const Options& options, const Machine& machine);
// The rows of the tuning database, as select takes them; empty by strategy, and where there are none.
compiler::TuningData read_kernel_times(const Options& options, const Machine& machine);
compiler::TuningData to_tuning_data(const std::vector<TuningRow>& rows);

// One variant of a program, alone: its candidates over memory of their own, for one set of shapes.
struct KernelWork {
  ir::Program program;  // one slot with one variant; what kernels read are inputs, what they write are outputs
  std::string key;      // candidate_key of the first candidate
  std::vector<int64_t> extents;
  std::string call() const;  // of rows
  std::string origin;
  int64_t count = 1;
};
// The distinct variants of the program that have several candidates and are taken for these values.
std::vector<KernelWork> list_kernel_work(const ir::Program& program, const Bindings& bindings);

// Puts the code of all candidates in the kernel cache, if there is one, on all cores: the tuner takes them one by one.
// What cannot be compiled is found again when it is timed.
void compile_candidates(ir::Program program, const Options& options, const Target& target);

// Runs candidates of one KernelWork after another. `begin` comes first. A candidate that cannot be compiled or run is
// an error of `time`; `alive` tells whether anything can be timed after it.
class CandidateTimer {
 public:
  virtual ~CandidateTimer() = default;
  virtual Status begin(const ir::Program& work) = 0;
  // As TimedCall has them.
  virtual Result<std::vector<double>> time(int candidate, bool quick, double best_us) = 0;
  virtual Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(int first, int second,
                                                                                   bool quick) = 0;
  // Bytes of local memory of a thread: of a GPU, what does not fit in registers. 0 on a CPU. After `time`.
  virtual Result<int64_t> local_bytes(int candidate) = 0;
  virtual Status alive() const = 0;
};
// In this process. The machine outlives it.
std::unique_ptr<CandidateTimer> make_candidate_timer(const Options& options, const Machine& machine,
                                                     int64_t flush_bytes);

// Measures what `tuning` has no rows of, as tune() of runtime/plan/tuner.h does. `program` has been through select.
Result<TuneReport> tune_kernels(const ir::Program& program, const Bindings& bindings, CandidateTimer& timer,
                                Tuning& tuning, const TuneLimits& limits, const TuneProgress& progress = {});

// tune_kernels() within the limits of the Options of Strategy::profile, for a program whose shapes are fixed; then
// selects by what is known. An error is a warning.
Status profile_kernels(ir::Program& program, const Options& options, const Machine& machine);
// The same for the shapes that these values of symbols give a model. A later compile takes the times from the tuning
// database.
Status profile_shapes(const Model& model, const Options& options, const Machine& machine, const Bindings& bindings);

}  // namespace fusec::runtime
