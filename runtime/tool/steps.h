// SPDX-License-Identifier: Apache-2.0
// The launches of a plan as a table and as JSON: all of them, the slowest ones, or sums over those of one op.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/session.h"
#include "runtime/plan/plan.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

// What a launch computes. flops: two for each multiplication of a product, convolution or attention; for generated code
// the ops of the kernel in units of the scalar op table. 0 where nothing is computed or known, as of a custom call.
struct StepWork {
  std::string op;  // "conv", "row_add_softmax_f16": of generated code its name without the digits of the hash
  double flops = 0;
};
// Of each launch, in order.
Result<std::vector<StepWork>> find_work(const runtime::Plan& plan, const Target& target);

struct StepView {
  std::vector<StepWork> work;  // empty: no column of it
  int64_t top = 0;             // > 0: the slowest so many, slowest first
  bool by_op = false;          // sums over launches of one op as well, largest first
};

Json steps_json(const PlanStats& plan, const StepView& view = {});
Json ops_json(const PlanStats& plan, const StepView& view);
// timed: with microseconds and GB/s, from Session::profile.
std::string steps_table(const PlanStats& plan, bool timed, const StepView& view = {});
std::string ops_table(const PlanStats& plan, const StepView& view);

// The launches of a plan with the time that each adds to a run, by the profiler: on a GPU inside the captured graph
// where CUPTI is found, else between events.
Result<PlanStats> time_launches(Session& session, std::span<const Tensor> inputs, int64_t runs);

}  // namespace fusec::tool
