# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=<build folder> -DCXX=<compiler> -DCC=<C compiler> -DLLVM=<is it built in?> -DPYTHON=<python3> -P run.cmake
# Installs fusec into a folder of its own, moves it, builds the consumer against it, runs it, and looks at what the libraries show.
set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/installed)
file(RENAME ${work}/installed ${work}/moved)
# Whose code is inside, and under which licence.
file(GLOB notices ${work}/moved/share/doc/*/THIRD_PARTY_NOTICES)
if(NOT notices)
  message(FATAL_ERROR "no THIRD_PARTY_NOTICES was installed")
endif()
file(READ ${notices} text)
foreach(word "oneDNN" "onnx" "SQLite" "fmt" "nlohmann-json" "Permission is hereby granted, free of charge")
  string(FIND "${text}" "${word}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${notices} does not tell of '${word}'")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/build -G Ninja
  -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${work}/moved)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
run(${work}/build/consumer_lean)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/../../samples/embed -B ${work}/embed -G Ninja
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${work}/moved)
run(${CMAKE_COMMAND} --build ${work}/embed)
if(LLVM)  # without it nothing compiles
  run(${work}/embed/embed)
endif()
# C, through CMake and through pkg-config.
file(GLOB_RECURSE pc ${work}/moved/*/fusec-c.pc)
find_program(PKG_CONFIG pkg-config)
if(pc)
  run(${work}/build/consumer_c)
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/../../samples/c -B ${work}/c -G Ninja
    -DCMAKE_C_COMPILER=${CC} -DCMAKE_PREFIX_PATH=${work}/moved)
  run(${CMAKE_COMMAND} --build ${work}/c)
  if(LLVM)
    run(${work}/c/c_sample)
  endif()
  if(PKG_CONFIG)
    cmake_path(GET pc PARENT_PATH pc)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc} ${PKG_CONFIG} --cflags --libs fusec-c
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(${CC} -std=c99 -Wall -Wextra -Wpedantic -Werror ${CMAKE_CURRENT_LIST_DIR}/consumer.c ${flags} -o ${work}/consumer_pc)
    cmake_path(GET pc PARENT_PATH libraries)
    run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${work}/consumer_pc)
  endif()
endif()
if(EXISTS ${work}/moved/bin/fusec)
  run(${work}/moved/bin/fusec --help)
endif()

# Where the installed programs and libraries look for others.
run(${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/../check_runpaths.py ${work}/moved)

# Our names, weak instantiations of the standard library, type information of functions of built-in types; nothing of
# anyone else's.
file(GLOB libraries ${work}/moved/lib*/libfusec*.so ${work}/moved/lib/*/libfusec*.so)
if(NOT libraries)
  message(FATAL_ERROR "no library was installed")
endif()
foreach(library IN LISTS libraries)
  execute_process(COMMAND nm -D --defined-only --format=just-symbols ${library} OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" names "${names}")
  list(FILTER names EXCLUDE REGEX "^_ZN?K?[A-Z0-9]*5fusec|^_ZT[VISCHW]*N?K?5fusec|^_ZG[VR]*N5fusec|^_ZZ?N?K?St|^_ZT[ISV]N?K?(St|S[a-z])|^_ZT[IS]N9__gnu_cxx|^_ZNK?9__gnu_cxx|^_ZT[IS]P?F[a-zP]+E$|^fusec_[a-z]|^FOMP_|^fmp_|^__bss_start$|^_end$|^_edata$")
  if(library MATCHES "libfusec-ptx-compiler")
    list(FILTER names EXCLUDE REGEX "^nvPTXCompiler[A-Z]")
  endif()
  if(names)
    list(LENGTH names count)
    list(SUBLIST names 0 20 names)
    message(FATAL_ERROR "${library} shows ${count} symbols that are not ours, among them:\n${names}")
  endif()
endforeach()
