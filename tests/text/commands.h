// SPDX-License-Identifier: Apache-2.0
// The commands of text tests. A new kind of test is a function and a row of kCommands.
#pragma once

#include <string>
#include <string_view>

#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::text_test {

// `input` is what stands between the command line and "====", `args` the words after the command. The result is
// compared with the rest of the file; a Status fails the test.
using CommandFunction = Result<std::string> (*)(const std::string& input, const std::string& args);

Result<std::string> run_roundtrip(const std::string& input, const std::string& args);
Result<std::string> run_error(const std::string& input, const std::string& args);
Result<std::string> run_run(const std::string& input, const std::string& args);
// What `run` yields for a graph whose inputs are comment lines of `input`.
Result<std::string> run_values(const ir::Graph& graph, const std::string& input, const std::string& args);
// The graph after all passes for a target and options that `args` names.
Result<std::string> optimized_text(ir::Graph graph, const std::string& args);
Result<std::string> run_kernel(const std::string& input, const std::string& args);
Result<std::string> run_pass(const std::string& input, const std::string& args);
Result<std::string> run_partition(const std::string& input, const std::string& args);
Result<std::string> run_lower(const std::string& input, const std::string& args);
Result<std::string> run_select(const std::string& input, const std::string& args);
Result<std::string> run_emit(const std::string& input, const std::string& args);
#if FUSEC_WITH_ONNX
Result<std::string> run_import(const std::string& input, const std::string& args);
#endif

struct Command {
  std::string_view name;
  CommandFunction function;
};

inline constexpr Command kCommands[] = {
    {"roundtrip", run_roundtrip},  // graph text -> its printed form, which parses to the same graph
    {"error", run_error},          // graph text -> the Status of parsing it; `run`: of evaluating it
    {"run", run_run},        // graph text with inputs -> what the evaluator and compiled code yield; `wide`: in f64;
                             // `f16`, `bf16`: compiled in this precision
    {"kernel", run_kernel},  // kernel text -> the outputs of roundtrip, canonical, verify, error, run, in that order
    {"emit", run_emit},      // kernel text -> the writer's text: `llvm <target>` or `cuda <target>`
    {"pass", run_pass},      // graph text, names of passes -> the graph after them
    {"partition", run_partition},  // graph text -> regions and boundaries; `optimized`: of the optimized graph
    {"lower", run_lower},          // graph text, a target -> verified kernels; `nest`: before they are scheduled
    {"select", run_select},        // graph text -> the program and what was picked
#if FUSEC_WITH_ONNX
    {"import", run_import},  // ONNX's text syntax -> the number of ops and the graph; `error`: the Status; `run`: as of
                             // run; `optimized`: the graph after all passes
#endif
};

}  // namespace fusec::text_test
