// SPDX-License-Identifier: Apache-2.0
// The line of stages from an imported graph to an Engine. engine.cpp has it once, from top to bottom; the commands that
// show stages and the writer of packages run parts of it.
#pragma once

#include <vector>

#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "fusec/engine.h"
#include "fusec/model.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "runtime/load/assemble.h"
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

// The model as a selected Program with machine code for `target`: all stages up to emit. The machine is left empty.
Result<Parts> compile_parts(const Model& model, const Options& options, const Target& target);

}  // namespace fusec::runtime
