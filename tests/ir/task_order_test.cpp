// SPDX-License-Identifier: Apache-2.0
// The order of the tasks of two passes: each comes once, and none before what it waits for.
#include "ir/kernel/task_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace fusec::ir {
namespace {

TEST(TaskOrder, EachTaskComesOnceAndBehindWhatItWaitsFor) {
  for (const int64_t rows : {1, 2, 3, 7})
    for (const int64_t tasks : {1, 2, 5})
      for (const int64_t ahead : {0, 1, 4, 9, 100}) {
        SCOPED_TRACE(testing::Message() << rows << " rows of " << tasks << " tasks, " << ahead << " ahead");
        const int64_t all = rows * tasks;
        std::array<std::vector<bool>, 2> seen = {std::vector<bool>(static_cast<std::size_t>(all)),
                                                 std::vector<bool>(static_cast<std::size_t>(all))};
        int64_t first = 0;
        for (int64_t n = 0; n < 2 * all; ++n) {
          const Task task = find_task(n, tasks, all, ahead);
          ASSERT_TRUE(task.number >= 0 && task.number < all) << n;
          auto& own = seen[task.second ? 1 : 0];
          ASSERT_FALSE(own[static_cast<std::size_t>(task.number)]) << n;
          own[static_cast<std::size_t>(task.number)] = true;
          if (!task.second) {
            EXPECT_EQ(task.number, first++) << "a pass goes through its tasks in order";
          } else {
            EXPECT_GE(first, std::min((task.number / tasks + 1) * tasks, all)) << n;
            EXPECT_GE(first, std::min(task.number + tasks + ahead, all)) << n;
          }
        }
      }
}

}  // namespace
}  // namespace fusec::ir
