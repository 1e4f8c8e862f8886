// SPDX-License-Identifier: Apache-2.0
// assemble: the end of the line, the same for a model compiled here and for one out of a package: link, bind where no
// shape is free, and what an Engine tells of itself. Every stage of the line is called through timed_stage.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "fusec/engine.h"
#include "ir/support/nvtx.h"
#include "runtime/device/device.h"
#include "runtime/link/link.h"
#include "runtime/plan/state.h"

namespace fusec::runtime {

// Calls one stage, notes its time, and says in an error which stage it was, where that does not say so itself.
template <class F>
auto timed_stage(std::vector<StageTime>& times, const char* stage, const F& f) -> decltype(f()) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  auto result = [&] {
    const NvtxRange range(stage);
    return f();
  }();
  times.push_back({stage, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
  const Status status = [&] {
    if constexpr (std::is_same_v<decltype(f()), Status>) {
      return result;
    } else {
      return result.status();
    }
  }();
  const std::string note = std::string("in stage ") + stage;
  const bool is_named = status.message().find(note) != std::string::npos;
  if (!status.ok() && !is_named) return Status(status).with_note(note);
  return result;
}

struct Parts {
  ir::Program program;           // its constants included
  Artifacts artifacts;           // of all of usual_kernels(program), of the others too where there is no `obtain`
  ObtainKernels obtain;          // for a bind that needs others
  SpecializeProgram specialize;  // null: it cannot be done, or is not asked for
  Options options;
  Machine machine;
  std::vector<TensorInfo> inputs;
  EngineStats stats;  // so far: kernel counts, times of earlier stages
};

Result<std::shared_ptr<EngineState>> assemble(Parts parts);

// A program of generated kernels alone, linked without libraries. The machine is one that was opened.
Result<std::shared_ptr<const LoadedProgram>> link_alone(ir::Program program, const Artifacts& artifacts,
                                                        const Machine& machine);

// From program to names, dtypes and shapes.
std::vector<TensorInfo> tensor_infos(const std::vector<std::string>& names, const std::vector<ir::Type>& types);

}  // namespace fusec::runtime
