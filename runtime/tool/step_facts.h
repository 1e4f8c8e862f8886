// SPDX-License-Identifier: Apache-2.0
// From a compiled model to the plain data of runtime/tool/insight: what each step of a run reads, how fast its layer
// was measured, and what bounds it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/partition/partition.h"
#include "fusec/engine.h"
#include "ir/graph/graph.h"
#include "runtime/cache/tuning.h"
#include "runtime/link/link.h"
#include "runtime/plan/resolve.h"
#include "runtime/tool/insight/gap.h"

namespace fusec::tool {

// Types that the user would accept in place of f32.
struct AllowedTypes {
  bool tf32 = false, half = false;
};

struct FactSources {
  const ir::Graph& graph;
  const compiler::Partition& partition;
  const ir::Program& listed;  // of the same partition, with all candidates that can be measured
  const runtime::LoadedProgram& loaded;
  const runtime::ResolvedProgram& resolved;  // of loaded.program
  const runtime::Bindings& bindings;
  const Target& target;
  int threads = 1;
  bool warm_constants = false;  // keeps_constants_cached
  bool tf32 = false;            // calls of f32 round their operands already
  AllowedTypes allowed = {};
  int64_t workspace_limit = 0;     // of a call
  std::vector<double> times = {};  // of resolved.steps, in place; empty: it was not run
  std::function<std::vector<runtime::TuningRow>(const std::string&call)> call_rows = {}, kernel_rows = {};
  // The way of a library call that runs, as name_pick has it; "" where that is not known.
  std::function<std::string(const std::string& call)> taken_way = {};
};

// Of the steps of a run, without those that run once per plan.
std::vector<StepFacts> collect_facts(const FactSources& from);

}  // namespace fusec::tool
