// SPDX-License-Identifier: Apache-2.0
// The program `fusec-compiler`.

#include "runtime/tool/entry.h"

int main(int argc, char** argv) { return fusec_tool_main(argc, argv); }
