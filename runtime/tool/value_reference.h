// SPDX-License-Identifier: Apache-2.0
// What the values of a run are compared with. A value of the reference is matched only where it must be equal: by being
// the same value of the same graph, or by ValueKeys.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tool/value_run.h"

namespace fusec::tool {

struct Match {
  Tensor value;
  std::string by;                       // "graph", "key", "own key", "node", "output"
  std::optional<double> rounding = {};  // of 16-bit floats: how far rounding every op's result is from `value`
};

class ValueReference {
 public:
  virtual ~ValueReference() = default;
  // nullopt: the reference has no value that must be equal.
  virtual Result<std::optional<Match>> find(const ValueInfo& info) = 0;
  virtual Result<std::optional<Match>> output(std::size_t i) = 0;
  // Values that find() has not answered so far.
  virtual std::size_t unmatched() const = 0;
};

struct AgainstFlags : ModelFlags {
  std::string against = "evaluator";  // or "onnxruntime", "unfused", "cpu", or a folder
  std::string python = "python3";     // that has ONNX Runtime
};
// `run` outlives the answer.
Result<std::unique_ptr<ValueReference>> make_value_reference(const AgainstFlags& flags, const Model& model,
                                                             const Options& options, const ValueRun& run,
                                                             const std::vector<Tensor>& inputs);

struct ValueDiff {
  std::string why;  // empty: near enough
  double rel_l2 = 0, max_abs = 0, tolerance = 0;
  std::vector<int64_t> worst;    // the element that differs most; of NaN or Inf in one alone, the first of these
  double got = 0, expected = 0;  // there
};
// A constant or vanishing value is as good as any here: only outputs must say something.
ValueDiff diff_values(const Tensor& got, const Tensor& expected, std::optional<double> rounding,
                      std::optional<double> tolerance);

}  // namespace fusec::tool
