// SPDX-License-Identifier: Apache-2.0
// What the programs `fusec` and `fusec-compiler` call. Where they are small programs over libfusec-c-runtime and
// libfusec-c, these hold the commands and show the functions for them alone: they are no part of the C interface.
#pragma once

// Runs packages, and replaces the process by fusec-compiler for all else.
extern "C" __attribute__((visibility("default"))) int fusec_tool_packages(int argc, char** argv);
// Every command.
extern "C" __attribute__((visibility("default"))) int fusec_tool_main(int argc, char** argv);
