# SPDX-License-Identifier: Apache-2.0
# fusec_deps::cudnn_frontend: header-only C++ over cuDNN's graph API (MIT), from the pinned package. One translation unit
# includes it: it takes over a minute to compile.
fusec_pinned(_fusec_frontend nvidia-cudnn-frontend)
set(FUSEC_HAVE_CUDNN_FRONTEND OFF)
if(FUSEC_WITH_CUDNN AND FUSEC_HAVE_CUDA AND EXISTS ${_fusec_frontend}/include/cudnn_frontend.h AND EXISTS ${FUSEC_CUDA_INCLUDE_DIR}/cudnn.h)
  set(FUSEC_HAVE_CUDNN_FRONTEND ON)
endif()
add_library(fusec_deps_cudnn_frontend INTERFACE)
add_library(fusec_deps::cudnn_frontend ALIAS fusec_deps_cudnn_frontend)
if(FUSEC_HAVE_CUDNN_FRONTEND)
  target_include_directories(fusec_deps_cudnn_frontend SYSTEM INTERFACE ${_fusec_frontend}/include)
endif()
if(NOT FUSEC_HAVE_CUDNN_FRONTEND AND FUSEC_WITH_CUDNN AND NOT FUSEC_WITH_CUDNN STREQUAL "AUTO")
  message(FATAL_ERROR "cuDNN's headers were not found: run ./dev setup --cuda, or configure with -DFUSEC_WITH_CUDNN=OFF")
endif()
