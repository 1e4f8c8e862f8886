// SPDX-License-Identifier: Apache-2.0
// The node cases of ONNX's own suite (Debian: libonnx-testdata), run by either engine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fusec/options.h"

namespace fusec::importer {

struct Outcome {
  enum Kind { passed, unsupported, wrong } kind = passed;
  std::string why;
  bool given_constants = false;  // it passed with inputs made initializers, for ops that must know them at import
};

// How an imported case is run: by the evaluator, or compiled with `options`.
struct Runner {
  std::optional<Options> options;
};

// The cases of a group ("node") by name; none where the suite is not installed.
std::vector<std::filesystem::path> node_cases(const std::string& group);

// Unsupported means that import refuses the model: what is imported must run and be right.
Outcome run_case(const std::filesystem::path& folder, const Runner& runner);

// What is lacking, without the names of nodes and inputs: "op Resize", "an input that is no dense tensor".
std::string lacking(const std::string& why);

}  // namespace fusec::importer
