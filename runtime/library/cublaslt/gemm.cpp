// SPDX-License-Identifier: Apache-2.0
// Plans a normalized matmul as cuBLASLt products at bind time: chooses row- or column-major form, turns irregular axes
// into batches or separate calls, and places bias and addend. It is pure arithmetic on strides and calls no library.

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/library/cublaslt/call.h"

namespace fusec::runtime::cublaslt {
namespace {

constexpr int64_t kMaxCalls = 4096;

enum { kA, kB, kC, kOut, kOperands };

// An axis of the product with its stride in each operand; 0 in operands that lack it.
struct Axis {
  int64_t extent = 1;
  int64_t strides[kOperands] = {};
};

struct Matmul {
  Axis m, n, k;
  std::vector<Axis> batches;
  bool has_c = false;
};

Matmul make_matmul(const Problem& p, const CallOperand* c) {
  const CallOperand &a = p[Role::input], &b = p[Role::weight], &result = p[Role::output];
  const std::size_t r = result.dims.size() - 2;
  const auto axis = [&](std::size_t i, std::size_t in_a, std::size_t in_b) {
    Axis out{result.dims[i], {}};
    out.strides[kA] = in_a < r + 2 ? a.strides[in_a] : 0;
    out.strides[kB] = in_b < r + 2 ? b.strides[in_b] : 0;
    out.strides[kC] = c != nullptr ? c->strides[i] : 0;
    out.strides[kOut] = result.strides[i];
    return out;
  };
  const std::size_t none = r + 2;
  Matmul product{
      axis(r, r, none), axis(r + 1, none, r + 1), {a.dims[r + 1], {a.strides[r + 1], b.strides[r]}}, {}, c != nullptr};
  for (std::size_t i = 0; i < r; ++i) {
    if (result.dims[i] > 1) product.batches.push_back(axis(i, i, i));
  }
  return product;
}

// Whether a matrix with these axes is column-major with a pitch.
bool fits(const Axis& rows, const Axis& columns, int operand) {
  const bool contiguous = rows.extent == 1 || rows.strides[operand] == 1;
  return contiguous && (columns.extent == 1 || columns.strides[operand] >= rows.extent);
}
bool fits_either(const Axis& rows, const Axis& columns, int operand) {
  return fits(rows, columns, operand) || fits(columns, rows, operand);
}

bool fits_output(const Matmul& p, const Axis& rows, const Axis& columns) {
  return fits(rows, columns, kOut) && (!p.has_c || fits(rows, columns, kC));
}

void to_batch(Matmul& p, Axis& axis) {
  p.batches.push_back(axis);
  axis = Axis{};
}

// The rows that a kernel computes for so many: it works on whole tiles.
int64_t padded_rows(int64_t rows) {
  constexpr int64_t kTile = 128, kSmallTile = 64;
  return rows <= kSmallTile ? kSmallTile : (rows + kTile - 1) / kTile * kTile;
}

// Exchanges the rows with a batch of rows that are multiplied with the same matrix, if kernels then compute fewer:
// 197 products of 8 rows, say, are 8 of 197.
void choose_rows(Matmul& p) {
  for (Axis& axis : p.batches) {
    if (axis.strides[kB] != 0 || !fits_either(axis, p.k, kA) || !fits(p.n, axis, kOut)) continue;
    if (p.has_c && !fits(p.n, axis, kC)) continue;
    if (padded_rows(axis.extent) * p.m.extent < padded_rows(p.m.extent) * axis.extent) std::swap(axis, p.m);
  }
}

// Turns rows or columns into batches until every matrix has a pitch. False if that does not suffice.
bool make_regular(Matmul& p) {
  for (int round = 0; round < 3; ++round) {
    const bool a = fits_either(p.m, p.k, kA), b = fits_either(p.k, p.n, kB);
    const bool out = fits_output(p, p.m, p.n) || fits_output(p, p.n, p.m);
    if (a && b && out) return true;
    if (a && b && round == 0) {
      // The shorter axis becomes a batch, so that the product keeps the longer one.
      to_batch(p, p.m.extent <= p.n.extent ? p.m : p.n);
    } else if (!a && p.m.extent > 1) {
      to_batch(p, p.m);
    } else if (!b && p.n.extent > 1) {
      to_batch(p, p.n);
    } else {
      to_batch(p, p.m.extent > 1 ? p.m : p.n);
    }
  }
  return false;
}

// The batch axis for cuBLASLt: the longest whose strides are not negative.
std::optional<std::size_t> inner_batch(const Matmul& p) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < p.batches.size(); ++i) {
    const Axis& axis = p.batches[i];
    const bool forward = std::all_of(axis.strides, axis.strides + kOperands, [](int64_t s) { return s >= 0; });
    if (forward && axis.strides[kOut] > 0 && (!best || axis.extent > p.batches[*best].extent)) best = i;
  }
  return best;
}

