// SPDX-License-Identifier: Apache-2.0
// The calls made of cuBLASLt, done by a fake of it on host memory, against double loops.
#include <gtest/gtest.h>

#if FUSEC_WITH_CUBLASLT

#include <functional>

#include "runtime/library/cublaslt/cublaslt.h"
#include "tests/runtime/cuda_cases.h"
#include "tests/runtime/host_device_memory.h"
#include "tests/runtime/library_case.h"

namespace fusec::runtime {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using testing::Case;
using testing::check;
using testing::Extents;
using testing::make_matmul_attrs;
using testing::Product;
using testing::product_case;
using testing::product_cases;

// What the fake has seen and what it refuses; one test at a time.
struct Seen {
  int calls = 0, narrow_calls = 0, heuristics = 0;
  bool epilogues = true;   // false: it has none, as for some types
  int listed = 1;          // algorithms that it has
  bool lean = true;        // false: it has none without a workspace
  uint64_t algorithm = 0;  // that ran last
  int64_t largest_batch = 0;
  uint64_t compute = 0;
  std::vector<uint64_t> asked;  // columns of the products, times their batches, for which it was asked for algorithms
  bool splits = true;           // whether it was last asked for algorithms that may split sums
  bool serves = true;           // false: an algorithm that is checked does not serve the product
};
Seen seen;

// Words of the opaque descriptors, in the fake's own use.
enum DescWord { kCompute, kScale, kTransA, kTransB, kEpilogue, kBias };
enum LayoutWord { kType, kRows, kColumns, kPitch, kBatch, kBatchStride };
constexpr uint64_t kAlgoMark = 0xA160;

cublasStatus_t fake_create(cublasLtHandle_t* handle) {
  static int object;
  *handle = reinterpret_cast<cublasLtHandle_t>(&object);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t fake_destroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* fake_status(cublasStatus_t) { return "the fake objects"; }

cublasStatus_t fake_desc_init(cublasLtMatmulDesc_t desc, size_t, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = {};
  desc->data[kCompute] = compute, desc->data[kScale] = scale, desc->data[kEpilogue] = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t fake_desc_set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void* value,
                             size_t size) {
  const int word = what == CUBLASLT_MATMUL_DESC_TRANSA         ? kTransA
                   : what == CUBLASLT_MATMUL_DESC_TRANSB       ? kTransB
                   : what == CUBLASLT_MATMUL_DESC_EPILOGUE     ? kEpilogue
                   : what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? kBias
                                                               : -1;
  if (word < 0 || size != (word == kBias ? 8U : 4U)) return CUBLAS_STATUS_INVALID_VALUE;
  desc->data[word] = 0;
  std::memcpy(&desc->data[word], value, size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t fake_layout_init(cublasLtMatrixLayout_t layout, size_t, cudaDataType type, uint64_t rows,
                                uint64_t columns, int64_t pitch) {
  *layout = {};
  const uint64_t words[] = {static_cast<uint64_t>(type), rows, columns, static_cast<uint64_t>(pitch), 1, 0};
  std::copy(std::begin(words), std::end(words), layout->data);
  return rows > 0 && columns > 0 && pitch >= static_cast<int64_t>(rows) ? CUBLAS_STATUS_SUCCESS
                                                                        : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t fake_layout_set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what, const void* value,
                               size_t size) {
  const bool count = what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  if (size != (count ? 4U : 8U)) return CUBLAS_STATUS_INVALID_VALUE;
  layout->data[count ? kBatch : kBatchStride] = 0;
  std::memcpy(&layout->data[count ? kBatch : kBatchStride], value, size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t fake_preference_init(cublasLtMatmulPreference_t preference, size_t) {
  *preference = {};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t fake_preference_set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
                                   const void* value, size_t size) {
  if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    uint32_t mask = 0;
    std::memcpy(&mask, value, size);
    seen.splits = mask != CUBLASLT_REDUCTION_SCHEME_NONE;
    return (mask & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
  if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    std::memcpy(&preference->data[0], value, size);
  } else {
    std::memcpy(&preference->data[1], value, size);
  }
  return CUBLAS_STATUS_SUCCESS;
}

bool agrees(const cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  const bool ta = desc->data[kTransA] == CUBLAS_OP_T, tb = desc->data[kTransB] == CUBLAS_OP_T;
  const uint64_t m = a->data[ta ? kColumns : kRows], k = a->data[ta ? kRows : kColumns];
  const uint64_t k2 = b->data[tb ? kColumns : kRows], n = b->data[tb ? kRows : kColumns];
  return m == d->data[kRows] && n == d->data[kColumns] && k == k2 && c->data[kRows] == m && c->data[kColumns] == n &&
         c->data[kType] == d->data[kType] && a->data[kBatch] == d->data[kBatch] && b->data[kBatch] == d->data[kBatch] &&
         c->data[kBatch] == d->data[kBatch];
}

cublasStatus_t fake_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t* results,
                              int* count) {
  ++seen.heuristics;
  seen.asked.push_back(d->data[kColumns] * d->data[kBatch]);
  *count = 0;
  if (!agrees(desc, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((desc->data[kEpilogue] & CUBLASLT_EPILOGUE_BIAS) != 0 && desc->data[kBias] == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!seen.epilogues && desc->data[kEpilogue] != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = seen.lean || preference->data[0] > 0 ? std::min(most, seen.listed) : 0;
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = kAlgoMark;
    results[i].algo.data[1] = preference->data[1];
    results[i].algo.data[2] = static_cast<uint64_t>(i);
    results[i].algo.data[3] = preference->data[0];
    results[i].workspaceSize = std::min<uint64_t>(preference->data[0], 4096) + static_cast<uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t fake_check(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                          const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (algo->data[0] != kAlgoMark || !agrees(desc, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!seen.serves) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->workspaceSize = std::min<uint64_t>(algo->data[3], 64);
  return CUBLAS_STATUS_SUCCESS;
}

DType dtype_of_cuda(uint64_t type) {
  return type == CUDA_R_64F    ? DType::f64
         : type == CUDA_R_16F  ? DType::f16
         : type == CUDA_R_16BF ? DType::bf16
                               : DType::f32;
}

struct Host {
  cublasLtMatrixLayout_t layout;
  const void* base;
  bool transposed = false;

  DType dtype() const { return dtype_of_cuda(layout->data[kType]); }
  char* at(int64_t batch, int64_t row, int64_t column) const {
    if (transposed) std::swap(row, column);
    const int64_t i = batch * static_cast<int64_t>(layout->data[kBatchStride]) + row +
                      column * static_cast<int64_t>(layout->data[kPitch]);
    return static_cast<char*>(const_cast<void*>(base)) + i * static_cast<int64_t>(size_of(dtype()));
  }
  double get(int64_t batch, int64_t row, int64_t column) const {
    return ir::load_double(dtype(), at(batch, row, column));
  }
};

bool is_at_multiple(const void* p, uint64_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

cublasStatus_t fake_matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                           cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                           const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                           cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                           size_t workspace_bytes, cudaStream_t) {
  if (algo == nullptr || algo->data[0] != kAlgoMark || !agrees(desc, a_layout, b_layout, c_layout, d_layout))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* p : {a, b, c, static_cast<const void*>(d)}) {
    if (!is_at_multiple(p, algo->data[1])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes > 0) std::memset(workspace, 0xEE, workspace_bytes);
  ++seen.calls;
  seen.algorithm = algo->data[2];
  seen.narrow_calls += algo->data[1] < 16;
  seen.compute = desc->data[kCompute];
  seen.largest_batch = std::max(seen.largest_batch, static_cast<int64_t>(d_layout->data[kBatch]));
  const bool is_double = desc->data[kScale] == CUDA_R_64F;
  const auto factor = [&](const void* p) {
    return is_double ? *static_cast<const double*>(p) : static_cast<double>(*static_cast<const float*>(p));
  };
  const Host left{a_layout, a, desc->data[kTransA] == CUBLAS_OP_T},
      right{b_layout, b, desc->data[kTransB] == CUBLAS_OP_T};
  const Host addend{c_layout, c}, out{d_layout, d};
  const auto depth = static_cast<int64_t>(a_layout->data[left.transposed ? kRows : kColumns]);
  const uint64_t epilogue = desc->data[kEpilogue];
  const void* const bias = reinterpret_cast<const void*>(desc->data[kBias]);
  for (int64_t n = 0; n < static_cast<int64_t>(d_layout->data[kBatch]); ++n) {
    for (int64_t j = 0; j < static_cast<int64_t>(d_layout->data[kColumns]); ++j) {
      for (int64_t i = 0; i < static_cast<int64_t>(d_layout->data[kRows]); ++i) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) sum += left.get(n, i, k) * right.get(n, k, j);
        sum *= factor(alpha);
        if (factor(beta) != 0) sum += factor(beta) * addend.get(n, i, j);
        if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
          sum += ir::load_double(out.dtype(),
                                 static_cast<const char*>(bias) + i * static_cast<int64_t>(size_of(out.dtype())));
        }
        if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) sum = sum < 0 ? 0 : sum;
        if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) sum = ir::eval_scalar(ScalarOp::gelu_tanh, sum);
        ir::store_double(out.dtype(), out.at(n, i, j), sum);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublaslt::Api fake_api() {
  return {fake_create,
          fake_destroy,
          fake_status,
          fake_desc_init,
          fake_desc_set,
          fake_layout_init,
          fake_layout_set,
          fake_preference_init,
          fake_preference_set,
          fake_heuristic,
          fake_matmul,
          nullptr,
          nullptr,
          fake_check};
}

class CublasLt : public ::testing::Test {
 protected:
  void SetUp() override { seen = {}; }

  std::shared_ptr<Library> make(const Options& options = {}) {
    auto library = make_cublaslt_library(options, memory_, fake_api());
    EXPECT_TRUE(library.ok());
    return *library;
  }
  std::string run(Case c, double tolerance = 3e-6, int alias = -1) { return check(*make(), c, tolerance, alias); }

  std::shared_ptr<testing::HostDeviceMemory> memory_ = std::make_shared<testing::HostDeviceMemory>();
};

TEST_F(CublasLt, ProductsWithEveryEpilogue) {
  for (const Product& p : product_cases()) {
    for (const char* what : {"", "b", "a", "r", "ba", "br", "ar", "bar"}) {
      SCOPED_TRACE(::testing::PrintToString(p.a) + ::testing::PrintToString(p.b) +
                   ::testing::PrintToString(p.out_strides) + what);
      EXPECT_EQ(run(product_case(p, what)).substr(0, 8), "cublaslt");
    }
  }
}

TEST_F(CublasLt, Types) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f16, 2e-3}, {DType::bf16, 1.6e-2}, {DType::f64, 1e-15}}) {
    for (const Product& p : product_cases()) {
      SCOPED_TRACE(to_string(dtype) + ::testing::PrintToString(p.a) + ::testing::PrintToString(p.out_strides));
      EXPECT_EQ(run(product_case(p, "ba", dtype), tolerance).substr(0, 8), "cublaslt");
    }
  }
  Case c = product_case(product_cases()[0], "", DType::i32);
  EXPECT_TRUE(make()->get_unsupported_reason(*c.step));
}

TEST_F(CublasLt, GeluByTanhOf16BitTypes) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f16, 2e-3}, {DType::bf16, 1.6e-2}}) {
    for (const Product& p : product_cases()) {
      SCOPED_TRACE(to_string(dtype) + ::testing::PrintToString(p.a) + ::testing::PrintToString(p.out_strides));
      for (const char* what : {"g", "bg"})
        EXPECT_EQ(run(product_case(p, what, dtype), tolerance).substr(0, 8), "cublaslt");
    }
  }
  for (const auto& [what, dtype] : {std::pair{"bg", DType::f32}, {"ag", DType::f16}})
    EXPECT_EQ(run(product_case(product_cases()[0], what, dtype)), "unsupported: cuBLASLt has no such epilogue");
  Options exact;
  exact.numerics = Numerics::exact;
  Case c = product_case(product_cases()[0], "g", DType::f16);
  EXPECT_EQ(check(*make(exact), c), "unsupported: cuBLASLt rounds behind its gelu alone, and by a formula of its own");
}

// Rows that no stride merges with the batches before them are the longer of both where one matrix serves all of them.
TEST_F(CublasLt, ManyBatchesOfFewRowsAreFewBatchesOfManyRows) {
  const Product few{{9, 2, 7}, {7, 4}, {9, 2, 4}, false, false, {7, 63, 1}};
  for (const char* what : {"", "b", "a", "bar"}) EXPECT_EQ(run(product_case(few, what)).substr(0, 8), "cublaslt");
  EXPECT_EQ(seen.largest_batch, 2);
  seen = {};
  const Product own{{9, 2, 7}, {9, 7, 4}, {9, 2, 4}, false, false, {7, 63, 1}};
  EXPECT_EQ(run(product_case(own)), "cublaslt");
  EXPECT_EQ(seen.largest_batch, 9);
  seen = {};  // two tiles of rows for one
  const Product wide{{72, 64, 2}, {2, 3}, {72, 64, 3}, false, false, {2, 144, 1}};
  EXPECT_EQ(run(product_case(wide)), "cublaslt");
  EXPECT_EQ(seen.largest_batch, 72);
}

// Heads of several samples: no single stride describes them.
TEST_F(CublasLt, SeveralCallsRunSideBySideWithoutAWorkspace) {
  const Product heads{{2, 3, 10, 8}, {2, 3, 8, 10}, {2, 3, 10, 10}, false, false, {240, 8, 24, 1}, {240, 8, 1, 24}};
  Options invariant;
  invariant.batch_invariant = true;
  for (const bool lean : {true, false}) {
    for (const Options& options : {Options(), invariant}) {
      seen = {};
      seen.lean = lean;
      Case c = product_case(heads);
      EXPECT_EQ(check(*make(options), c), "cublaslt x2");
      const bool beside = lean && !options.batch_invariant;
      const auto op = make(options)->bind(c.call);
      ASSERT_TRUE(op.ok());
      EXPECT_EQ((*op)->calls(), beside ? 2U : 1U);
      EXPECT_EQ((*op)->limited_bytes() == 0, beside);
    }
  }
}

TEST_F(CublasLt, OneCallWhereStridesAllow) {
  EXPECT_EQ(run(product_case(product_cases()[6], "bar")), "cublaslt");
  EXPECT_EQ(seen.largest_batch, 12);
  EXPECT_EQ(run(product_case(product_cases()[7], "br")), "cublaslt");  // batches are rows
  EXPECT_EQ(run(product_case(product_cases()[13])), "cublaslt x2");    // two batch axes that do not merge
  EXPECT_EQ(run(product_case(product_cases()[15])), "cublaslt");
  EXPECT_EQ(memory_->made, 0);
}

// A bias across cuBLASLt's is a product of its own, with ones that are uploaded once.
TEST_F(CublasLt, BiasByAProduct) {
  const auto library = make();
  for (int i = 0; i < 2; ++i) {
    Case c = product_case(product_cases()[15], "bar");
    EXPECT_EQ(check(*library, c), "cublaslt x2");
  }
  EXPECT_EQ(memory_->made, 1);
  seen.epilogues = false;
  Case c = product_case(product_cases()[0], "ba");
  EXPECT_EQ(check(*library, c), "cublaslt x2");
  Case relu = product_case(product_cases()[0], "r");
  EXPECT_EQ(check(*library, relu).substr(0, 11), "unsupported");
}

TEST_F(CublasLt, FreesWhatItUploads) {
  run(product_case(product_cases()[15], "b"));
  EXPECT_EQ(memory_->made, 1);
  EXPECT_EQ(memory_->alive, 0);
}

TEST_F(CublasLt, AddendInPlace) {
  EXPECT_EQ(run(product_case(product_cases()[0], "bar"), 3e-6, 3), "cublaslt");
  EXPECT_EQ(run(product_case(product_cases()[6], "a"), 3e-6, 2), "cublaslt");
  Case broadcast(TensorOp::matmul, make_matmul_attrs());
  broadcast.add({5, 7});
  broadcast.add({7, 9});
  broadcast.epilogue(ScalarOp::add, broadcast.add({5, 1}));
  broadcast.add({5, 9});
  auto op = make()->bind(broadcast.call);
  ASSERT_TRUE(op.ok());
  EXPECT_TRUE((*op)->may_alias().empty());
  check(*make(), broadcast);
}

// Bias, addend and relu of zeros.
TEST_F(CublasLt, NothingToSum) {
  for (const char* what : {"", "b", "bar"}) {
    SCOPED_TRACE(what);
    EXPECT_EQ(run(product_case({{5, 0}, {0, 9}, {5, 9}}, what)), "cublaslt");
    EXPECT_EQ(run(product_case({{3, 2, 5, 0}, {2, 0, 9}, {3, 2, 5, 9}}, what)), "cublaslt");
  }
}

// Addresses that are no multiples of 16 bytes take the algorithm that was asked for such.
TEST_F(CublasLt, NarrowAddresses) {
  run(product_case({{4, 4}, {4, 4}, {4, 4}}));
  EXPECT_EQ(seen.narrow_calls, 0);
  const Product p{{3, 2, 5, 7}, {3, 2, 7, 9}, {3, 2, 5, 9}, false, false, {}, {}, {90, 9, 18, 1}};
  run(product_case(p));
  EXPECT_GT(seen.narrow_calls, 0);
  EXPECT_LT(seen.narrow_calls, seen.calls);
}

TEST_F(CublasLt, PointwiseConvolutions) {
  const ir::Attrs attrs{{"strides", Extents{1, 1}},
                        {"pads", Extents{0, 0, 0, 0}},
                        {"dilations", Extents{1, 1}},
                        {"groups", int64_t{1}},
                        {"layout", std::string("last")}};
  for (const int64_t pitch : {16, 27}) {
    Case c(TensorOp::conv, attrs);
    c.add({2, 5, 7, 16}, {35 * pitch, 7 * pitch, pitch, 1});
    c.add({24, 16, 1, 1}, {}, true);
    c.step->bias = c.add({24}, {}, true);
    c.epilogue(ScalarOp::add, c.add({2, 5, 7, 24}));
    c.epilogue(ScalarOp::relu);
    c.add({2, 5, 7, 24});
    EXPECT_EQ(run(std::move(c)), "cublaslt");
  }
  ir::Attrs first = attrs;
  first.set("layout", std::string("first"));
  Case planes(TensorOp::conv, first);
  planes.add({2, 16, 5, 7});
  planes.add({24, 16, 1, 1}, {}, true);
  planes.add({2, 24, 5, 7});
  EXPECT_EQ(run(std::move(planes)).substr(0, 11), "unsupported");
}

TEST_F(CublasLt, Tf32IsAskedForByOptionAlone) {
  run(product_case(product_cases()[0]));
  EXPECT_EQ(seen.compute, static_cast<uint64_t>(CUBLAS_COMPUTE_32F));
  Options options;
  options.tf32 = true;
  Case c = product_case(product_cases()[0]);
  check(*make(options), c);
  EXPECT_EQ(seen.compute, static_cast<uint64_t>(CUBLAS_COMPUTE_32F_FAST_TF32));
}

// One algorithm for all batches: it is asked for by a product of many rows, or of many matrices.
TEST_F(CublasLt, BatchInvariantAlgorithms) {
  Options options;
  options.batch_invariant = true;
  const auto library = make(options);
  for (const Extents& rows : {Extents{1}, Extents{5}, Extents{3, 70}}) {
    for (const bool transposed : {false, true}) {
      Case weighted(TensorOp::matmul, make_matmul_attrs(false, transposed));
      Extents in = rows, out = rows;
      if (rows.size() == 1) in.insert(in.begin(), 1), out.insert(out.begin(), 1);
      in.push_back(7), out.push_back(9);
      weighted.add(in);
      weighted.add(transposed ? Extents{9, 7} : Extents{7, 9}, {}, transposed);  // constant, or made once for all runs
      weighted.add(out);
      seen.asked.clear();
      EXPECT_EQ(check(*library, weighted), "cublaslt");
      EXPECT_EQ(seen.asked, (std::vector<uint64_t>{65536, 65536}));  // for wide and for narrow addresses
      EXPECT_FALSE(seen.splits);
    }
  }
  for (const int64_t samples : {1, 3}) {
    Case computed(TensorOp::matmul, make_matmul_attrs());
    computed.add({samples, 5, 7});
    computed.add({samples, 7, 9});
    computed.add({samples, 5, 9});
    seen.asked.clear();
    EXPECT_EQ(check(*library, computed), "cublaslt");
    EXPECT_EQ(seen.asked, (std::vector<uint64_t>{uint64_t{4096} * 5, uint64_t{4096} * 5}));
  }
  for (const Product& p : product_cases()) {
    for (const char* what : {"", "ba", "bar"}) {
      SCOPED_TRACE(::testing::PrintToString(p.a) + ::testing::PrintToString(p.b) + what);
      Case c = product_case(p, what);
      EXPECT_EQ(check(*library, c).substr(0, 8), "cublaslt");
    }
  }
  seen.serves = false;
  Case c = product_case(product_cases()[0]);
  const auto op = library->bind(c.call);
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(op.status().message().find("the fake objects"), std::string::npos);
}

TEST_F(CublasLt, WorkspaceKeepsToTheLimit) {
  Options options;
  options.workspace_limit = 100;
  Case c = product_case(product_cases()[0]);
  auto op = make(options)->bind(c.call);
  ASSERT_TRUE(op.ok());
  EXPECT_EQ((*op)->workspace_bytes(), 100U + 256U);
}

TEST_F(CublasLt, Choices) {
  seen.listed = 20;
  const auto library = make();
  Case c = product_case(product_cases()[0], "bar");
  const std::vector<Algorithm> algorithms = library->algorithms(c.call);
  ASSERT_EQ(algorithms.size(), 16U);
  EXPECT_EQ(library->algorithms(c.call)[3].id, algorithms[3].id);
  EXPECT_EQ(algorithms[3].workspace, 4096U + 3U);
  check(*library, c);
  EXPECT_EQ(seen.algorithm, 0U);
  c.call.algorithm = algorithms[3].id;
  const auto fresh = library->clone(0);
  EXPECT_EQ(check(*fresh, c), "cublaslt");
  EXPECT_EQ(seen.algorithm, 3U);
  seen.listed = 2;  // another day
  EXPECT_EQ(check(*library, c), "unsupported: cuBLASLt does not list this algorithm");
  EXPECT_TRUE(library->algorithms(product_case({{5, 0}, {0, 9}, {5, 9}}).call).empty());
}

// A bias across cuBLASLt's takes two products: the choice is of the one that multiplies.
TEST_F(CublasLt, ChoicesOfTheProductThatCounts) {
  seen.listed = 3;
  Case c = product_case(product_cases()[15], "bar");
  const auto library = make();
  c.call.algorithm = library->algorithms(c.call)[2].id;
  EXPECT_EQ(check(*library, c), "cublaslt x2");
  EXPECT_EQ(seen.algorithm, 2U);
}

TEST_F(CublasLt, Refusals) {
  const auto refused = [&](Case c) { return run(std::move(c)); };
  Case gelu = product_case(product_cases()[0]);
  gelu.epilogue(ScalarOp::gelu);
  EXPECT_EQ(refused(std::move(gelu)), "unsupported: cuBLASLt has no such epilogue");
  Case late(TensorOp::matmul, make_matmul_attrs());
  late.add({5, 7});
  late.add({7, 9});
  late.epilogue(ScalarOp::relu);
  late.epilogue(ScalarOp::add, late.add({5, 9}));
  late.add({5, 9});
  EXPECT_EQ(refused(std::move(late)), "unsupported: cuBLASLt does nothing after relu");
}

// In exact numerics alone: some of cuBLASLt's algorithms lose NaN in their relu.
TEST_F(CublasLt, NoReluWhereNanMustBeKept) {
  for (const Numerics numerics : {Numerics::precise, Numerics::fast, Numerics::exact}) {
    Options options;
    options.numerics = numerics;
    Case with = product_case(product_cases()[0], "bar"), without = product_case(product_cases()[0], "ba");
    for (const auto& library : {make(options), make(options)->clone(0)}) {
      EXPECT_EQ(check(*library, with), numerics == Numerics::exact
                                           ? "unsupported: some of cuBLASLt's algorithms make 0 of NaN in their relu"
                                           : "cublaslt");
      EXPECT_EQ(check(*library, without), "cublaslt");
    }
  }
}

}  // namespace
}  // namespace fusec::runtime

#endif
