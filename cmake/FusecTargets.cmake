# SPDX-License-Identifier: Apache-2.0
# fusec_library(<name> [MATCH <regex>...] [EXCLUDE <regex>...] [DEPS <target>...])
# One static library from all .cpp files of the current folder and below, minus nothing, so that adding a file needs no CMake
# edit. Regexes see the path relative to the folder: MATCH keeps, EXCLUDE drops. A library with no source yet is an
# INTERFACE library. Static libraries are for our own linking; what is installed is put together in FusecLibraries.cmake.
function(fusec_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "MATCH;EXCLUDE;DEPS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  foreach(regex IN LISTS arg_MATCH)
    list(FILTER sources INCLUDE REGEX "${regex}")
  endforeach()
  foreach(regex IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${regex}")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} ${scope} ${arg_DEPS})
endfunction()

# Objects of those of the named libraries that have any.
function(fusec_objects out)
  set(objects)
  foreach(name IN LISTS ARGN)
    get_target_property(type ${name} TYPE)
    if(type MATCHES "^(STATIC|OBJECT)_LIBRARY$")
      list(APPEND objects $<TARGET_OBJECTS:${name}>)
    endif()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

function(fusec_summary)
  message(STATUS "fusec ${PROJECT_VERSION} ${CMAKE_BUILD_TYPE}: llvm ${FUSEC_WITH_LLVM}, onnx ${FUSEC_WITH_ONNX}, "
    "oneDNN ${FUSEC_HAVE_DNNL}, sodium ${FUSEC_HAVE_SODIUM}, hiredis ${FUSEC_HAVE_HIREDIS}, cuda ${FUSEC_HAVE_CUDA}, PTX compiler ${FUSEC_HAVE_PTX_COMPILER}, sanitizers '${FUSEC_SANITIZE}', linker '${FUSEC_LLD}'")
endfunction()
