// SPDX-License-Identifier: Apache-2.0
// .npy files: numpy's format for one array (versions 1 to 3), little-endian.
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

}  // namespace fusec::tool
