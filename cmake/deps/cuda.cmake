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
    message(FATAL_ERROR "cuda.h was not found: set CUDA_HOME, run ./dev setup --cuda, or configure with -DFUSEC_WITH_CUDA=OFF")
  else()
    message(STATUS "no CUDA toolkit was found: the GPU part is left out (./dev setup --cuda fetches what it needs)")
  endif()
endif()
# cuBLASLt and cuDNN may be missing where the rest of a toolkit is there.
set(FUSEC_HAVE_CUBLASLT OFF)
if(FUSEC_HAVE_CUDA AND EXISTS ${FUSEC_CUDA_INCLUDE_DIR}/cublasLt.h)
  set(FUSEC_HAVE_CUBLASLT ON)
endif()
add_library(fusec_deps_cuda INTERFACE)
add_library(fusec_deps::cuda ALIAS fusec_deps_cuda)
target_link_libraries(fusec_deps_cuda INTERFACE ${CMAKE_DL_LIBS})
if(FUSEC_HAVE_CUDA)
  target_include_directories(fusec_deps_cuda SYSTEM INTERFACE ${FUSEC_CUDA_INCLUDE_DIR})
endif()
add_compile_definitions(FUSEC_WITH_CUDA=$<BOOL:${FUSEC_HAVE_CUDA}> FUSEC_WITH_CUBLASLT=$<BOOL:${FUSEC_HAVE_CUBLASLT}>)
