// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::tool {

// A .npy file, or an ONNX TensorProto where the name ends in .pb (unsupported in builds without the importer).
Result<Tensor> read_tensor_file(const std::string& path);

}  // namespace fusec::tool
