// SPDX-License-Identifier: Apache-2.0
// What an Engine, a Plan and a Session tell of themselves, as one JSON document without line breaks. Members have the
// names of those of the structs, and of a Profile those that `fusec profile --json` prints; later versions may add
// some.
#pragma once

#include <string>

#include "fusec/engine.h"
#include "fusec/export.h"
#include "fusec/session.h"

namespace fusec {

FUSEC_API std::string to_json(const EngineStats& stats);
FUSEC_API std::string to_json(const PlanStats& stats);
FUSEC_API std::string to_json(const SessionStats& stats);
FUSEC_API std::string to_json(const Profile& profile);  // without its slices

}  // namespace fusec
