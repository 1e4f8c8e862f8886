// SPDX-License-Identifier: Apache-2.0
// What the regions of a model became, as a drawing for viewers of ONNX files.
#pragma once

#include <string>
#include <vector>

#include "compiler/export/onnx/drawing.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {

// A launch that was timed.
struct StepTime {
  std::string origin, implementation;
  double us = 0;
};
// Of the JSON that `fusec bench MODEL --steps --json` prints. invalid_argument: the file is something else.
Result<std::vector<StepTime>> read_step_times(const std::string& path);

// Compiles the model and times its launches with random inputs, or those of the request.
Result<std::vector<StepTime>> time_steps(const FrontEnd& f, const Request& request, const Symbols& symbols);

// Each region is a function, and its call a node of the graph; so are views, which no region has. Constants stand where
// they are read, as nodes without their data. `f` holds the stages up to select.
exporter::Drawing draw_regions(const FrontEnd& f, const Symbols& symbols, const std::vector<StepTime>& times);

}  // namespace fusec::tool
