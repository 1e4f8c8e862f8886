// SPDX-License-Identifier: Apache-2.0
// One function per command, in the file of its name.
#pragma once

#include <vector>

#include "runtime/tool/flags.h"

namespace fusec::tool {

Command run_command();
Command bench_command();
Command compile_command();
Command tune_command();
Command verify_command();
Command inspect_command();
Command import_command();
Command optimize_command();
Command partition_command();
Command lower_command();
Command select_command();
Command emit_command();
Command bind_command();
Command explain_command();
Command graph_command();
Command ops_command();
Command materialize_command();
Command cache_command();
Command doctor_command();

}  // namespace fusec::tool
