// SPDX-License-Identifier: Apache-2.0
// What compiled outputs are compared with: the evaluator, or files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/tensor.h"
#include "runtime/tool/common.h"
#include "runtime/tool/compare.h"
#include "runtime/tool/inputs.h"

namespace fusec::tool {

// The graph as imported, by the evaluator, on all of the machine.
Result<std::vector<Tensor>> evaluate_model(const Model& model, const std::vector<Tensor>& inputs, bool wide);

// NAME.npy or NAME.pb below `dir` for each output ('/', ':' and '\' in names are '_'), else output_<i>.npy or
// output_<i>.pb. invalid_argument when neither is there.
Result<std::vector<Tensor>> read_references(const Model& model, const std::string& dir);
// Inputs that the request does not name, from input_<i>.pb or .npy in `dir`, as ONNX's test sets lie.
Status add_input_files(const Model& model, const std::string& dir, Request& request);

struct Verdict {
  bool ok = true;
  double worst_rel_l2 = 0, worst_ulp = 0;
  std::vector<OutputDiff> outputs;
};
Verdict judge(const Model& model, const std::vector<Tensor>& got, const std::vector<Tensor>& reference,
              std::optional<double> tolerance);
Json json_of(const Verdict& verdict);

}  // namespace fusec::tool
