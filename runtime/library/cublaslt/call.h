// SPDX-License-Identifier: Apache-2.0
// A Gemm as cuBLASLt descriptors, and the algorithms that cuBLASLt offers for it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/library/cublaslt/api.h"
#include "runtime/library/cublaslt/gemm.h"

namespace fusec::runtime::cublaslt {

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
};

// At most `most` algorithms, best first by cuBLASLt's estimate. Empty: cuBLASLt has none.
std::vector<LtAlgorithm> find_algorithms(const Handle& handle, const Gemm& gemm, const Limits& limits, int most);

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
