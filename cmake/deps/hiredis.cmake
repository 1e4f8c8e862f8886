# SPDX-License-Identifier: Apache-2.0
# fusec_deps::hiredis: the protocol of Redis, for a cache server; used by runtime/cache/redis.cpp alone. The archive is
# preferred, so that what is installed needs no more libraries. Without hiredis, naming a cache server is a warning.
find_path(FUSEC_HIREDIS_INCLUDE hiredis/hiredis.h)
find_library(FUSEC_HIREDIS_LIBRARY NAMES libhiredis.a hiredis)
set(FUSEC_HAVE_HIREDIS OFF)
if(FUSEC_WITH_HIREDIS)  # AUTO is true here
  if(FUSEC_HIREDIS_INCLUDE AND FUSEC_HIREDIS_LIBRARY)
    set(FUSEC_HAVE_HIREDIS ON)
  elseif(NOT FUSEC_WITH_HIREDIS STREQUAL "AUTO")
    message(FATAL_ERROR "hiredis was not found: install libhiredis-dev, or configure with -DFUSEC_WITH_HIREDIS=OFF")
  endif()
endif()
if(FUSEC_HAVE_HIREDIS)
  add_library(fusec_deps_hiredis UNKNOWN IMPORTED GLOBAL)
  add_library(fusec_deps::hiredis ALIAS fusec_deps_hiredis)
  set_target_properties(fusec_deps_hiredis PROPERTIES
    IMPORTED_LOCATION ${FUSEC_HIREDIS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${FUSEC_HIREDIS_INCLUDE})
endif()
