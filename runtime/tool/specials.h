// SPDX-License-Identifier: Apache-2.0
// `fusec verify --specials`: a compiled model on inputs from the edges of its types, against the evaluator.
#pragma once

#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/session.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

struct SpecialRow {
  std::string name;      // of the class: "zeros", "one nan", ...
  bool promised = true;  // by the numerics mode (docs/numerics.md): only then `ok` counts
  bool ok = true;
  std::string output, why;  // of the worst output
  double rel_l2 = 0;
};

// One row per class; `inputs` give shapes, and the contents of inputs that are no floats. model: as the outputs are
// promised, in options.precision.
Result<std::vector<SpecialRow>> verify_specials(const Model& model, Session& session, const Options& options,
                                                const std::vector<Tensor>& inputs);
bool all_promises_hold(const std::vector<SpecialRow>& rows);
Json specials_json(const std::vector<SpecialRow>& rows);
std::string specials_table(const std::vector<SpecialRow>& rows);

}  // namespace fusec::tool
