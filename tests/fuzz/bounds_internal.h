// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <vector>

#include "ir/eval/combine.h"
#include "tests/fuzz/bounds.h"

namespace fusec::fuzz {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One element of a Bounded.
struct Range {
  ir::Number lo, at, hi;
};

DType storage_of(DType dtype);   // f64 for floats
int known_bits_of(DType dtype);  // of the fraction: 23 for f32
double largest(DType dtype);
double unit_at(DType dtype, double value);  // one unit in the last place

Range anything(DType dtype);
bool is_anything(DType dtype, const Range& range);
Range load_range(const Bounded& value, DType dtype, int64_t element);
void store_range(Bounded& value, DType dtype, int64_t element, const Range& range);
Result<Bounded> make_bounded(DType dtype, const std::vector<int64_t>& shape, bool exact);

// The least range that holds all samples of one element. Samples that are NaN only in part: anything; integers that
// differ: anything.
Range hull(DType dtype, const ir::Number* samples, std::size_t count, const ir::Number& at);

// `range` with what rounding to `dtype` once, after computing in its compute type with an error of up to `ulp`, may
// make of it.
Range with_rounding(DType dtype, double ulp, Range range);

Result<Bounded> scalar_bounds(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                              const std::vector<int64_t>& shape);

// Bounded::jumps of the node's result, of these operands. Of tensor ops all elements, where an operand has any.
std::vector<bool> find_jumps(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                             const Bounded& result);

// evaluate_node(wide) with declared dtypes.
Result<Tensor> evaluate_wide(const ir::Graph& graph, const ir::Node& node, const std::vector<Tensor>& operands,
                             const ir::SymbolBindings& symbols);

// f(i) as element i of an f64 tensor.
template <class F>
Result<Tensor> mapped(const Tensor& like, const F& f) {
  FUSEC_ASSIGN(Tensor out, Tensor::make(DType::f64, like.shape()));
  for (int64_t i = 0; i < out.num_elements(); ++i) out.as<double>()[i] = f(i);
  return out;
}

// Upper bound on the number of elements that one result combines.
double terms(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands);
// Whether the value is made by one of these ops, or of what is by views and scalar ops.
bool is_behind(const ir::Graph& graph, ir::ValueId from, const std::vector<ir::Op>& ops);
// The same for convolutions and products.
bool is_behind_product(const ir::Graph& graph, ir::ValueId from);

// The node's bounds with what libraries do otherwise than the graph says, where the numerics allow it.
Result<Bounded> with_library(const ir::Graph& graph, const ir::Node& node, const std::vector<Bounded>& operands,
                             Numerics numerics, bool on_gpu, const ir::SymbolBindings& symbols, Bounded out);

}  // namespace fusec::fuzz
