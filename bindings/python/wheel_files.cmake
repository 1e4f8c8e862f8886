# SPDX-License-Identifier: Apache-2.0
# install_built(<lib or bin> <file>): a library or program of the build FUSEC_BUILD, stripped, into this folder of the Python package.
set(FUSEC_BUILD "" CACHE PATH "The folder of a build")
find_program(STRIP strip REQUIRED)
function(install_built folder name)
  if(NOT EXISTS ${FUSEC_BUILD}/${folder}/${name})
    message(FATAL_ERROR "FUSEC_BUILD is '${FUSEC_BUILD}', which has no ${folder}/${name}; run ./dev wheel")
  endif()
  file(REAL_PATH ${FUSEC_BUILD}/${folder}/${name} file)
  install(PROGRAMS ${file} DESTINATION fusec/${folder} RENAME ${name})
  install(CODE "execute_process(COMMAND ${STRIP} \${CMAKE_INSTALL_PREFIX}/fusec/${folder}/${name} COMMAND_ERROR_IS_FATAL ANY)")
endfunction()
