// SPDX-License-Identifier: Apache-2.0
// `fusec verify --precision-report`: what f16 or bf16 cost in accuracy, region by region, and which regions have to
// stay in f32 for a tolerance.
#pragma once

#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/tensor.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

struct RegionDrop {
  std::size_t region = 0;
  std::vector<std::string> origins;
  double rel_l2 = 0;  // of the values of its nodes, from those of the f32 model
  double added = 0;   // of that, what the values that it reads do not have
  bool kept = false;  // in f32, in the set that was found
};

struct PrecisionReport {
  std::vector<RegionDrop> regions;  // by `added`, the largest first
  double tolerance = 0;
  double rel_l2 = 0, us = 0;            // of the outputs, all in 16 bits; us: measured, the sum of the launches
  double kept_rel_l2 = 0, kept_us = 0;  // with what is kept in f32
  std::vector<std::string> keep_f32;    // patterns for --keep-f32
  bool ok = false;                      // with these, the outputs are within the tolerance
};

// options.precision is set. The regions are those of the model all in 16 bits. Keeping those first that add most, it
// looks for the fewest that suffice, and then for those among them that the others suffice without, in a few dozen
// tries at most. Each try is compiled and run, so that what it answers was verified end to end.
Result<PrecisionReport> make_precision_report(const Model& model, const Options& options,
                                              const std::vector<Tensor>& inputs, double tolerance);
Json precision_json(const PrecisionReport& report);
std::string precision_text(const PrecisionReport& report);

}  // namespace fusec::tool
