# SPDX-License-Identifier: Apache-2.0
# fusec_deps::sodium: Ed25519 of libsodium, for signed packages; used by runtime/package/signature.cpp alone. The
# archive is preferred, so that what is installed needs no more libraries. Debian compiles it for programs, which does
# for shared libraries too where its symbols are hidden (--exclude-libs in FusecLibraries.cmake). Without libsodium
# --sign and --verify-key are unsupported.
find_path(FUSEC_SODIUM_INCLUDE sodium.h)
find_library(FUSEC_SODIUM_LIBRARY NAMES libsodium.a sodium)
set(FUSEC_HAVE_SODIUM OFF)
if(FUSEC_WITH_SODIUM)  # AUTO is true here
  if(FUSEC_SODIUM_INCLUDE AND FUSEC_SODIUM_LIBRARY)
    set(FUSEC_HAVE_SODIUM ON)
  elseif(NOT FUSEC_WITH_SODIUM STREQUAL "AUTO")
    message(FATAL_ERROR "libsodium was not found: install libsodium-dev, or configure with -DFUSEC_WITH_SODIUM=OFF")
  endif()
endif()
if(FUSEC_HAVE_SODIUM)
  add_library(fusec_deps_sodium UNKNOWN IMPORTED GLOBAL)
  add_library(fusec_deps::sodium ALIAS fusec_deps_sodium)
  set_target_properties(fusec_deps_sodium PROPERTIES
    IMPORTED_LOCATION ${FUSEC_SODIUM_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${FUSEC_SODIUM_INCLUDE})
endif()
