# SPDX-License-Identifier: Apache-2.0
# cmake --install build/release --prefix <folder>: libraries, public headers, the fusec command, and a CMake package
#   find_package(fusec 0.1 CONFIG COMPONENTS onnx)  ->  fusec::fusec, fusec::runtime, fusec::onnx, fusec::c, fusec::c-runtime
include(CMakePackageConfigHelpers)

set(_fusec_package ${CMAKE_INSTALL_LIBDIR}/cmake/fusec)
# The component `runtime` runs packages; `compiler` has all else.
foreach(_library libfusec-runtime libfusec-c-runtime libfusec libfusec-onnx libfusec-c)
  set(_component compiler)
  if(_library MATCHES "-runtime$")
    set(_component runtime)
  endif()
  if(TARGET ${_library})
    install(TARGETS ${_library} EXPORT fusec LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${_component})
  endif()
endforeach()
if(TARGET onnxruntime_ep_fusec)  # opened by ONNX Runtime
  install(TARGETS onnxruntime_ep_fusec LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries)
endif()
if(TARGET fusec-ptx-compiler)  # opened at run time: nobody links it
  install(TARGETS fusec-ptx-compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler)
endif()
if(TARGET libfusec-runtime)
  install(EXPORT fusec NAMESPACE fusec:: FILE fusecTargets.cmake DESTINATION ${_fusec_package} COMPONENT compiler)
endif()
if(TARGET triton_fusec)  # opened by tritonserver --backend-directory
  install(TARGETS triton_fusec LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/triton/fusec COMPONENT libraries)
endif()
if(TARGET fusec)
  install(TARGETS fusec RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  install(TARGETS fusec-compiler RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
  # The manual page and completions, as the command prints them.
  foreach(_page "reference man fusec.1" "completion bash fusec.bash" "completion zsh _fusec" "completion fish fusec.fish")
    separate_arguments(_page)
    list(GET _page 0 _command)
    list(GET _page 1 _form)
    list(GET _page 2 _file)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:fusec-compiler>\" ${_command} ${_form}
      OUTPUT_FILE \"${PROJECT_BINARY_DIR}/${_file}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT compiler)
  endforeach()
  install(FILES ${PROJECT_BINARY_DIR}/fusec.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT compiler)
  install(FILES ${PROJECT_BINARY_DIR}/fusec.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME fusec
    COMPONENT compiler)
  install(FILES ${PROJECT_BINARY_DIR}/_fusec DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT compiler)
  install(FILES ${PROJECT_BINARY_DIR}/fusec.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT compiler)
endif()
if(TARGET libfusec-c)  # for builds without CMake
  file(RELATIVE_PATH _prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/fusec-c.pc.in ${PROJECT_BINARY_DIR}/fusec-c.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/fusec-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT compiler)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fusec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT compiler)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# The licences of others, as their packages on this machine have them, and the list of these as SPDX where `./dev sbom` wrote it.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/cmake/third_party.py\" notices
  \"${PROJECT_BINARY_DIR}/THIRD_PARTY_NOTICES\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT runtime)
install(FILES ${PROJECT_BINARY_DIR}/THIRD_PARTY_NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES ${PROJECT_BINARY_DIR}/fusec.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime OPTIONAL)
if(FUSEC_HAVE_DNNL)
  get_target_property(_file fusec_deps_dnnl IMPORTED_LOCATION)
  file(REAL_PATH ${_file} _file)
  install(FILES ${_file} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  file(GLOB _notices ${_fusec_dnnl}/*.data/data/share/doc/onednn/*)
  install(FILES ${_notices} DESTINATION ${CMAKE_INSTALL_DOCDIR}/onednn COMPONENT runtime)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fusecConfig.cmake.in ${PROJECT_BINARY_DIR}/fusecConfig.cmake
  INSTALL_DESTINATION ${_fusec_package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fusecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fusecConfig.cmake ${PROJECT_BINARY_DIR}/fusecConfigVersion.cmake
  DESTINATION ${_fusec_package} COMPONENT compiler)
include(${CMAKE_CURRENT_LIST_DIR}/FusecPackages.cmake)
