// SPDX-License-Identifier: Apache-2.0
// Models to compile.
#pragma once

#include <string>

#include "runtime/tool/front.h"

namespace fusec::tool {

// An ONNX model, or the text of a graph where the name ends in .fir. invalid_argument for packages.
Result<Loaded> load_model(const ModelFlags& flags);
Result<Loaded> load_model(const std::string& path, const ModelFlags& flags);
// With a progress line.
Result<Engine> compile_model(const Model& model, const Options& options);

Front compiler_front();

}  // namespace fusec::tool
