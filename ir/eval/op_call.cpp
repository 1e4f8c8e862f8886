// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the eval_<op> functions: coordinate arithmetic, strided copies, and conversion to row-major or to
// another float type.

#include "ir/eval/op_call.h"

#include <cstring>

#include "ir/support/check.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

// Drops axes of extent 1 and merges axes through which both sides step alike.
void collapse(StridedCopy& copy) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < copy.extents.size(); ++i) {
    const int64_t extent = copy.extents[i], src = copy.src_strides[i], dst = copy.dst_strides[i];
    if (extent == 1) continue;
    if (kept > 0 && copy.src_strides[kept - 1] == src * extent && copy.dst_strides[kept - 1] == dst * extent) {
      --kept;
      copy.extents[kept] *= extent;
    } else {
      copy.extents[kept] = extent;
    }
    copy.src_strides[kept] = src;
    copy.dst_strides[kept] = dst;
    ++kept;
  }
  copy.extents.resize(kept);
  copy.src_strides.resize(kept);
  copy.dst_strides.resize(kept);
}

template <std::size_t kSize>
void copy_row(int64_t count, const char* src, int64_t src_stride, char* dst, int64_t dst_stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(dst + i * dst_stride * static_cast<int64_t>(kSize), src + i * src_stride * static_cast<int64_t>(kSize),
                kSize);
  }
}

auto row_copier(std::size_t size) {
  switch (size) {
    case 1:
      return &copy_row<1>;
    case 2:
      return &copy_row<2>;
    case 4:
      return &copy_row<4>;
    default:
      return &copy_row<8>;
  }
}

}  // namespace

Extents OpCall::extents(std::string_view attr) const {
  Extents out;
  for (const Dim& d : attrs.dims(attr)) out.push_back(d.value());
  return out;
}

int64_t product(const Extents& extents, std::size_t begin, std::size_t end) {
  int64_t p = 1;
  for (std::size_t i = begin; i < end; ++i) p *= extents[i];
  return p;
}

int64_t product(const Extents& extents) { return product(extents, 0, extents.size()); }

Extents row_major_strides(const Extents& extents) {
  Extents strides(extents.size());
  int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0; stride *= extents[i]) strides[i] = stride;
  return strides;
}

Extents unravel(int64_t index, const Extents& extents) {
  Extents at(extents.size());
  for (std::size_t i = extents.size(); i-- > 0; index /= extents[i]) at[i] = index % extents[i];
  return at;
}

int64_t dot(const Extents& a, const Extents& b) {
  int64_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void copy_strided(StridedCopy copy, std::size_t size, const void* src, void* dst, int threads) {
  if (product(copy.extents) == 0) return;
  collapse(copy);
  if (copy.extents.empty()) copy.extents = copy.src_strides = copy.dst_strides = {1};
  const int64_t row = copy.extents.back(), src_step = copy.src_strides.back(), dst_step = copy.dst_strides.back();
  copy.extents.pop_back();
  copy.src_strides.pop_back();
  copy.dst_strides.pop_back();
  const auto copy_one = row_copier(size);
  parallel_for(threads, product(copy.extents), std::max<int64_t>(1, (1 << 16) / row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Extents at = unravel(r, copy.extents);
      const int64_t from = copy.src_offset + dot(at, copy.src_strides),
                    to = copy.dst_offset + dot(at, copy.dst_strides);
      copy_one(row, static_cast<const char*>(src) + from * static_cast<int64_t>(size), src_step,
               static_cast<char*>(dst) + to * static_cast<int64_t>(size), dst_step);
    }
  });
}

Result<Tensor> contiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  FUSEC_ASSIGN(Tensor out, Tensor::make(tensor.dtype(), tensor.shape()));
  copy_strided({tensor.shape(), tensor.strides(), out.strides()}, size_of(tensor.dtype()), tensor.data(), out.data(),
               1);
  return out;
}

Result<Tensor> round_to(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  FUSEC_CHECK(is_float(tensor.dtype()) && is_float(dtype)) << "only floats are rounded";
  FUSEC_ASSIGN(const Tensor in, contiguous(tensor));
  FUSEC_ASSIGN(Tensor out, Tensor::make(dtype, in.shape()));
  constexpr int64_t kChunk = 1024;
  double values[kChunk];
  for (int64_t i = 0; i < in.num_elements(); i += kChunk) {
    const int64_t count = std::min(kChunk, in.num_elements() - i);
    load_elements(in.dtype(), in.data(), i, 1, count, values);
    store_elements(dtype, out.data(), i, 1, count, values);
  }
  return out;
}

}  // namespace fusec::ir
