// SPDX-License-Identifier: Apache-2.0
// One function per command, in the file of its name. Those that take packages are in both programs, `fusec` and
// `fusec-compiler`.
#pragma once

#include <vector>

#include "runtime/tool/flags.h"
#include "runtime/tool/front.h"

namespace fusec::tool {

Command run_command(const Front& front);
Command bench_command(const Front& front);
Command compile_command();
Command tune_command();
Command verify_command();
Command conformance_command();
Command reduce_command();
Command inspect_command(const Front& front);
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
Command accuracy_command();
Command materialize_command();
Command cache_command();
Command doctor_command();

}  // namespace fusec::tool
