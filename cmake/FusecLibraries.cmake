# SPDX-License-Identifier: Apache-2.0
# The installed shared libraries, put together from the folders' objects. Each shows only what is marked FUSEC_API:
#   fusec::runtime  runs artifacts; no compiler, no LLVM, no protobuf
#   fusec::fusec    the whole line but ONNX; holds the runtime too, so a program links one of the two, never both
#   fusec::onnx     reads ONNX into a graph for fusec::fusec; it alone and fusec::c have protobuf inside
#   fusec::c        all of these behind the C interface (fusec/c.h), for programs of any language; goes with none of them
#   fusec::c-runtime  the C interface over the runtime alone: the same functions, of which those that compile answer an error
# Internal symbols stay hidden, so fusec::onnx carries its own copy of ir: plain values without global state, and of the
# same build, because the SONAME holds the full version.

function(fusec_shared name output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FOLDERS;PRIVATE;PUBLIC;FEATURES")
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
  target_compile_features(${name} INTERFACE ${arg_FEATURES})
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
  $<TARGET_NAME_IF_EXISTS:fusec_deps::dnnl> $<TARGET_NAME_IF_EXISTS:fusec_deps::sodium>
  $<TARGET_NAME_IF_EXISTS:fusec_deps::hiredis>)
fusec_shared(libfusec-runtime runtime
  FOLDERS fusec_ir fusec_artifact fusec_runtime
  FEATURES cxx_std_20
  PRIVATE ${_runtime_deps})
fusec_shared(libfusec fusec
  FOLDERS fusec_ir fusec_compiler fusec_artifact fusec_codegen fusec_runtime fusec_engine
  FEATURES cxx_std_20
  PRIVATE ${_runtime_deps} $<TARGET_NAME_IF_EXISTS:fusec_deps::llvm>)
if(FUSEC_WITH_ONNX AND TARGET libfusec)
  fusec_shared(libfusec-onnx onnx
    FOLDERS fusec_ir fusec_import
    FEATURES cxx_std_20
    PRIVATE fusec_deps::onnx PUBLIC libfusec)
  if(TARGET libfusec-onnx)
    set(_map ${PROJECT_SOURCE_DIR}/cmake/libfusec-onnx.map)
    target_link_options(libfusec-onnx PRIVATE -Wl,--version-script=${_map})
    set_target_properties(libfusec-onnx PROPERTIES LINK_DEPENDS ${_map})
  endif()
endif()

# The C interface is opened by programs that have another C++ library, another SQLite or another protobuf: what can be inside is
# inside and hidden. oneDNN stays beside it. An archive of the system that is not there is linked as a shared library.
function(fusec_shared_c name output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FOLDERS;PRIVATE")
  set(archives)
  foreach(archive sqlite3 z zstd)
    find_library(FUSEC_ARCHIVE_${archive} NAMES lib${archive}.a)
    mark_as_advanced(FUSEC_ARCHIVE_${archive})
    if(FUSEC_ARCHIVE_${archive})
      list(APPEND archives ${FUSEC_ARCHIVE_${archive}})
    endif()
  endforeach()
  fusec_shared(${name} ${output} FOLDERS ${arg_FOLDERS} FEATURES c_std_99 PRIVATE ${archives} ${_runtime_deps} ${arg_PRIVATE})
  set(map ${PROJECT_SOURCE_DIR}/cmake/libfusec-c.map)
  # The number of the SONAME is FUSEC_ABI_MAJOR of fusec/c.h.
  set_target_properties(${name} PROPERTIES SOVERSION 0 LINK_DEPENDS ${map})
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
  if(NOT FUSEC_SANITIZE)
    # Not libgcc: that in the archive finds frames by a function of glibc 2.35.
    target_link_options(${name} PRIVATE -static-libstdc++)
  endif()
endfunction()

if(TARGET fusec_c AND TARGET libfusec)
  set(tool)
  set(packages_tool)
  if(FUSEC_BUILD_TOOL)  # for fusec-compiler and fusec, small programs over these libraries
    set(tool fusec_lean_tool fusec_tool)
    set(packages_tool fusec_lean_tool fusec_packages_tool)
  endif()
  fusec_shared_c(libfusec-c c
    FOLDERS fusec_ir fusec_compiler fusec_artifact fusec_codegen fusec_runtime fusec_engine fusec_import fusec_c ${tool}
    PRIVATE $<TARGET_NAME_IF_EXISTS:fusec_deps::llvm> fusec_deps::onnx)
  fusec_shared_c(libfusec-c-runtime c-runtime FOLDERS fusec_ir fusec_artifact fusec_runtime fusec_c fusec_c_lean ${packages_tool})
endif()
