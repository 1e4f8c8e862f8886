// SPDX-License-Identifier: Apache-2.0
// A matrix product in cuBLASLt's form, as plain data: out = relu(a b + c + bias) over column-major matrices.
//
// Our matrices are row-major. If rows of the output are contiguous, the call therefore computes out^T = b^T a^T:
// cuBLASLt's first matrix is then our right one, and its bias, one value per row, is ours, one per column. Axes that no
// pitch describes (a matrix without a contiguous axis, broadcast rows) become batches. Batches that no single stride
// describes become separate calls.
#pragma once

#include <string>
#include <vector>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::cublaslt {

// Element (i, j) of matrix n lies at n * batch_stride + i + j * pitch.
struct Matrix {
  int arg = -1;  // index in the call's arguments; -1: there is none
  DType dtype = DType::f32;
  int64_t rows = 1, columns = 1, pitch = 1, batch_stride = 0;
};

// Where the matrices of one call begin, in elements.
struct Offsets {
  int64_t a = 0, b = 0, c = 0, out = 0;
};

struct Gemm {
  Matrix a, b, c, out;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  int bias = -1;  // argument with out.rows values
  bool relu = false;
  DType compute = DType::f32;
  bool tf32 = false;
  std::vector<Offsets> calls;
};

// The products that solve a problem, in order. There are two if the bias does not run along cuBLASLt's bias axis: the
// first stores ones * bias + c in the output, the second adds the product. `ones`: the argument index of a column of
// `ones_needed` ones, in the type of the operands. The caller has called merge_axes. `unsupported`: cuBLASLt lacks
// something.
struct Matmuls {
  std::vector<Gemm> gemms;
  int64_t ones_needed = 0;
  int addend = -1;  // argument that is c; -1: none
};
Result<Matmuls> plan_matmul(const Problem& problem, int ones, bool tf32);
// The same with the bias as a separate product, even where cuBLASLt could add it.
Result<Matmuls> plan_split(const Problem& problem, int ones, bool tf32);

}  // namespace fusec::runtime::cublaslt
