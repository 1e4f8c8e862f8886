// SPDX-License-Identifier: Apache-2.0
// The line of the compiler before emit, written out once: for Engine::compile and for the commands that show stages.
#pragma once

#include <vector>

#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "fusec/engine.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "runtime/load/timed_stage.h"

namespace fusec::runtime {

enum class Stage : uint8_t { import, optimize, partition, lower, select };

// What the stages made, as far as they ran.
struct Stages {
  ir::Graph graph;  // as optimized, from Stage::optimize on
  std::vector<compiler::PassTime> passes;
  compiler::Partition partition;
  ir::Program program;
  std::vector<StageTime> times;  // without weights_ms
  double weights_ms = 0;         // converting weights to options.precision
};

// Runs the stages up to and with `last` on an imported graph; options.dump_dir gets the text of each. An error says in
// which stage it was.
Result<Stages> run_stages(const ir::Graph& imported, const Target& target, const Options& options, Stage last,
                          const ir::Deadline& deadline = {});

}  // namespace fusec::runtime
