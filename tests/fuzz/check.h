// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/fuzz/case.h"

namespace fusec::fuzz {

enum class Fault : uint8_t { none, wrong_value, evaluator_out_of_bounds, error, crash, bad_case };
const char* to_string(Fault fault);

// Output elements that were compared, and those of them of which nothing or little was asked.
struct Count {
  int64_t elements = 0, undecided = 0;
};

struct Outcome {
  Fault fault = Fault::none;
  std::string message;
  Count plain = {}, special = {};  // of runs without and with special values among their inputs
};

// Compiles and runs the case and compares every run with the bounds of the graph as it is. bad_case: the graph itself
// does not evaluate. What Setting::beside says is within the same bounds, and: unfused in exact numerics has the same
// bits, else no output is off by more than twice the unfused one's largest error and one unit in the last place of its
// largest value, on these inputs and over 32 near them; narrow has the same bits.
Outcome check(const Case& c);

// Like check, in a process of its own, so that a crash is an outcome too.
Outcome check_apart(const Case& c);

// A process that checks a case ends itself (SIGALRM) after so long: more is a loop without end, or a machine with too
// much to do.
constexpr unsigned kMaxSeconds = 60;

// Of a process that waitpid says ended this way, and left no outcome.
Outcome crashed(int status);

}  // namespace fusec::fuzz
