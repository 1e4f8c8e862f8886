# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled. Everything here is set for this directory and below, never for a project that includes us.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endif()
# Programs find our libraries beside them, both in the build tree and once installed or unpacked anywhere. The build tree has the
# installed path: CMake would pad another one with colons to the same length, and the loader takes an empty element for the
# current folder (tests/check_runpaths.py).
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
file(RELATIVE_PATH FUSEC_PROGRAMS_TO_LIBRARIES ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${FUSEC_PROGRAMS_TO_LIBRARIES}" "$ORIGIN")

# Paths in the binaries are relative to the source folder: same sources, same bytes, wherever they lie.
add_compile_options(-Wall -Wextra -Wpedantic -ffunction-sections -fdata-sections -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# GCC 12 warns of impossible overlaps inside its own std::string (GCC bug 105651).
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# Clang warns of what libstdc++ 12 itself uses inside of std::stable_sort, and says so at our call.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
if(CMAKE_UNITY_BUILD)
  # Takes a source file inside of a unity source for a header, where a file-local type in a class would be a mistake.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
add_link_options(-Wl,--gc-sections)
if(FUSEC_WERROR)
  add_compile_options(-Werror)
endif()
if(FUSEC_SANITIZE)
  add_compile_options(-fsanitize=${FUSEC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC's analyses of uninitialised use and of paired allocation give false alarms on instrumented code.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-mismatched-new-delete>)
  # These three checks of pointers take a quarter of GCC's compile time. The address sanitizer stops at null pointers, too, and
  # clang's builds for the fuzzers have all three. runtime/CMakeLists.txt turns them on for code that maps files and calls libraries.
  if(FUSEC_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-sanitize=null,alignment,vptr>)
  endif()
  add_link_options(-fsanitize=${FUSEC_SANITIZE})
  # Each check of undefined behaviour points to a place in a source file. In a program that can lie anywhere, the loader would fill
  # in a million of these pointers at every start.
  if(FUSEC_SANITIZE MATCHES "undefined")
    add_link_options($<$<AND:$<CXX_COMPILER_ID:GNU>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-no-pie>)
  endif()
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# What makes a mistake harder to use: canaries on the stack, checked string and memory calls, addresses that the loader fills in
# before main and then locks, indirect jumps that land only where they may. tests/check_hardening.py reads it from the binaries.
# Sanitizers bring checks of their own, which these would hide or get in the way of.
if(NOT FUSEC_SANITIZE)
  add_compile_options(-fstack-protector-strong)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection FUSEC_HAVE_CF_PROTECTION)
  if(FUSEC_HAVE_CF_PROTECTION)
    add_compile_options(-fcf-protection)
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # without optimisation the headers have only a warning
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  endif()
  include(CheckPIESupported)
  check_pie_supported()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()

find_program(FUSEC_CCACHE ccache)
if(FUSEC_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FUSEC_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${FUSEC_CCACHE})
endif()

# Debian names the linker ld.lld-19 and the compiler looks for ld.lld: a folder with that one link on the compiler's search path.
find_program(FUSEC_LLD NAMES ld.lld-19 ld.lld)
if(FUSEC_LLD)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/linker)
  file(CREATE_LINK ${FUSEC_LLD} ${PROJECT_BINARY_DIR}/linker/ld.lld SYMBOLIC)
  add_link_options(-B${PROJECT_BINARY_DIR}/linker -fuse-ld=lld)
endif()
