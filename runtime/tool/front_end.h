// SPDX-License-Identifier: Apache-2.0
// The stages before emit, one value each, for the commands that show them.
#pragma once

#include "fusec/target.h"
#include "runtime/engine/engine.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

using runtime::Stage;

struct FrontEnd : runtime::Stages {
  Options options;
  Target target;
  Model model;
};

// Reads the model and runs the stages up to and with `last`.
Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last);

}  // namespace fusec::tool
