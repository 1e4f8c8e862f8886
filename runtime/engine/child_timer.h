// SPDX-License-Identifier: Apache-2.0
// Candidates timed in a child process, so that one that hangs or faults takes no other with it. The child answers each
// request with a line; one that does not answer in time is killed and replaced, and the candidate has failed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/kernel_tuner.h"

namespace fusec::runtime {

// argv: of a program that calls serve_candidates on its stdin and stdout. seconds: for each answer.
std::unique_ptr<CandidateTimer> make_child_timer(std::vector<std::string> argv, double seconds);

// Answers the requests that come from `in` on `out`, by `timer`, until the other end closes or the device is lost.
Status serve_candidates(int in, int out, CandidateTimer& timer);

}  // namespace fusec::runtime
