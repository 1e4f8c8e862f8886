# SPDX-License-Identifier: Apache-2.0
# fusec_deps::dnnl: oneDNN 3 from the pinned package, in a copy that asks for fusec's threads where the original asks for GNU
# OpenMP's. Used by runtime/library/onednn alone. See docs/decisions/002-onednn-version.md and 015-one-pool-of-threads.md.
fusec_pinned(_fusec_dnnl onednn-cpu-gomp)
fusec_pinned(_fusec_dnnl_headers onednn-devel-cpu-gomp)
file(GLOB _fusec_dnnl_library ${_fusec_dnnl}/*.data/data/lib/libdnnl.so.3)
file(GLOB _fusec_dnnl_include LIST_DIRECTORIES true ${_fusec_dnnl_headers}/*.data/data/include)
set(FUSEC_HAVE_DNNL OFF)
if(FUSEC_WITH_DNNL)  # AUTO is true here
  if(_fusec_dnnl_library AND _fusec_dnnl_include)
    set(FUSEC_HAVE_DNNL ON)
  elseif(NOT FUSEC_WITH_DNNL STREQUAL "AUTO")
    message(FATAL_ERROR "oneDNN is not in ${_fusec_dnnl}: run ./dev setup, or configure with -DFUSEC_WITH_DNNL=OFF")
  endif()
endif()
if(FUSEC_HAVE_DNNL)
  # The copy lies beside our own libraries: the build tree then runs with $ORIGIN/../lib alone, as the installed tree does.
  set(_fusec_dnnl_copy ${PROJECT_BINARY_DIR}/lib/libfdnn.so.3)
  set(_fusec_dnnl_script ${PROJECT_SOURCE_DIR}/cmake/own_openmp.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_fusec_dnnl_script})
  if(${_fusec_dnnl_script} IS_NEWER_THAN ${_fusec_dnnl_copy} OR ${_fusec_dnnl_library} IS_NEWER_THAN ${_fusec_dnnl_copy})
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    execute_process(COMMAND ${Python3_EXECUTABLE} ${_fusec_dnnl_script} ${_fusec_dnnl_library} ${_fusec_dnnl_copy}
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
  add_library(fusec_deps_dnnl SHARED IMPORTED GLOBAL)
  add_library(fusec_deps::dnnl ALIAS fusec_deps_dnnl)
  set_target_properties(fusec_deps_dnnl PROPERTIES
    IMPORTED_LOCATION ${_fusec_dnnl_copy}
    IMPORTED_SONAME libfdnn.so.3
    INTERFACE_INCLUDE_DIRECTORIES ${_fusec_dnnl_include})
endif()
add_compile_definitions(FUSEC_WITH_DNNL=$<BOOL:${FUSEC_HAVE_DNNL}>)
