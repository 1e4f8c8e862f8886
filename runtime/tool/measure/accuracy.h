// SPDX-License-Identifier: Apache-2.0
// How far compiled scalar ops are from the reference column of the op table.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "ir/ops/op.h"

namespace fusec::tool {

struct AccuracyOptions {
  Options compile;
  int64_t samples = 1 << 20;  // of f32 and f64, and of pairs; all of f16 and bf16 are tried on one operand
  bool exhaustive = false;    // all of f32 on one operand, too
};

// One op in one dtype. Errors are in units in the last place of the dtype against the unrounded reference in f64; half
// a unit is correct rounding. Of integers and bools, whatever differs is wrong.
struct AccuracyRow {
  ir::ScalarOp op{};
  DType dtype{};
  int64_t inputs = 0;
  double worst = 0;            // over all inputs
  double worst_on_domain = 0;  // over the row's domain
  int64_t wrong = 0;           // NaN, an infinity or, of primitives, the sign of a zero where the reference has another
  std::array<double, 3> at{};  // where `worst` is, or the first wrong one
  double got = 0, want = 0;
  double bound = 0;  // of the op table: on `worst` for primitives, on `worst_on_domain` for definitions
  bool ok() const;
};

// The rows that `op` takes part in this dtype: every operand of it, `where` a condition first. Compiled by the whole
// line. Errors: of compiling and running.
Result<AccuracyRow> measure_accuracy(ir::ScalarOp op, DType dtype, const AccuracyOptions& options);

}  // namespace fusec::tool
