// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/commands.h"

int main(int argc, char** argv) {
  using namespace fusec::tool;
  const std::vector<Command> commands = {
      run_command(),     bench_command(),  tune_command(),   compile_command(), verify_command(),  inspect_command(),     import_command(),
      optimize_command(), partition_command(), lower_command(), select_command(), emit_command(),     bind_command(),
      explain_command(), graph_command(),  ops_command(),     cache_command(),   materialize_command(), doctor_command(),
  };
  return run_command_line(commands, argc, argv);
}
