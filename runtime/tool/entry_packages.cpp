// SPDX-License-Identifier: Apache-2.0
// The program `fusec`.

#include "runtime/tool/entry.h"

int main(int argc, char** argv) { return fusec_tool_packages(argc, argv); }
