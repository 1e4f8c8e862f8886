// SPDX-License-Identifier: Apache-2.0
// The order in which thread blocks take the tasks of two passes over rows (TaskOrder in ir/kernel/kernel.h). Both GPU
// writers write this function; the evaluator calls it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fusec::ir {

// A task: which pass it is of, and its number there, counted over all rows.
struct Task {
  bool second = false;
  int64_t number = 0;
};

// The task that is the n-th one to be taken. Each pass has `tasks` tasks of a row and `all` of all rows.
//
// The first pass begins, with a row and `ahead` tasks, or all there are. Then the passes take turns, the second one
// first, a task each. So before a task of the second pass come all tasks of the first one over its row, and `ahead`
// more.
constexpr Task find_task(int64_t n, int64_t tasks, int64_t all, int64_t ahead) {
  const int64_t lead = std::min(tasks + ahead, all), turns = all - lead, at = n - lead;
  if (at < 0) return {false, n};
  if (at >= 2 * turns) return {true, at - turns};
  if (at % 2 == 0) return {true, at / 2};
  return {false, lead + at / 2};
}

}  // namespace fusec::ir
