# SPDX-License-Identifier: Apache-2.0
# The installed shared libraries, put together from the folders' objects. Each shows only what is marked FUSEC_API:
#   fusec::runtime  runs artifacts; no compiler, no LLVM, no protobuf
#   fusec::fusec    the whole line but ONNX; holds the runtime too, so a program links one of the two, never both
#   fusec::onnx     reads ONNX into a graph for fusec::fusec; the only one that needs protobuf
# Internal symbols stay hidden, so fusec::onnx carries its own copy of ir: plain values without global state, and of the
# same build, because the SONAME holds the full version.

function(fusec_shared name output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FOLDERS;PRIVATE;PUBLIC")
  fusec_objects(objects ${arg_FOLDERS})
  if(NOT objects)
    return()
  endif()
  add_library(${name} SHARED ${objects})
  add_library(fusec::${output} ALIAS ${name})
  if(output STREQUAL "fusec")
    set(file fusec)
  else()
    set(file fusec-${output})
  endif()
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${file} EXPORT_NAME ${output} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE ${arg_PRIVATE} PUBLIC ${arg_PUBLIC})
  # Third-party archives stay out of sight; a symbol missing here would otherwise show only in the user's link.
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  # Worker threads may still run its code when a host calls dlclose.
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  if(NOT FUSEC_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

set(_runtime_deps SQLite::SQLite3 Threads::Threads ${CMAKE_DL_LIBS}
  $<TARGET_NAME_IF_EXISTS:fusec_deps::dnnl> $<TARGET_NAME_IF_EXISTS:fusec_deps::sodium>)
fusec_shared(libfusec-runtime runtime
  FOLDERS fusec_ir fusec_artifact fusec_runtime
  PRIVATE ${_runtime_deps})
fusec_shared(libfusec fusec
  FOLDERS fusec_ir fusec_compiler fusec_artifact fusec_codegen fusec_runtime fusec_engine
  PRIVATE ${_runtime_deps} $<TARGET_NAME_IF_EXISTS:fusec_deps::llvm>)
if(FUSEC_WITH_ONNX AND TARGET libfusec)
  fusec_shared(libfusec-onnx onnx
    FOLDERS fusec_ir fusec_import
    PRIVATE fusec_deps::onnx PUBLIC libfusec)
  if(TARGET libfusec-onnx)
    set(_map ${PROJECT_SOURCE_DIR}/cmake/libfusec-onnx.map)
    target_link_options(libfusec-onnx PRIVATE -Wl,--version-script=${_map})
    set_target_properties(libfusec-onnx PROPERTIES LINK_DEPENDS ${_map})
  endif()
endif()
