// SPDX-License-Identifier: Apache-2.0
// Maker: a graph in the making whose values are evaluated, with bounds, as they are added.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/bounds.h"
#include "tests/fuzz/case.h"
#include "tests/fuzz/random.h"

namespace fusec::fuzz {

using ir::ValueId;

class Maker {
 public:
  explicit Maker(uint64_t seed);

  // Operations give an invalid id where an operand is invalid, the types do not fit, an extent is negative at some run,
  // or the result is too large, mostly NaN, huge or undecided; the graph is then as before.
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs = {});
  ValueId scalar(ir::ScalarOp op, std::vector<ValueId> inputs) { return node(op, std::move(inputs)); }
  ValueId cast(ValueId v, DType to) { return node(ir::ScalarOp::cast, {v}, {{"to", to}}); }
  ValueId reshape(ValueId v, Shape shape) { return node(ir::TensorOp::reshape, {v}, {{"shape", std::move(shape)}}); }
  ValueId transpose(ValueId v, std::vector<int64_t> perm) {
    return node(ir::TensorOp::transpose, {v}, {{"perm", std::move(perm)}});
  }
  ValueId slice(ValueId v, std::size_t axis, Dim start, Dim size);
  ValueId reduce(ir::TensorOp op, ValueId v, std::vector<int64_t> axes, bool keep);
  ValueId number(DType dtype, double value);  // a rank-0 constant
  ValueId constant(DType dtype, const std::vector<int64_t>& shape);
  ValueId input(DType dtype, const Shape& shape);
  ValueId indices(DType dtype, const Shape& shape, const Dim& extent);  // an input of numbers in -extent .. extent-1
  // A constant where the shape is known, else or by choice an input.
  ValueId leaf(DType dtype, const Shape& shape);

  // A value of the pool for which `wanted` holds, newer ones first; invalid: none was found.
  template <class F>
  ValueId find(const F& wanted) {
    std::vector<ValueId> found;
    for (const ValueId v : pool_)
      if (wanted(type(v))) found.push_back(v);
    if (found.empty()) return {};
    const auto n = static_cast<int64_t>(found.size());
    return found[static_cast<std::size_t>(random.chance(0.6) ? n - 1 - random.below(std::min<int64_t>(n, 4))
                                                             : random.below(n))];
  }

  const ir::Type& type(ValueId v) const { return graph_.type(v); }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  int rank(ValueId v) const { return graph_.type(v).rank(); }
  // Of all runs.
  int64_t least(const Dim& d) const;
  int64_t most(const Dim& d) const;
  int64_t elements(const Shape& shape) const;
  Dim extent();  // one of the case's few
  Shape new_shape(int rank);
  DType number_type();
  std::size_t size() const { return nodes_; }  // nodes beside constants
  const std::vector<ValueId>& pool() const { return pool_; }

  Case finish();

  Random random;

 private:
  using Values = std::vector<Bounded>;  // one per run

  // As ir::random_tensor has it; integers are mostly of either sign.
  Tensor random_data(DType dtype, const std::vector<int64_t>& shape, uint64_t seed);
  bool usable(const Values& values, const ir::Type& type) const;
  void keep(ValueId v, Values values);
  std::vector<int64_t> at_run(const Shape& shape, std::size_t run) const;
  void add_outputs();
  void bind_symbols();
  void add_special_run();
  Tensor special(const Tensor& from, bool index);

  ir::Graph graph_;
  std::vector<ir::SymbolBindings> symbols_;  // per run
  std::vector<Run> runs_;
  std::vector<bool> is_index_;  // per input
  ir::IdVector<ValueId, Values> values_;
  std::vector<ValueId> pool_;
  std::vector<Dim> extents_;
  std::vector<DType> dtypes_;
  int64_t max_elements_ = 0;
  std::size_t nodes_ = 0;
  uint64_t seed_ = 0, tensors_ = 0;
};

}  // namespace fusec::fuzz
