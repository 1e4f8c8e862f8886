// SPDX-License-Identifier: Apache-2.0
// The launches of a plan as a table and as JSON.
#pragma once

#include <string>

#include "fusec/engine.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

Json steps_json(const PlanStats& plan);
// timed: with microseconds and GB/s, from Session::profile.
std::string steps_table(const PlanStats& plan, bool timed);

}  // namespace fusec::tool
