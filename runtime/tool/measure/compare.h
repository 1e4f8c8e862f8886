// SPDX-License-Identifier: Apache-2.0
// How far an output is from its reference, and the evaluator, which gives references.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::tool {

struct OutputDiff {
  std::string name;
  bool ok = true;
  std::string why;     // not ok: the first rule broken
  double rel_l2 = 0;   // |got - reference| / |reference|, over elements finite in both; 0 where both vanish
  double max_ulp = 0;  // largest difference in units in the last place of the reference; integers: the difference
  double max_abs = 0;
  double ref_rms = 0;
  // Of 16-bit models: rel_l2 of an evaluator that rounds every op's result, against the same reference.
  std::optional<double> rounding;
};

// The largest rel_l2 of outputs of this type: 1e-5 (f64, f32), 5e-3 (f16), 4e-2 (bf16), 0 (others: equal).
double default_tolerance(DType dtype);

// Both row-major. ok: same dtype and shape; rel_l2 within the tolerance, or integers and bools equal; NaN and Inf in
// the same places; and the reference says something: more than one value, floats of RMS >= 1e-6.
OutputDiff compare(std::string name, const Tensor& got, const Tensor& reference, std::optional<double> tolerance);

struct ElementDiff {
  std::string why;     // empty: every element is near enough
  double max_ulp = 0;  // as of OutputDiff; 0 for integers and bools
};

// Element by element: |got - reference| <= atol + rtol |reference|, of f16 and bf16 or half_ulps units in the last
// place; integers and bools equal, NaN and Inf in the same places.
ElementDiff compare_elements(const Tensor& got, const Tensor& reference, double rtol, double atol, double half_ulps);

// The graph as imported, by the evaluator, on all of the machine. wide: in f64. invalid_argument: the model has no
// graph.
Result<std::vector<Tensor>> evaluate_model(const Model& model, const std::vector<Tensor>& inputs, bool wide);

}  // namespace fusec::tool
