# SPDX-License-Identifier: Apache-2.0
# fusec_deps::llvm: LLVM 19 for x86-64 and NVPTX. Used by codegen/llvm alone.
# "19.1", not "19": LLVM's version file accepts only its own major.minor. See docs/decisions/003-llvm-static-or-shared.md.
if(NOT FUSEC_WITH_LLVM)
  return()
endif()
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
add_library(fusec_deps_llvm INTERFACE)
add_library(fusec_deps::llvm ALIAS fusec_deps_llvm)
target_include_directories(fusec_deps_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(_fusec_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(fusec_deps_llvm INTERFACE ${_fusec_llvm_definitions})
if(FUSEC_LLVM_SHARED)
  target_link_libraries(fusec_deps_llvm INTERFACE LLVM)
else()
  llvm_map_components_to_libnames(_fusec_llvm_libs
    core support analysis passes transformutils target targetparser mc object irreader bitwriter bitreader linker
    executionengine orcjit jitlink x86codegen x86asmparser x86desc x86info nvptxcodegen nvptxdesc nvptxinfo)
  target_link_libraries(fusec_deps_llvm INTERFACE ${_fusec_llvm_libs})
endif()
