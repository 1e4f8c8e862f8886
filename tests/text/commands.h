// SPDX-License-Identifier: Apache-2.0
// The commands of text tests. A new kind of test is a function and a row of kCommands.
#pragma once

#include <string>
#include <string_view>

#include "fusec/status.h"

namespace fusec::text_test {

// `input` is what stands between the command line and "====", `args` the words after the command. The result is
// compared with the rest of the file; a Status fails the test.
using CommandFunction = Result<std::string> (*)(const std::string& input, const std::string& args);

Result<std::string> run_roundtrip(const std::string& input, const std::string& args);
Result<std::string> run_error(const std::string& input, const std::string& args);
Result<std::string> run_run(const std::string& input, const std::string& args);

struct Command {
  std::string_view name;
  CommandFunction function;
};

inline constexpr Command kCommands[] = {
    {"roundtrip", run_roundtrip},  // graph text -> its printed form, which parses to the same graph
    {"error", run_error},          // graph text -> the Status of parsing it; `run`: of evaluating it
    {"run", run_run},              // graph text with inputs -> the evaluator's outputs; `wide` keeps floats in f64
};

}  // namespace fusec::text_test
