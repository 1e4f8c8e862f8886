// SPDX-License-Identifier: Apache-2.0
// One evaluation of one node, as evaluate_node prepares it for the eval_<op> functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/eval/graph.h"
#include "ir/graph/graph.h"
#include "ir/ops/element.h"

namespace fusec::ir {

using Extents = std::vector<int64_t>;

struct OpCall {
  const Node& node;
  Attrs attrs;                   // all dimensions are constants
  std::vector<Tensor> operands;  // row-major
  DType dtype;                   // of the result as the graph declares it
  DType storage;                 // of the result tensor: f64 for wide floats, else dtype
  Extents shape;                 // of the result
  const Tensor* constant;        // of a constant node
  const EvalOptions& options;

  const Tensor& operand(std::size_t i) const { return operands[i]; }
  Result<Tensor> make_result() const { return Tensor::make(storage, shape); }
  Extents extents(std::string_view attr) const;  // of a dims attribute
};

// "where: message" is invalid_argument with a note that names the node.
Status node_error(const Node& node, std::string message);

// The indices of operand 1, negative ones counted from the end, each checked against the extent of its axis;
// `extent_of` gets their row-major position.
Result<Extents> read_indices(const OpCall& call, const std::function<int64_t(int64_t)>& extent_of);

#define TENSOR_OP(name, ...) Result<Tensor> eval_##name(const OpCall& call);
#include "ir/ops/tensor_ops.def"
Result<Tensor> eval_scalar_node(const OpCall& call);

int64_t product(const Extents& extents);
int64_t product(const Extents& extents, std::size_t begin, std::size_t end);
Extents row_major_strides(const Extents& extents);
// Coordinates of row-major position `index`.
Extents unravel(int64_t index, const Extents& extents);
int64_t dot(const Extents& a, const Extents& b);

// dst[offset_dst + i.dst_strides] = src[offset_src + i.src_strides] for all i in extents; offsets and strides in
// elements of `size` bytes.
struct StridedCopy {
  Extents extents, src_strides, dst_strides;
  int64_t src_offset = 0, dst_offset = 0;
};
void copy_strided(StridedCopy copy, std::size_t size, const void* src, void* dst, int threads);

// The elements as T, without a copy where they already are.
template <class T>
class ElementsAs {
 public:
  explicit ElementsAs(const Tensor& tensor) : tensor_(tensor) {
    if (is_float(tensor.dtype()) && size_of(tensor.dtype()) == sizeof(T)) {
      data_ = tensor.as<T>();
      return;
    }
    copy_.resize(static_cast<std::size_t>(tensor.num_elements()));
    load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.num_elements(), copy_.data());
    data_ = copy_.data();
  }
  ElementsAs(const ElementsAs&) = delete;
  ElementsAs& operator=(const ElementsAs&) = delete;
  const T* data() const { return data_; }

 private:
  Tensor tensor_;  // keeps borrowed elements alive
  std::vector<T> copy_;
  const T* data_ = nullptr;
};

}  // namespace fusec::ir
