// SPDX-License-Identifier: Apache-2.0
// Reads a model and runs the stages up to a given one, for the commands that show a stage. A named GPU target needs no
// GPU.

#include "runtime/tool/front_end.h"

#include "runtime/device/open.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {

namespace {

// A GPU's target by name needs no GPU.
Result<Target> choose_target(const Options& options) {
  if (Result<Target> named = named_target(options.target); named.ok() && named->kind == TargetKind::cuda) return named;
  FUSEC_ASSIGN(runtime::Machine machine, runtime::open_machine(options));
  return std::move(machine.target);
}

}  // namespace

Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last) {
  FrontEnd f;
  FUSEC_ASSIGN(f.options, parse_options(flags));
  FUSEC_ASSIGN(f.target, choose_target(f.options));
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  f.model = std::move(loaded.model);
  FUSEC_ASSIGN(static_cast<runtime::Stages&>(f),
               runtime::run_stages(*f.model.graph, f.target, f.options, last, ir::Deadline(f.options.compile_seconds)));
  return f;
}

}  // namespace fusec::tool
