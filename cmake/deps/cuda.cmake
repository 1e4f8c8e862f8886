# SPDX-License-Identifier: Apache-2.0
# fusec_deps::cuda: the toolkit's headers. No CUDA library is ever linked: they are opened at run time, so one binary
# runs with and without a GPU.
set(FUSEC_HAVE_CUDA OFF)
if(FUSEC_WITH_CUDA)  # AUTO is true here
  find_path(FUSEC_CUDA_INCLUDE_DIR cuda.h
    HINTS ${FUSEC_DEPS_DIR}/cuda/include $ENV{CUDA_HOME}/include /usr/local/cuda/include NO_DEFAULT_PATH)
  if(FUSEC_CUDA_INCLUDE_DIR)
    set(FUSEC_HAVE_CUDA ON)
  elseif(NOT FUSEC_WITH_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "cuda.h was not found: set CUDA_HOME, or configure with -DFUSEC_WITH_CUDA=OFF")
  endif()
endif()
add_library(fusec_deps_cuda INTERFACE)
add_library(fusec_deps::cuda ALIAS fusec_deps_cuda)
target_link_libraries(fusec_deps_cuda INTERFACE ${CMAKE_DL_LIBS})
if(FUSEC_HAVE_CUDA)
  target_include_directories(fusec_deps_cuda SYSTEM INTERFACE ${FUSEC_CUDA_INCLUDE_DIR})
endif()
add_compile_definitions(FUSEC_WITH_CUDA=$<BOOL:${FUSEC_HAVE_CUDA}>)