Result<std::vector<Offsets>> list_calls(const std::vector<Axis>& loops) {
  std::vector<Offsets> calls{{}};
  for (const Axis& axis : loops) {
    if (static_cast<int64_t>(calls.size()) * axis.extent > kMaxCalls) {
      return Status(StatusCode::unsupported, "cuBLASLt would take more than " + std::to_string(kMaxCalls) + " calls");
    }
    std::vector<Offsets> more;
    for (const Offsets& o : calls) {
      for (int64_t i = 0; i < axis.extent; ++i) {
        const auto at = [&](int operand) { return i * axis.strides[operand]; };
        more.push_back({o.a + at(kA), o.b + at(kB), o.c + at(kC), o.out + at(kOut)});
      }
    }
    calls = std::move(more);
  }
  return calls;
}

// The matrix column-major, or, if that does not fit, as the transpose of what lies in memory.
Matrix make_matrix(const CallOperand& from, int operand, const Axis& rows, const Axis& columns, const Axis* batch,
                   bool& transposed) {
  transposed = !fits(rows, columns, operand);
  const Axis &inner = transposed ? columns : rows, &outer = transposed ? rows : columns;
  const int64_t pitch = outer.extent == 1 ? inner.extent : outer.strides[operand];
  return {from.arg, from.dtype, inner.extent, outer.extent, pitch, batch != nullptr ? batch->strides[operand] : 0};
}

Result<Gemm> make_gemm(const Problem& p, const CallOperand* c, std::optional<ir::ScalarOp> activation, bool tf32,
                       bool& by_rows) {
  Matmul product = make_matmul(p, c);
  if (product.k.extent == 0) return Status(StatusCode::unsupported, "cuBLASLt has no product over an empty axis");
  choose_rows(product);
  if (!make_regular(product)) return Status(StatusCode::unsupported, "a matrix that is broadcast along both axes");
  Gemm gemm;
  gemm.activation = activation;
  gemm.compute = p.compute;
  gemm.tf32 = tf32;
  std::optional<Axis> batch;
  if (const auto i = inner_batch(product)) {
    batch = product.batches[*i];
    gemm.batch = batch->extent;
    product.batches.erase(product.batches.begin() + static_cast<std::ptrdiff_t>(*i));
  }
  FUSEC_ASSIGN(gemm.calls, list_calls(product.batches));
  const Axis* const stack = batch ? &*batch : nullptr;
  by_rows = fits_output(product, product.n, product.m);
  const Axis &rows = by_rows ? product.n : product.m, &columns = by_rows ? product.m : product.n;
  bool as_is = false;
  gemm.out = make_matrix(p[Role::output], kOut, rows, columns, stack, as_is);
  if (c != nullptr) gemm.c = make_matrix(*c, kC, rows, columns, stack, as_is);
  if (by_rows) {
    gemm.a = make_matrix(p[Role::weight], kB, rows, product.k, stack, gemm.transpose_a);
    gemm.b = make_matrix(p[Role::input], kA, product.k, columns, stack, gemm.transpose_b);
    for (Offsets& o : gemm.calls) std::swap(o.a, o.b);
  } else {
    gemm.a = make_matrix(p[Role::input], kA, rows, product.k, stack, gemm.transpose_a);
    gemm.b = make_matrix(p[Role::weight], kB, product.k, columns, stack, gemm.transpose_b);
  }
  return gemm;
}

// The operand with the extents of the output; broadcast axes have stride 0.
CallOperand expanded(CallOperand operand, const CallOperand& out) {
  operand.dims = out.dims;
  return operand;
}

struct Epilogues {
  std::optional<CallOperand> addend;
  std::optional<ir::ScalarOp> activation;
};

