// SPDX-License-Identifier: Apache-2.0
// Times the candidates of one variant in this process: each is compiled, linked by itself, bound to a plan of one step
// and run as a library call would be, so that calls and kernels are timed alike.

#include <algorithm>
#include <map>

#include "ir/support/check.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/load/assemble.h"
#include "runtime/plan/bind.h"
#include "runtime/run/runner.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime {
namespace {

class InProcessTimer final : public CandidateTimer {
 public:
  InProcessTimer(const Options& options, const Machine& machine, int64_t flush_bytes)
      : options_(options),
        machine_(machine),
        flush_bytes_(flush_bytes),
        cache_(KernelCache::open(options, machine.target.name)) {}

  Status begin(const ir::Program& work) override {
    made_.clear();
    work_ = work;
    begun_ = false;
    return {};
  }

  Result<std::vector<double>> time(int candidate, bool quick, double best_us) override {
    FUSEC_ASSIGN(const LibraryOp* const op, obtain(candidate));
    return timed_->time(*op, quick, best_us);
  }

  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(int first, int second, bool quick) override {
    FUSEC_ASSIGN(const LibraryOp* const a, obtain(first));
    FUSEC_ASSIGN(const LibraryOp* const b, obtain(second));
    return timed_->time_in_turn(*a, *b, quick);
  }

  Result<int64_t> local_bytes(int candidate) override {
    FUSEC_TRY(obtain(candidate).status());
    return made_.at(candidate).local_bytes;
  }

  Status alive() const override { return timed_ ? timed_->alive() : Status(); }

 private:
  struct Made {
    std::unique_ptr<LibraryOp> op;
    int64_t local_bytes = 0;
  };

  // The first candidate that is linked brings the device's stopwatch and the memory for all of them.
  Result<const LibraryOp*> obtain(int candidate) {
    if (const auto it = made_.find(candidate); it != made_.end()) return it->second.op.get();
    work_.slots[0].variants[0].picked = candidate;
    KernelCounts counts;
    FUSEC_ASSIGN(const Artifacts artifacts,
                 obtain_kernels(work_, usual_kernels(work_), machine_.target, options_.codegen, cache_.get(), true, 1,
                                make_warn(options_), counts));
    FUSEC_ASSIGN(const std::shared_ptr<const LoadedProgram> loaded, link_alone(work_, artifacts, machine_));
    if (!timed_) {
      device_ = loaded->device;
      FUSEC_ASSIGN(auto stopwatch, device_ ? device_->make_stopwatch(flush_bytes_)
                                           : Result<std::unique_ptr<CallStopwatch>>(
                                                 make_host_stopwatch(machine_.target.threads, flush_bytes_)));
      timed_ = std::make_unique<TimedCall>(std::move(stopwatch), device_.get());
    }
    if (!begun_) FUSEC_TRY(timed_->begin(arguments(), work_.outputs.size()));
    begun_ = true;
    FUSEC_ASSIGN(PlanPtr plan, bind(loaded, {}, machine_.target.threads));
    Made made;
    for (const auto& artifact : loaded->artifacts)
      made.local_bytes = std::max(made.local_bytes, local_frame(*artifact));
    FUSEC_ASSIGN(made.op, device_ ? device_->make_plan_op(plan) : make_plan_op(plan));
    return made_.emplace(candidate, std::move(made)).first->second.op.get();
  }

  std::vector<BoundArg> arguments() const {
    std::vector<BoundArg> args;
    for (const auto* types : {&work_.input_types, &work_.output_types})
      for (const ir::Type& type : *types) args.push_back({type.dtype, {type.shape[0].value()}, {1}});
    return args;
  }

  // What the assembler of a GPU reports.
  static int64_t local_frame(const codegen::Artifact& artifact) {
    int64_t bytes = 0;
    for (const codegen::ArtifactPhase& phase : artifact.phases) bytes = std::max(bytes, phase.local_bytes);
    return bytes;
  }

  const Options options_;
  const Machine& machine_;
  const int64_t flush_bytes_;
  std::unique_ptr<KernelCache> cache_;
  ir::Program work_;
  std::shared_ptr<const DeviceProgram> device_;
  std::unique_ptr<TimedCall> timed_;
  std::map<int, Made> made_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<CandidateTimer> make_candidate_timer(const Options& options, const Machine& machine,
                                                     int64_t flush_bytes) {
  return std::make_unique<InProcessTimer>(options, machine, flush_bytes);
}

}  // namespace fusec::runtime
