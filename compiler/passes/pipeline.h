// SPDX-License-Identifier: Apache-2.0
// The optimize stage: rewrites a Graph by the passes of pipeline.cpp, in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"
#include "ir/support/stage_context.h"

namespace fusec::compiler {

struct PassContext {
  const Target& target;
  const Options& options;
  double* weights_ms = nullptr;  // if set, the time of converting weights is added to it
};

// Rewrites the graph in place; returns true if it changed something. `order` may hold dead nodes afterwards.
using PassFunction = Result<bool> (*)(ir::Graph& graph, const PassContext& context);

struct Pass {
  std::string_view name;  // of the pass, its file, its function, its dump and its tests
  PassFunction run;
  bool required = false;  // later stages need it: it runs whatever the options disable
};
const std::vector<Pass>& pipeline();
const Pass* find_pass(std::string_view name);
// The number of passes up to and including the first of this name, for Options::stop_after_passes; 0 if there is none.
int passes_up_to(std::string_view name);

struct PassTime {
  std::string_view name;
  double ms = 0;
  bool changed = false;
};

// Runs the pipeline. It skips passes named in options.disabled_passes, and options.stop_after_passes bounds how many
// passes run; required passes run in any case. options.dump_dir gets the graph after each pass that changed it.
// `weights_ms` is as in PassContext. `deadline` is checked before each pass.
Status optimize(ir::Graph& graph, const Target& target, const Options& options, std::vector<PassTime>* times = nullptr,
                double* weights_ms = nullptr, const ir::Deadline& deadline = {});
// Runs one pass as the pipeline does: afterwards it drops dead nodes and, if the options ask for it, verifies the
// graph.
Result<bool> run_pass(const Pass& pass, ir::Graph& graph, const PassContext& context);

}  // namespace fusec::compiler
