// SPDX-License-Identifier: Apache-2.0
// The line of the compiler before emit, written out once: for Engine::compile and for the commands that show stages.
#pragma once

#include <chrono>
#include <string>
#include <type_traits>
#include <vector>

#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "fusec/engine.h"
#include "ir/graph.h"
#include "ir/program.h"

namespace fusec::runtime {

enum class Stage : uint8_t { import, optimize, partition, lower, select };

// What the stages made, as far as they ran.
struct Stages {
  ir::Graph graph;  // as optimized, from Stage::optimize on
  std::vector<compiler::PassTime> passes;
  compiler::Partition partition;
  ir::Program program;
  std::vector<StageTime> times;
};

// Runs the stages up to and with `last` on an imported graph; options.dump_dir gets the text of each. An error says in
// which stage it was.
Result<Stages> run_stages(const ir::Graph& imported, const Target& target, const Options& options, Stage last);

// Calls one stage, notes its time, and says in an error which stage it was.
template <class F>
auto timed_stage(std::vector<StageTime>& times, const char* stage, const F& f) -> decltype(f()) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  auto result = f();
  times.push_back({stage, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
  const Status status = [&] {
    if constexpr (std::is_same_v<decltype(f()), Status>) {
      return result;
    } else {
      return result.status();
    }
  }();
  if (!status.ok()) return Status(status).with_note(std::string("in stage ") + stage);
  return result;
}

}  // namespace fusec::runtime
