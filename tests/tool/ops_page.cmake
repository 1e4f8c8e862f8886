# SPDX-License-Identifier: Apache-2.0
execute_process(COMMAND ${TOOL} ops OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
if(NOT printed STREQUAL page)
  message(FATAL_ERROR "${PAGE} is not what `fusec ops` prints: run fusec ops > docs/ops.md")
endif()
