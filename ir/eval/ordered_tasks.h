// SPDX-License-Identifier: Apache-2.0
// Goes through the tasks of a launch in the order in which thread blocks take them, and counts as they do.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"
#include "ir/kernel/task_order.h"

namespace fusec::ir {

// What the evaluator does for a launch with tasks: `set` gives a loop variable its value, `run` runs the body of a
// pass.
struct TaskActions {
  std::function<int64_t(const IndexExpr&)> eval;
  std::function<void(VarId, int64_t)> set;
  std::function<bool(const Block&)> run;  // false: it failed
};

// Runs all tasks of the loop. Returns what is wrong with the counters or the order; "" if nothing is, or a task failed.
inline std::string run_in_order(const Loop& loop, int32_t* counters, const TaskActions& actions) {
  std::vector<const LoopHead*> heads;
  const Loop& rows = innermost_grid(loop);
  for (const Loop* at = &loop;; at = std::get_if<Loop>(&at->body[0].v)) {
    heads.push_back(&at->head);
    if (at == &rows) break;
  }
  int64_t count = 1;
  for (const LoopHead* head : heads) count *= actions.eval(head->extent);
  if (std::any_of(counters, counters + count + 1, [](int32_t n) { return n != 0; }))
    return "the counters of tasks do not begin at 0";
  const int64_t tasks = actions.eval(std::get<Loop>(rows.body[0].v).head.extent), all = count * tasks;
  for (; *counters < 2 * all; ++*counters) {
    const Task task = find_task(*counters, tasks, all, loop.tasks->ahead);
    int64_t row = task.number / tasks;
    int32_t& ended = counters[1 + row];
    if (task.second && ended != tasks) return "a task waits for what comes behind it";
    const Loop& pass = std::get<Loop>(rows.body[task.second ? 1 : 0].v);
    actions.set(pass.head.var, task.number % tasks);
    for (std::size_t i = heads.size(); i-- > 0;) {
      const int64_t extent = actions.eval(heads[i]->extent);
      actions.set(heads[i]->var, row % extent);
      row /= extent;
    }
    if (!actions.run(pass.body)) return "";
    if (!task.second) ++ended;
  }
  return "";
}

}  // namespace fusec::ir
