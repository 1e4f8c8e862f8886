// SPDX-License-Identifier: Apache-2.0
// The stages before emit, one value each, for the commands that show them.
#pragma once

#include <string>
#include <vector>

#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "fusec/target.h"
#include "ir/program.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

enum class Stage { import, optimize, partition, lower, select };

struct FrontEnd {
  Options options;
  Target target;
  Model model;
  ir::Graph graph;  // as optimized, from Stage::optimize on
  std::vector<compiler::PassTime> passes;
  compiler::Partition partition;
  ir::Program program;
};

// Reads the model and runs the stages up to and with `last`.
Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last);

}  // namespace fusec::tool
