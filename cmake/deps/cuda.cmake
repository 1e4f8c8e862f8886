# SPDX-License-Identifier: Apache-2.0
# fusec_deps::cuda: the toolkit's headers. No CUDA library is ever linked: they are opened at run time, so one binary
# runs with and without a GPU.
# fusec-ptx-compiler: NVIDIA's PTX compiler, which exists as a static archive alone, as a shared library that is opened at run
# time, too (docs/decisions/026-whole-program-assembly.md). Only where the toolkit has the archive.
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
set(FUSEC_HAVE_PTX_COMPILER OFF)
if(FUSEC_HAVE_CUDA AND FUSEC_WITH_PTX_COMPILER)  # AUTO is true here
  find_file(FUSEC_PTX_COMPILER_ARCHIVE libnvptxcompiler_static.a
    HINTS ${FUSEC_DEPS_DIR}/cuda $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib NO_DEFAULT_PATH)
  find_path(FUSEC_PTX_COMPILER_INCLUDE_DIR nvPTXCompiler.h
    HINTS ${FUSEC_DEPS_DIR}/cuda/include ${FUSEC_CUDA_INCLUDE_DIR} NO_DEFAULT_PATH)
  if(FUSEC_PTX_COMPILER_ARCHIVE AND FUSEC_PTX_COMPILER_INCLUDE_DIR)
    set(FUSEC_HAVE_PTX_COMPILER ON)
  elseif(NOT FUSEC_WITH_PTX_COMPILER STREQUAL "AUTO")
    message(FATAL_ERROR "libnvptxcompiler_static.a or its header was not found: set CUDA_HOME, run ./dev setup --cuda, or configure with -DFUSEC_WITH_PTX_COMPILER=OFF")
  else()
    message(STATUS "libnvptxcompiler_static.a was not found: nvJitLink assembles instead, to code that takes more registers")
  endif()
endif()
if(FUSEC_HAVE_PTX_COMPILER)
  set(_source ${PROJECT_BINARY_DIR}/fusec_ptx_compiler.c)
  file(CONFIGURE OUTPUT ${_source} CONTENT "typedef int fusec_nothing; /* all that the library has is in NVIDIA's archive */\n" @ONLY)
  add_library(fusec-ptx-compiler SHARED ${_source})
  set(_map ${PROJECT_SOURCE_DIR}/cmake/libfusec-ptx-compiler.map)
  target_link_options(fusec-ptx-compiler PRIVATE -Wl,--version-script=${_map} -Wl,-s -Wl,-z,nodelete -Wl,--as-needed
    -fuse-ld=bfd)  # the archive has its constructors in .ctors, which lld leaves there, where nothing calls them
  target_link_libraries(fusec-ptx-compiler PRIVATE -Wl,--whole-archive ${FUSEC_PTX_COMPILER_ARCHIVE} -Wl,--no-whole-archive
    Threads::Threads m ${CMAKE_DL_LIBS})
  set_target_properties(fusec-ptx-compiler PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION}
    LINKER_LANGUAGE CXX  # archives of 13.5 want the C++ library
    LINK_DEPENDS "${_map};${FUSEC_PTX_COMPILER_ARCHIVE}")
endif()
add_library(fusec_deps_cuda INTERFACE)
add_library(fusec_deps::cuda ALIAS fusec_deps_cuda)
target_link_libraries(fusec_deps_cuda INTERFACE ${CMAKE_DL_LIBS})
if(FUSEC_HAVE_CUDA)
  target_include_directories(fusec_deps_cuda SYSTEM INTERFACE ${FUSEC_CUDA_INCLUDE_DIR})
endif()
add_compile_definitions(FUSEC_WITH_CUDA=$<BOOL:${FUSEC_HAVE_CUDA}> FUSEC_WITH_CUBLASLT=$<BOOL:${FUSEC_HAVE_CUBLASLT}>)
