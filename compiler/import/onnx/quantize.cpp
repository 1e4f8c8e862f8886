// SPDX-License-Identifier: Apache-2.0
// Emits saturating casts for quantized ops in the import stage, and chooses the float type and the pieces in which
// integer sums stay exact.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

namespace {

std::pair<double, double> bounds(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::u16:
      return {0, 65535};
    case DType::i16:
      return {-32768, 32767};
    default:
      fail_unsupported(fmt::format("a quantized type {}", to_string(dtype)));
  }
}

// The range of possible zero points: that of their contents if known, else that of their type.
std::pair<double, double> zero_range(const Builder& b, const Quantized& q) {
  if (!q.zero.valid()) return {0, 0};
  const Tensor* known = b.data(q.zero);
  if (known == nullptr || known->num_elements() == 0) return bounds(b.dtype(q.zero));
  std::pair<double, double> range{load_f64(*known, 0), load_f64(*known, 0)};
  for (int64_t i = 1; i < known->num_elements(); ++i) {
    range.first = std::min(range.first, load_f64(*known, i));
    range.second = std::max(range.second, load_f64(*known, i));
  }
  return range;
}

// The largest |x - zero|.
double largest(const Builder& b, const Quantized& q) {
  auto [low, high] = bounds(b.dtype(q.x));
  auto [zero_low, zero_high] = zero_range(b, q);
  return std::max(high - zero_low, zero_high - low);
}

constexpr int64_t kMaxPieces = 16;

// Adds to `sums`, by outer and inner index, a bound of the sum of |w - zero| over entry `at` of `count`.
void add_sums(const Tensor& w, double zero, int64_t at, const Terms& terms, std::vector<double>& sums) {
  int64_t inner = terms.inner.value(), block = terms.count.value() * terms.size * inner;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    auto outer = static_cast<int64_t>(i) / inner, column = static_cast<int64_t>(i) % inner;
    int64_t first = outer * block + at * terms.size * inner + column;
    for (int64_t j = 0; j < terms.size; ++j) sums[i] += std::fabs(load_f64(w, first + j * inner)) + zero;
  }
}

// Splits known contents into the longest pieces whose sums of |w - zero| stay within the limit. Returns no ends if one
// entry of `count` alone exceeds it.
std::vector<Dim> known_pieces(const Tensor& w, double zero, const Terms& terms, double limit) {
  auto width = static_cast<std::size_t>(w.num_elements() / (terms.count.value() * terms.size));
  std::vector<double> sums(width), longer;
  std::vector<Dim> ends;
  for (int64_t i = 0; i < terms.count.value(); ++i) {
    longer = sums;
    add_sums(w, zero, i, terms, longer);
    if (*std::max_element(longer.begin(), longer.end()) > limit) {
      ends.push_back(i);
      longer.assign(width, 0);
      add_sums(w, zero, i, terms, longer);
      if (*std::max_element(longer.begin(), longer.end()) > limit) return {};
    }
    sums.swap(longer);
  }
  ends.push_back(terms.count);
  return ends;
}

// Splits into equal pieces by the largest |w - zero| of the type. Returns no ends if that is impossible or takes too
// many pieces.
std::vector<Dim> equal_pieces(double largest, const Terms& terms, double limit) {
  int64_t count = terms.count.value();
  double most = std::floor(limit / (largest * static_cast<double>(terms.size)));
  if (most < 1) return {};
  if (most >= static_cast<double>(count)) return {count};
  int64_t pieces = (count - 1) / static_cast<int64_t>(most) + 1, step = (count - 1) / pieces + 1;
  if (pieces > kMaxPieces) return {};
  std::vector<Dim> ends;
  for (int64_t end = step; end < count; end += step) ends.push_back(end);
  ends.push_back(count);
  return ends;
}

std::vector<Dim> pieces(const Builder& b, const Quantized& w, const Terms& terms, double limit) {
  const Tensor* known = b.data(w.x);
  if (known == nullptr || known->num_elements() == 0) return equal_pieces(largest(b, w), terms, limit);
  auto [low, high] = zero_range(b, w);
  return known_pieces(*known, std::max(std::fabs(low), std::fabs(high)), terms, limit);
}

}  // namespace

Val saturate(Builder& b, Val x, Val zero, DType to) {
  auto [low, high] = bounds(to);
  Val q = unary(b, ScalarOp::round, x);
  if (zero.valid()) q = add(b, q, cast(b, zero, b.dtype(q)));
  return cast(b, b.emit(ScalarOp::clamp, {q, b.scalar(b.dtype(q), low), b.scalar(b.dtype(q), high)}), to);
}

ExactProduct exact_product(const Builder& b, const Quantized& x, const Quantized& w, const Terms& terms) {
  ExactProduct product{.ends = {terms.count}};
  if (!terms.count.is_const()) return product;
  double most = largest(b, x), all = static_cast<double>(terms.count.value()) * static_cast<double>(terms.size);
  product.fits_i32 = most * largest(b, w) * all < 0x1p31;
  std::vector<Dim> ends = pieces(b, w, terms, 0x1p24 / most);
  auto n = static_cast<int64_t>(ends.size());
  if (n < 1 || n > (terms.can_split ? kMaxPieces : 1)) return product;
  return {DType::f32, std::move(ends), true};
}

Val centered(Builder& b, const Quantized& q, DType dtype) {
  Val x = cast(b, q.x, dtype);
  if (!q.zero.valid() || zero_range(b, q) == std::pair<double, double>(0, 0)) return x;
  Result<Shape> shape = ir::broadcast_shapes(b.shape(x), b.shape(q.zero));
  if (!shape.ok() || *shape != b.shape(x)) {
    const std::string message = fmt::format("a zero point {} does not broadcast to its operand {}",
                                            to_string(b.type(q.zero)), to_string(b.type(q.x)));
    if (shape.ok()) fail_differ(*shape, b.shape(x), message);
    throw ImportError(Status(shape.status().code(), message).with_note(shape.status().message()));
  }
  return sub(b, x, cast(b, q.zero, dtype));
}

Val as_i32(Builder& b, Val sums, const ExactProduct& product) {
  return cast(b, product.fits_i32 ? sums : cast(b, sums, DType::i64), DType::i32);
}

}  // namespace fusec::importer
