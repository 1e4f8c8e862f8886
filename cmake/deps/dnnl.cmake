# SPDX-License-Identifier: Apache-2.0
# fusec_deps::dnnl: oneDNN 3 with GNU OpenMP, from the pinned package. Used by runtime/library/onednn alone.
# See docs/decisions/002-onednn-version.md.
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
  # A link beside our own libraries: the build tree then runs with $ORIGIN/../lib alone, as the installed tree does.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  file(CREATE_LINK ${_fusec_dnnl_library} ${PROJECT_BINARY_DIR}/lib/libdnnl.so.3 SYMBOLIC)
  add_library(fusec_deps_dnnl SHARED IMPORTED GLOBAL)
  add_library(fusec_deps::dnnl ALIAS fusec_deps_dnnl)
  set_target_properties(fusec_deps_dnnl PROPERTIES
    IMPORTED_LOCATION ${PROJECT_BINARY_DIR}/lib/libdnnl.so.3
    IMPORTED_SONAME libdnnl.so.3
    INTERFACE_INCLUDE_DIRECTORIES ${_fusec_dnnl_include})
endif()
add_compile_definitions(FUSEC_WITH_DNNL=$<BOOL:${FUSEC_HAVE_DNNL}>)
