// SPDX-License-Identifier: Apache-2.0
// The device that an Engine is compiled for and runs on: Machine, which open_machine opens, and DeviceProgram, the part
// of a LoadedProgram that lies on a GPU, as link, bind and Session see it.
#pragma once

#include <memory>
#include <string>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/program/program.h"

namespace fusec::runtime {
namespace cuda {
class Context;
}

struct Machine {
  Device device;
  Target target;
  std::shared_ptr<cuda::Context> context;  // of a GPU
  std::string hardware = {};               // of a GPU: its maker's name
};

// By Options::device and Options::target, with the figures of the tuning database. device: there is no such GPU, or
// none at all, saying what was looked for.
Result<Machine> open_machine(const Options& options);

// What its figures in the tuning database are stored under (runtime/device/machine_model.h).
std::string machine_key(const Machine& machine);

class CallStopwatch;
class LibraryOp;
class Runner;
struct Plan;

class DeviceProgram {
 public:
  virtual ~DeviceProgram() = default;
  virtual Device device() const = 0;
  // While the answer lives, this thread's calls of libraries go to the device.
  virtual Result<std::shared_ptr<void>> enter() const = 0;
  // `program` outlives the answer.
  virtual Result<std::unique_ptr<Runner>> make_runner(const ir::Program& program, const Options& options,
                                                      const MachineModel& machine) const = 0;
  virtual Result<std::unique_ptr<CallStopwatch>> make_stopwatch(int64_t flush_bytes) const = 0;
  // As make_plan_op of runtime/run/runner.h.
  virtual Result<std::unique_ptr<LibraryOp>> make_plan_op(std::shared_ptr<const Plan> plan) const = 0;
  virtual std::string name() const = 0;  // of the hardware: "NVIDIA H200"
};

}  // namespace fusec::runtime
