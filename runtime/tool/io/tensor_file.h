// SPDX-License-Identifier: Apache-2.0
// Tensors in files: .npy, which is numpy's format for one array (versions 1 to 3), little-endian; .npz, which is a zip
// archive of these; lists of numbers in JSON; and ONNX TensorProtos where the name ends in .pb.
#pragma once

#include <iosfwd>
#include <map>
#include <string>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

// Row-major, whatever the order in the file. bf16, which numpy lacks, is read from the two-byte void type ("V2") that
// ml_dtypes writes. invalid_argument: no such file, damaged, or a type that fusec lacks.
Result<Tensor> read_npy(const std::string& path);
// The same of `size` bytes of a stream, from where it stands; `path` is for messages.
Result<Tensor> read_npy(const std::string& path, std::istream& in, int64_t size);

// The arrays of np.savez by their names. invalid_argument: no such file, damaged, compressed (as by
// np.savez_compressed), or an array that read_npy refuses.
Result<std::map<std::string, Tensor>> read_npz(const std::string& path);

// Nested lists of numbers and bools, or one alone, as a tensor. invalid_argument, with `what`: lists of unequal length,
// another kind of value, or one that the dtype does not hold.
Result<Tensor> tensor_of_json(const Json& json, DType dtype, const std::string& what);
// invalid_argument: no such file, or no JSON.
Result<Json> read_json(const std::string& path);

// bf16 is written as its bits, in uint16.
Status write_npy(const std::string& path, const Tensor& tensor);

// `tensor` as `dtype`: itself, or its bits when it is the uint16 form of bf16, or the uint8 form of bool; else
// invalid_argument.
Result<Tensor> as_dtype(const Tensor& tensor, DType dtype, const std::string& what);

// A .npy file, or an ONNX TensorProto where the name ends in .pb (unsupported in builds without the importer).
Result<Tensor> read_tensor_file(const std::string& path);

}  // namespace fusec::tool
