// SPDX-License-Identifier: Apache-2.0
// Tensors in files: .npy, which is numpy's format for one array (versions 1 to 3), little-endian, and ONNX TensorProtos
// where the name ends in .pb.
#pragma once

#include <string>

#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::tool {

// Row-major, whatever the order in the file. bf16, which numpy lacks, is read from the two-byte void type ("V2") that
// ml_dtypes writes. invalid_argument: no such file, damaged, or a type that fusec lacks.
Result<Tensor> read_npy(const std::string& path);
// bf16 is written as its bits, in uint16.
Status write_npy(const std::string& path, const Tensor& tensor);

// `tensor` as `dtype`: itself, or its bits when it is the uint16 form of bf16, or the uint8 form of bool; else
// invalid_argument.
Result<Tensor> as_dtype(const Tensor& tensor, DType dtype, const std::string& what);

// A .npy file, or an ONNX TensorProto where the name ends in .pb (unsupported in builds without the importer).
Result<Tensor> read_tensor_file(const std::string& path);

}  // namespace fusec::tool
