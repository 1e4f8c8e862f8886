// SPDX-License-Identifier: Apache-2.0
// Models to compile, and the stages before emit, one value each, for the commands that show them.
#pragma once

#include <string>

#include "fusec/target.h"
#include "runtime/engine/engine.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

// An ONNX model, or the text of a graph where the name ends in .fir. invalid_argument for packages.
Result<Loaded> load_model(const ModelFlags& flags);
Result<Loaded> load_model(const std::string& path, const ModelFlags& flags);
// With a progress line.
// With on_progress that shows the stages of a compile in the line, for as long as that lives.
Options with_progress(Options options, const std::shared_ptr<Progress>& progress);
Result<Engine> compile_model(const Model& model, const Options& options);

Front compiler_front();

using runtime::Stage;

struct FrontEnd : runtime::Stages {
  Options options;
  Target target;
  Model model;
  compiler::TuningData tuning;  // that select has used
};

// Reads the model and runs the stages up to and with `last`.
Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last, runtime::Listing listing = runtime::Listing::needed);

}  // namespace fusec::tool
