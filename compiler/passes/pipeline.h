// SPDX-License-Identifier: Apache-2.0
// optimize: Graph -> Graph, by the passes of pipeline.cpp in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/support/deadline.h"

namespace fusec::compiler {

struct PassContext {
  const Target& target;
  const Options& options;
  double* weights_ms = nullptr;  // if set: grows by the time of converting weights to options.precision
};

// A rewrite of the graph in place; true if it changed something. `order` may hold dead nodes afterwards.
using PassFunction = Result<bool> (*)(ir::Graph& graph, const PassContext& context);

struct Pass {
  std::string_view name;  // of the pass, its file, its function, its dump and its tests
  PassFunction run;
  bool required = false;  // the stages behind need it: runs whatever the options leave out
};
const std::vector<Pass>& pipeline();
const Pass* find_pass(std::string_view name);
// For Options::stop_after_passes: how many passes there are up to the first of this name; 0: there is none.
int passes_up_to(std::string_view name);

struct PassTime {
  std::string_view name;
  double ms = 0;
  bool changed = false;
};

// Runs the pipeline; passes named in options.disabled_passes are left out, options.stop_after_passes bounds how many
// run (required ones run all the same), options.dump_dir gets the graph after each pass that changed it. `weights_ms`
// as in PassContext. `deadline` is asked before each pass.
Status optimize(ir::Graph& graph, const Target& target, const Options& options, std::vector<PassTime>* times = nullptr,
                double* weights_ms = nullptr, const ir::Deadline& deadline = {});
// One pass with what the manager does around it: dead nodes go, the graph is verified if asked.
Result<bool> run_pass(const Pass& pass, ir::Graph& graph, const PassContext& context);

}  // namespace fusec::compiler
