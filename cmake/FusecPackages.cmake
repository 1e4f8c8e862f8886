# SPDX-License-Identifier: Apache-2.0
# cpack -G DEB in the build folder: two Debian packages, fusec-runtime, which runs .fsc packages, and fusec-compiler, which holds the
# other libraries, the compiler behind the command, headers, and files for CMake and pkg-config.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fusec)
set(CPACK_PACKAGE_VENDOR fusec)
set(CPACK_PACKAGE_CONTACT "fusec maintainers <fusec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime compiler)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME fusec-runtime)
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME fusec-compiler)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "fusec-runtime (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Runs neural networks that fusec compiled into packages (.fsc).")
set(CPACK_COMPONENT_COMPILER_DESCRIPTION
  "Compiles neural networks for CPUs and NVIDIA GPUs: libraries for C and C++, the compiler of the fusec command, and files for builds.")
include(CPack)
