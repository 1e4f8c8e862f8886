// SPDX-License-Identifier: Apache-2.0
// Every command: what `fusec-compiler` does. `fusec` executes that for all work that needs the compiler.

#include "runtime/tool/commands.h"
#include "runtime/tool/entry.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

std::vector<Command> all_commands() {
  const Front front = compiler_front();
  std::vector<Command> commands = {
      run_command(front),
      bench_command(front),
      tune_command(),
      compile_command(),
      verify_command(),
      compare_command(),
      inspect_command(front),
      import_command(),
      optimize_command(),
      partition_command(),
      lower_command(),
      select_command(),
      emit_command(),
      bind_command(),
      explain_command(),
      graph_command(),
      report_command(),
      profile_command(front),
      advise_command(),
      ops_command(),
      accuracy_command(),
      cache_command(),
      materialize_command(),
      doctor_command(),
      completion_command(all_commands),
      reference_command(all_commands),
  };
#if FUSEC_WITH_ONNX
  commands.push_back(conformance_command());
  commands.push_back(reduce_command());
#endif
  return commands;
}

}  // namespace
}  // namespace fusec::tool

int fusec_tool_main(int argc, char** argv) {
  return fusec::tool::run_command_line(fusec::tool::all_commands(), argc, argv);
}
