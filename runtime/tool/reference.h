// SPDX-License-Identifier: Apache-2.0
// What compiled outputs are compared with: the evaluator, or files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/tensor.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/measure/compare.h"

namespace fusec::tool {

// What a model's outputs should be. Where some values are f16 or bf16, float outputs are those of the evaluator in f64,
// and `rounding` says how far from them the evaluator is that rounds every op's result: compiled code may be 1.5 times
// as far, or one unit in the last place of each element.
struct Expected {
  std::vector<Tensor> outputs;
  std::vector<std::optional<double>> rounding;  // by output; empty: none
};
// Whether some values are 16-bit floats.
bool has_16_bit_floats(const Model& model);
Result<Expected> compute_expected(const Model& model, const std::vector<Tensor>& inputs);
// An f32 model as options.precision makes it: scales are in the weights before these are rounded, once, as in the
// compiled model.
Result<Model> in_precision(const Model& model, const Options& options);

// NAME.npy or NAME.pb below `dir` for each output ('/', ':' and '\' in names are '_'), else output_<i>.npy or
// output_<i>.pb. invalid_argument when neither is there.
Result<std::vector<Tensor>> read_references(const Model& model, const std::string& dir);
// Inputs that the request does not name, from input_<i>.pb or .npy in `dir`, as ONNX's test sets lie.
Status add_input_files(const Model& model, const std::string& dir, Request& request);

struct ComparisonResult {
  bool ok = true;
  double worst_rel_l2 = 0, worst_ulp = 0;
  std::vector<OutputDiff> outputs;
};
ComparisonResult compare_to_expected(const Model& model, const std::vector<Tensor>& got, const Expected& expected,
                                     std::optional<double> tolerance);

// Judges the outputs of several inputs together: relative errors, and those of rounding, by their root mean square.
// Each of the two is one draw of a number that swings with the input, so that their ratio for one input says little.
class OutputComparison {
 public:
  OutputComparison(const Model& model, std::optional<double> tolerance) : model_(model), tolerance_(tolerance) {}
  void add(const std::vector<Tensor>& got, const Expected& expected);
  ComparisonResult result() const;

 private:
  struct Sums {
    OutputDiff worst;  // each figure's largest, and the first broken rule but those of rel_l2
    double squares = 0, rounding_squares = 0;
    double tolerance = 0;
  };

  const Model& model_;
  std::optional<double> tolerance_;
  std::vector<Sums> outputs_;
  int samples_ = 0;
};
Json make_json(const ComparisonResult& result);

}  // namespace fusec::tool
