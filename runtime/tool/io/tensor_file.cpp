// SPDX-License-Identifier: Apache-2.0
// Reads a tensor from a .npy file or, in builds with the importer, from an ONNX TensorProto (.pb).

#include "runtime/tool/io/tensor_file.h"

#include <fmt/format.h>

#if FUSEC_WITH_ONNX
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/proto.h"
#endif

namespace fusec::tool {
namespace {

#if FUSEC_WITH_ONNX
Result<Tensor> read_pb(const std::string& path) try {
  ImportOptions options;
  options.model_dir = importer::get_parent_folder(path);
  FUSEC_ASSIGN(const std::vector<uint8_t> bytes, importer::read_file(path, options.limits.model_bytes));
  importer::proto::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(StatusCode::invalid_argument, fmt::format("'{}' is no ONNX TensorProto", path));
  }
  importer::TensorSource source;
  source.options = &options;
  return importer::read_tensor(proto, source);
} catch (const importer::ImportError& error) {
  return Status(error.status).with_note(fmt::format("while reading '{}'", path));
}
#else
Result<Tensor> read_pb(const std::string& path) {
  return Status(StatusCode::unsupported, fmt::format("'{}': this build reads no ONNX, only .npy", path));
}
#endif

}  // namespace

Result<Tensor> read_tensor_file(const std::string& path) {
  return path.ends_with(".pb") ? read_pb(path) : read_npy(path);
}

}  // namespace fusec::tool
