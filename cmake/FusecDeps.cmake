# SPDX-License-Identifier: Apache-2.0
# Everything that is not ours, each as one imported target. Nothing is fetched here: Debian packages and the pinned
# packages under FUSEC_DEPS_DIR are put in place by `./dev setup`.

find_package(Threads REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
add_compile_definitions(FUSEC_WITH_LLVM=$<BOOL:${FUSEC_WITH_LLVM}> FUSEC_WITH_ONNX=$<BOOL:${FUSEC_WITH_ONNX}>)

# fusec_pinned(<out> <name>): the folder that `./dev setup` unpacks a package of cmake/deps/pinned.txt into.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/deps/pinned.txt _fusec_pins REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/deps/pinned.txt)
macro(fusec_pinned out name)
  foreach(_fusec_pin IN LISTS _fusec_pins)
    if(_fusec_pin MATCHES "^${name}==([^ ]+) ")
      set(${out} ${FUSEC_DEPS_DIR}/${name}-${CMAKE_MATCH_1})
    endif()
  endforeach()
endmacro()

include(deps/llvm)
include(deps/onnx)
include(deps/dnnl)
include(deps/sodium)
include(deps/hiredis)
include(deps/cuda)
include(deps/cudnn_frontend)

if(FUSEC_BUILD_TOOL)
  find_package(CLI11 REQUIRED)
endif()
