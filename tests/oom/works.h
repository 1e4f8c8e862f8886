// SPDX-License-Identifier: Apache-2.0
// What is done while memory fails.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::oom_test {

struct Work {
  std::string name;
  // Run once, in a process that no other work shares; children are forked after it.
  std::function<void()> prepare;
  // What fails. Its results are gone when it answers.
  std::function<Status()> call;
  // Whether what the last call that answered ok computed is right.
  std::function<bool()> is_right;
};

// Writes the models and the package of the works to `folder`.
void write_files(const std::string& folder);
std::vector<Work> works(const std::string& folder);

}  // namespace fusec::oom_test
