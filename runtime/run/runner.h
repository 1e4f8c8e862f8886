// SPDX-License-Identifier: Apache-2.0
// Runner: what a Session does on its device. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/profile.h"
#include "fusec/session.h"
#include "fusec/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/run/trace.h"

namespace fusec::runtime {

// What a Runner keeps for one Plan: argument tables, captured graphs.
class PlanState {
 public:
  virtual ~PlanState() = default;
};

// Called with the index of a launch that is over, and the addresses of its arguments on the device.
using AfterLaunch = std::function<Status(std::size_t launch, void* const* args)>;

// Inputs are checked by the Session: their number, dtypes, shapes, and that there is memory. Outputs have the right
// number; those that are empty Tensors are made.
class Runner {
 public:
  explicit Runner(const ir::Program& program)
      : log_{{}, std::vector<bool>(program.inputs.size() + program.outputs.size())} {}
  virtual ~Runner() = default;

  // Memory for the plan, and its state.
  virtual Result<std::unique_ptr<PlanState>> prepare(const PlanPtr& plan) = 0;
  // Puts the state of `plan`, the successor of that of `state`, in its place; graphs are captured anew. False: not yet,
  // because work under way would have to be waited for. An error leaves `state` as it is.
  virtual Result<bool> replace(std::unique_ptr<PlanState>& state, const PlanPtr& plan) = 0;
  // step_us, if not null: gets the microseconds of each launch.
  virtual Status run(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) = 0;
  // Readies the tracing of runs of this plan, and tells how they are measured: Profile::source.
  virtual Result<std::string> begin_tracing(PlanState& state) = 0;
  // Runs so many times and fills `traces`; the begin of the first is set already. The runs follow one another without
  // waiting for their ends in between.
  virtual Status run_traced(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                            std::span<RunTrace> traces) = 0;
  // How many runs such as this one run_traced should take at once, so that the device is as busy as in untraced runs.
  virtual std::size_t traced_at_once(const RunTrace& /*trace*/) const { return 1; }
  // Runs, untraced, and tells the microseconds from the begin of the device's first work to the end of its last,
  // without those in which it waits for the host to put work on the stream. 0: the host is the device.
  virtual Result<double> run_device_us(PlanState& /*state*/, std::span<const Tensor> /*inputs*/,
                                       std::span<Tensor> /*outputs*/) {
    return 0.0;
  }
  // Runs between traced ones are as fast as any; false: only once tracing has ended.
  virtual bool traces_beside_runs() const { return true; }
  // Runs are as before from here on. Also called after failures and twice.
  virtual Status end_tracing(PlanState& /*state*/) { return {}; }
  // Adds what is known of the launches beside times, and why something is missing.
  virtual Status add_facts(const PlanState& /*state*/, Profile& /*profile*/) { return {}; }
  // A run for debugging: all launches, those that run once too, one after another; `after` is called when one is over.
  virtual Status run_stepwise(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                              const AfterLaunch& after) = 0;
  // On the caller's stream, without waiting.
  virtual Status run_async(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           void* stream) = 0;
  // Whether a capture of the caller is under way on this stream.
  virtual Result<bool> is_capturing(void* /*stream*/) const { return false; }
  // Adds a run to that capture: no allocation, no waiting, no graph of our own and no event from outside. What the
  // captured launches use stays where it is until the Runner ends. invalid_argument where a tensor would have to be
  // copied or made.
  virtual Status record(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
    return run_async(state, inputs, outputs, stream);
  }
  // Does what can be done once for runs with these tensors.
  virtual Status bind(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
  virtual int64_t arena_bytes() const = 0;
  // Whether a graph of the caller holds addresses of this Runner, which must then live as long as the Session.
  virtual bool is_recorded() const { return false; }

  // Adds to stats what is counted here.
  virtual void count(SessionStats& stats) const {
    stats.staged_copies = log_.copies;
    stats.notes = log_.notes;
  }

 protected:
  // Copies of caller tensors that could not be used where they lie, and why, once per tensor.
  struct StagingLog {
    std::vector<std::string> notes;
    std::vector<bool> noted;  // by input, then output
    int64_t copies = 0;
    void add(std::size_t slot, const char* kind, const BoundIo& io, const char* why);
  };
  StagingLog log_;
};

struct EngineState;
// For the device of the Engine.
Result<std::unique_ptr<Runner>> make_runner(const EngineState& state);
std::unique_ptr<Runner> make_host_runner(const ir::Program& program, std::shared_ptr<const HostAllocator> allocator);

// The kernel that a launch runs, or the library's name for what it does.
std::string launch_name(const Plan& plan, const Launch& launch);

// The launches of a plan as one call, so that they are timed as calls are: arguments are the program's inputs, then its
// outputs. An index that is out of range is no error. For a GPU: DeviceProgram::make_plan_op.
Result<std::unique_ptr<LibraryOp>> make_plan_op(PlanPtr plan);

// Where outputs come from that are not given.
struct OutputMemory {
  Device device;
  std::shared_ptr<const HostAllocator> allocator = nullptr;  // null: fusec's own memory
  void* stream = nullptr;                                    // of a GPU, of the run
};
// Makes an output that is not given; else checks dtype, shape and that there is memory.
Status take_output(const BoundIo& io, Tensor& output, const OutputMemory& from);
bool is_aligned(const void* data, int64_t alignment);
// Whether some input is still read once this output, which shares its memory, has been written.
bool clobbers_input(const Plan& plan, std::span<const Tensor> inputs, const Tensor& output, uint32_t o);

// Row-major strides, in memory that is used again.
class RowMajor {
 public:
  std::span<const int64_t> strides(std::span<const int64_t> shape);

 private:
  std::vector<int64_t> strides_;
};

}  // namespace fusec::runtime