// Accepts [add] [relu] and [gelu_tanh], which cuBLASLt can apply after a product.
Result<Epilogues> match_epilogues(const Problem& p) {
  const ir::LibraryCapabilities& library = ir::library_capabilities("cublaslt");
  Epilogues epilogues;
  for (const BoundEpilogue& epilogue : p.epilogues) {
    if (epilogues.activation)
      return Status(StatusCode::unsupported,
                    "cuBLASLt does nothing after " + std::string(ir::info(*epilogues.activation).name));
    const bool is_known = has_epilogue(library.epilogues, epilogue.op, epilogue.operand.has_value());
    const bool is_lone = ir::contains(library.epilogues.lone, epilogue.op);
    const bool has_type = ir::contains(library.epilogues.lone_types, p[Role::output].dtype);
    if (!is_known || (epilogue.operand && epilogues.addend) || (is_lone && (epilogues.addend || !has_type))) {
      return Status(StatusCode::unsupported, "cuBLASLt has no such epilogue");
    }
    if (epilogue.operand) {
      if (epilogue.operand->dtype != p[Role::output].dtype)
        return Status(StatusCode::unsupported, "an addend of another type");
      epilogues.addend = expanded(*epilogue.operand, p[Role::output]);
    } else {
      epilogues.activation = epilogue.op;
    }
  }
  return epilogues;
}

// The problem out = ones * bias + addend.
Problem spread(const Problem& p, int ones) {
  Problem s = p;
  const std::size_t rank = p[Role::output].dims.size();
  s.erase(Role::bias);
  CallOperand &a = s[Role::input], &b = s[Role::weight];
  a = {ones, p[Role::bias].dtype, p[Role::output].dims, Extents(rank, 0), nullptr, 16, Role::input};
  for (std::size_t i = 0; i + 2 < rank; ++i) a.dims[i] = 1;
  a.dims[rank - 1] = 1;
  a.strides[rank - 2] = 1;
  b = p[Role::bias];
  b.role = Role::weight;
  b.dims[rank - 1] = p[Role::output].dims[rank - 1];
  return s;
}

bool is_row(const CallOperand& o) {
  return std::all_of(o.dims.begin(), o.dims.end() - 1, [](int64_t e) { return e == 1; });
}

// A matrix times a vector has its bias along rows. Written as a vector times a matrix, it has its bias along columns.
Problem with_row_bias(Problem p) {
  if (p.find(Role::bias) == nullptr || is_row(p[Role::bias]) || p[Role::output].dims.back() != 1) return p;
  p.exchange(Role::input, Role::weight);
  p.for_each_operand(transpose_matrix);
  return p;
}

// Whether cuBLASLt can read the bias in place.
bool is_plain_vector(const Problem& p) {
  const CallOperand& bias = p[Role::bias];
  const std::size_t last = bias.dims.size() - 1;
  return bias.dims[last] == p[Role::output].dims[last] && (bias.strides[last] == 1 || bias.dims[last] == 1) &&
         bias.dtype == p[Role::output].dtype;
}

Result<Matmuls> plan_matmuls(const Problem& given, int ones, bool tf32, bool split) {
  const Problem p = with_row_bias(given);
  FUSEC_ASSIGN(const Epilogues epilogues, match_epilogues(p));
  const CallOperand* const addend = epilogues.addend ? &*epilogues.addend : nullptr;
  Matmuls plan;
  if (!split) {
    bool by_rows = false;
    FUSEC_ASSIGN(Gemm gemm, make_gemm(p, addend, epilogues.activation, tf32, by_rows));
    const CallOperand* const bias = p.find(Role::bias);
    if (bias == nullptr ||
        (by_rows && is_row(p[Role::bias]) && is_plain_vector(p) && gemm.out.rows == p[Role::output].dims.back())) {
      if (bias != nullptr) gemm.bias = bias->arg;
      plan.gemms = {std::move(gemm)};
      plan.addend = addend != nullptr ? addend->arg : -1;
      return plan;
    }
  }
  if (p.find(Role::bias) == nullptr || p[Role::bias].dtype != p[Role::output].dtype)
    return Status(StatusCode::unsupported, "a bias of another type");
  if (!is_row(p[Role::bias])) return Status(StatusCode::unsupported, "a bias that differs between rows");
  bool by_rows = false;
  FUSEC_ASSIGN(Gemm first, make_gemm(spread(p, ones), addend, std::nullopt, false, by_rows));
  FUSEC_ASSIGN(Gemm second, make_gemm(p, &p[Role::output], epilogues.activation, tf32, by_rows));
  plan.gemms = {std::move(first), std::move(second)};
  plan.ones_needed = p[Role::output].dims[p[Role::output].dims.size() - 2];
  return plan;
}

}  // namespace

Result<Matmuls> plan_matmul(const Problem& problem, int ones, bool tf32) {
  return plan_matmuls(problem, ones, tf32, false);
}
Result<Matmuls> plan_split(const Problem& problem, int ones, bool tf32) {
  return plan_matmuls(problem, ones, tf32, true);
}

}  // namespace fusec::runtime::cublaslt
