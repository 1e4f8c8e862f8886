// SPDX-License-Identifier: Apache-2.0
// A Gemm as cuBLASLt descriptors, and the algorithms that cuBLASLt offers for it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/library/cublaslt/cublaslt.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::cublaslt {

// A matrix product in cuBLASLt's form, as plain data: out = activation(a b + c + bias) over column-major matrices.
//
// Our matrices are row-major. If rows of the output are contiguous, the call therefore computes out^T = b^T a^T:
// cuBLASLt's first matrix is then our right one, and its bias, one value per row, is ours, one per column. Axes that no
// pitch describes (a matrix without a contiguous axis, broadcast rows) become batches. Batches that no single stride
// describes become separate calls.

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
  int bias = -1;                           // argument with out.rows values
  std::optional<ir::ScalarOp> activation;  // relu or gelu_tanh
  DType compute = DType::f32;
  bool tf32 = false;
  std::vector<Offsets> calls;
};

// The products that solve a problem, in order. There are two if the bias does not run along cuBLASLt's bias axis: the
// first stores ones * bias + c in the output, the second adds the product. `ones`: the argument index of a column of
// `ones_needed` ones, in the type of the operands. An activation then follows c. The caller has called merge_axes.
// `unsupported`: cuBLASLt lacks something.
struct Matmuls {
  std::vector<Gemm> gemms;
  int64_t ones_needed = 0;
  int addend = -1;  // argument that is c; -1: none
};
Result<Matmuls> plan_matmul(const Problem& problem, int ones, bool tf32);
// The same with the bias as a separate product, even where cuBLASLt could add it.
Result<Matmuls> plan_split(const Problem& problem, int ones, bool tf32);

// Owns a cuBLASLt handle, which is thread-safe.
struct Handle {
  Api api;
  cublasLtHandle_t handle = nullptr;

  static Result<std::shared_ptr<const Handle>> open(const Api& api);
  Handle() = default;
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

// One algorithm for a Gemm. cuBLASLt's default algorithm choice depends on free memory, so we always pass one
// explicitly.
struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo{};
  std::size_t workspace = 0;
  float waves = 0;
};

struct Limits {
  std::size_t workspace = 0;
  std::size_t alignment = 16;  // every address is a multiple of this many bytes
  bool whole_sums = false;     // no algorithm that splits sums, in parts that may depend on the number of rows
};

// At most `most` algorithms, best first by cuBLASLt's estimate. Empty: cuBLASLt has none.
std::vector<LtAlgorithm> find_algorithms(const Handle& handle, const Gemm& gemm, const Limits& limits, int most);

// The product by which an algorithm is chosen that serves every batch: one product of kManyRows rows by a matrix that
// the samples share, whose argument is in `shared`, or kManyMatrices products of as many rows as this one.
// So many that there is no reason to spread a sum over multiprocessors, which cuBLASLt's kernels do without saying so.
inline constexpr int64_t kManyRows = 65536, kManyMatrices = 4096;
Gemm of_any_batch(Gemm gemm, const std::vector<int>& shared);

// The algorithm with the workspace that it needs for this product. `unsupported`: it does not run it, or this version
// of cuBLASLt cannot say.
Result<LtAlgorithm> check_algorithm(const Handle& handle, const Gemm& gemm, LtAlgorithm algorithm);

// The algorithm's parameters and a hash of its whole configuration: "algo=66 tile=20 stages=36 splitk=1 cluster=3
// #1a2b3c4d".
std::string make_id(const Handle& handle, const LtAlgorithm& algorithm);

// The addresses of one call.
struct Addresses {
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void *out = nullptr, *workspace = nullptr, *stream = nullptr;
};

Status run(const Handle& handle, const Gemm& gemm, const LtAlgorithm& algorithm, const Addresses& at);

}  // namespace fusec::runtime::cublaslt
