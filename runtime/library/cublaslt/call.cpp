// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt with dlopen; functions that only name versions or algorithms are optional. Turns a Gemm into cuBLASLt
// descriptors, queries the heuristics for algorithms (at bind) and runs the product (at run). A run allocates nothing:
// descriptors are on the stack.

#include "runtime/library/cublaslt/call.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "ir/support/hash.h"
#include "ir/support/shared_library.h"
#include "runtime/library/cublaslt/cublaslt.h"

namespace fusec::runtime::cublaslt {

Result<Api> load_api() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kCublasLt));
  return load_functions<Api>(library, "cuBLASLt 12 or newer is needed");
}

namespace {

constexpr std::uintptr_t kAnyAddress = 0x100;

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_of(const Gemm& gemm) {
  if (gemm.compute == DType::f64) return CUBLAS_COMPUTE_64F;
  return gemm.tf32 && gemm.a.dtype == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(const Gemm& gemm) {
  const bool biased = gemm.bias >= 0;
  if (!gemm.activation) return biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (*gemm.activation == ir::ScalarOp::gelu_tanh) return biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
}

// Keeps the first status that is not success.
class Steps {
 public:
  bool operator()(cublasStatus_t status) {
    if (status_ == CUBLAS_STATUS_SUCCESS) status_ = status;
    return status_ == CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t status() const { return status_; }

 private:
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
};

// Descriptors live on the stack. Setting them up allocates nothing and takes well under a microsecond.
struct Descriptors {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, out;

  Descriptors(const Api& api, const Gemm& gemm, const void* bias, Steps& steps) {
    const cudaDataType scale = gemm.compute == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
    steps(api.desc_init(&desc, sizeof(desc), compute_of(gemm), scale));
    set(api, CUBLASLT_MATMUL_DESC_TRANSA, gemm.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, steps);
    set(api, CUBLASLT_MATMUL_DESC_TRANSB, gemm.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, steps);
    set(api, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(gemm), steps);
    if (gemm.bias >= 0) set(api, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, steps);
    layout(api, a, gemm.a, gemm.batch, steps);
    layout(api, b, gemm.b, gemm.batch, steps);
    layout(api, c, gemm.c.arg >= 0 ? gemm.c : gemm.out, gemm.batch, steps);
    layout(api, out, gemm.out, gemm.batch, steps);
  }

 private:
  template <class T>
  void set(const Api& api, cublasLtMatmulDescAttributes_t attribute, const T& value, Steps& steps) {
    steps(api.desc_set(&desc, attribute, &value, sizeof(value)));
  }
  static void layout(const Api& api, cublasLtMatrixLayoutOpaque_t& to, const Matrix& m, int64_t batch, Steps& steps) {
    steps(api.layout_init(&to, sizeof(to), type_of(m.dtype), static_cast<uint64_t>(m.rows),
                          static_cast<uint64_t>(m.columns), m.pitch));
    if (batch == 1) return;
    const auto count = static_cast<int32_t>(batch);
    steps(api.layout_set(&to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
    steps(api.layout_set(&to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_stride, sizeof(m.batch_stride)));
  }
};

struct Preference {
  cublasLtMatmulPreferenceOpaque_t preference;

  Preference(const Api& api, const Limits& limits, Steps& steps) {
    steps(api.preference_init(&preference, sizeof(preference)));
    set(api, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(limits.workspace), steps);
    // Split-K partial sums stay in the compute type.
    const uint32_t schemes =
        limits.whole_sums ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(api, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes, steps);
    const auto alignment = static_cast<uint32_t>(limits.alignment);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(api, attribute, alignment, steps);
    }
  }

 private:
  template <class T>
  void set(const Api& api, cublasLtMatmulPreferenceAttributes_t attribute, const T& value, Steps& steps) {
    steps(api.preference_set(&preference, attribute, &value, sizeof(value)));
  }
};

}  // namespace

Result<std::shared_ptr<const Handle>> Handle::open(const Api& api) {
  auto handle = std::make_shared<Handle>();
  handle->api = api;
  const cublasStatus_t status = api.create(&handle->handle);
  if (status == CUBLAS_STATUS_SUCCESS) return std::shared_ptr<const Handle>(std::move(handle));
  handle->handle = nullptr;
  return Status(StatusCode::device, std::string("cuBLASLt does not start: ") + api.status_string(status));
}

Handle::~Handle() {
  if (handle != nullptr) api.destroy(handle);
}

std::vector<LtAlgorithm> find_algorithms(const Handle& handle, const Gemm& gemm, const Limits& limits, int most) {
  Steps steps;
  // The bias needs a non-null address here; it is not read.
  Descriptors d(handle.api, gemm, reinterpret_cast<const void*>(kAnyAddress), steps);
  Preference preference(handle.api, limits, steps);
  if (steps.status() != CUBLAS_STATUS_SUCCESS) return {};
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  if (!steps(handle.api.heuristic(handle.handle, &d.desc, &d.a, &d.b, &d.c, &d.out, &preference.preference, most,
                                  found.data(), &count))) {
    return {};
  }
  std::vector<LtAlgorithm> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& r = found[static_cast<std::size_t>(i)];
    if (r.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back({r.algo, r.workspaceSize, r.wavesCount});
  }
  return algorithms;
}

Gemm of_any_batch(Gemm gemm, const std::vector<int>& shared) {
  const auto is_shared = [&](const Matrix& m) {
    return std::find(shared.begin(), shared.end(), m.arg) != shared.end();
  };
  const bool by_columns = is_shared(gemm.a);  // rows of ours are columns of cuBLASLt's
  const auto set_rows = [](Matrix& m, bool of_columns) {
    (of_columns ? m.columns : m.rows) = kManyRows;
    m.pitch = std::max(m.pitch, m.rows);
  };
  if (by_columns || is_shared(gemm.b)) {
    Matrix& rows = by_columns ? gemm.b : gemm.a;
    set_rows(rows, by_columns != (by_columns ? gemm.transpose_b : gemm.transpose_a));
    for (Matrix* m : {&gemm.c, &gemm.out}) set_rows(*m, by_columns);
    gemm.batch = 1;
    return gemm;
  }
  if (gemm.batch == 1) {
    for (Matrix* m : {&gemm.a, &gemm.b, &gemm.c, &gemm.out}) m->batch_stride = m->pitch * m->columns;
  }
  gemm.batch = kManyMatrices;
  return gemm;
}

Result<LtAlgorithm> check_algorithm(const Handle& handle, const Gemm& gemm, LtAlgorithm algorithm) {
  if (handle.api.algo_check == nullptr) return Status(StatusCode::unsupported, "it has no cublasLtMatmulAlgoCheck");
  Steps steps;
  Descriptors d(handle.api, gemm, reinterpret_cast<const void*>(kAnyAddress), steps);
  cublasLtMatmulHeuristicResult_t result{};
  steps(handle.api.algo_check(handle.handle, &d.desc, &d.a, &d.b, &d.c, &d.out, &algorithm.algo, &result));
  if (steps.status() != CUBLAS_STATUS_SUCCESS)
    return Status(StatusCode::unsupported, handle.api.status_string(steps.status()));
  algorithm.workspace = result.workspaceSize;
  return algorithm;
}

std::string make_id(const Handle& handle, const LtAlgorithm& algorithm) {
  static constexpr std::pair<cublasLtMatmulAlgoConfigAttributes_t, const char*> kParts[] = {
      {CUBLASLT_ALGO_CONFIG_ID, "algo"},
      {CUBLASLT_ALGO_CONFIG_TILE_ID, "tile"},
      {CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages"},
      {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "splitk"},
      {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, "swizzle"},
      {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, "custom"},
  };
  std::string id;
  for (const auto& [attribute, name] : kParts) {
    uint32_t value = 0;
    std::size_t written = 0;
    if (handle.api.algo_get == nullptr ||
        handle.api.algo_get(&algorithm.algo, attribute, &value, sizeof(value), &written) != CUBLAS_STATUS_SUCCESS) {
      continue;
    }
    id += std::string(name) + "=" + std::to_string(value) + " ";
  }
  char hash[16];
  (void)std::snprintf(hash, sizeof(hash), "#%08x",
                      static_cast<unsigned>(ir::hash64(std::as_bytes(std::span(algorithm.algo.data))) & 0xffffffffU));
  return id + hash;
}

Status run(const Handle& handle, const Gemm& gemm, const LtAlgorithm& algorithm, const Addresses& at) {
  Steps steps;
  Descriptors d(handle.api, gemm, at.bias, steps);
  const float one32 = 1, beta32 = gemm.c.arg >= 0 ? 1 : 0;
  const double one64 = 1, beta64 = beta32;
  const bool is_double = gemm.compute == DType::f64;
  const void* const alpha = is_double ? static_cast<const void*>(&one64) : &one32;
  const void* const beta = is_double ? static_cast<const void*>(&beta64) : &beta32;
  const void* const c = gemm.c.arg >= 0 ? at.c : at.out;
  if (steps.status() == CUBLAS_STATUS_SUCCESS) {
    steps(handle.api.matmul(handle.handle, &d.desc, alpha, at.a, &d.a, at.b, &d.b, beta, c, &d.c, at.out, &d.out,
                            &algorithm.algo, at.workspace, algorithm.workspace, static_cast<cudaStream_t>(at.stream)));
  }
  if (steps.status() == CUBLAS_STATUS_SUCCESS) return {};
  return Status(StatusCode::device, std::string("cuBLASLt: ") + handle.api.status_string(steps.status()));
}

}  // namespace fusec::runtime::cublaslt
