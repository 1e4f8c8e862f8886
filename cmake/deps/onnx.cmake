# SPDX-License-Identifier: Apache-2.0
# fusec_deps::onnx: onnx's own C++ tree (parser, checker, schemas, inliner, shape inference, version converter) under the
# namespace fusec_onnx. Used by compiler/import/onnx and compiler/export/onnx alone. It is built once by `./dev setup` (cmake/onnx_tree) and shared by
# all presets, so no preset ever compiles it. See docs/decisions/001-onnx-source-tree.md.
if(NOT FUSEC_WITH_ONNX)
  return()
endif()
find_package(Protobuf REQUIRED)
fusec_pinned(_fusec_onnx onnx)
if(NOT EXISTS ${_fusec_onnx}/build/libfusec_onnx_tree.a)
  message(FATAL_ERROR "The onnx tree is not in ${_fusec_onnx}: run ./dev setup, or configure with -DFUSEC_WITH_ONNX=OFF")
endif()
add_library(fusec_deps_onnx STATIC IMPORTED GLOBAL)
add_library(fusec_deps::onnx ALIAS fusec_deps_onnx)
set_target_properties(fusec_deps_onnx PROPERTIES IMPORTED_LOCATION ${_fusec_onnx}/build/libfusec_onnx_tree.a)
target_include_directories(fusec_deps_onnx SYSTEM INTERFACE ${_fusec_onnx}/build/generated ${_fusec_onnx})
target_compile_definitions(fusec_deps_onnx INTERFACE ONNX_NAMESPACE=fusec_onnx ONNX_ML=1 __ONNX_NO_DOC_STRINGS)
# protobuf of `./dev setup` where it is there: inside of our libraries and programs, so that no other protobuf of a process
# meets it. Headers and archive are of one version of Debian's package.
set(_fusec_protobuf ${FUSEC_DEPS_DIR}/protobuf/libprotobuf.a)
if(EXISTS ${_fusec_protobuf})
  target_include_directories(fusec_deps_onnx SYSTEM INTERFACE ${Protobuf_INCLUDE_DIRS})
  target_link_libraries(fusec_deps_onnx INTERFACE ${_fusec_protobuf} Threads::Threads)
else()
  target_link_libraries(fusec_deps_onnx INTERFACE protobuf::libprotobuf)
endif()
