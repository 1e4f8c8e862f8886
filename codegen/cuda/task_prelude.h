// SPDX-License-Identifier: Apache-2.0
// The texts of the CUDA prelude for ordered tasks.
#pragma once

namespace fusec::codegen::cuda {

// The next number, the same in all threads of the block.
inline constexpr const char* kTakeNumber = R"(FUNCTION u32 take_number(int* counter, u32* taken) {
  if (threadIdx.x == 0) *taken = atomicAdd((u32*)counter, 1u);
  __syncthreads();
  return *taken;
}
)";

// Counts the end of the block's task, after all that its threads stored.
inline constexpr const char* kEndTask = R"(FUNCTION void end_task(int* ended) {
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(ended) : "memory");
}
)";

// Returns when so many tasks have ended. What their blocks stored is then visible to all threads.
inline constexpr const char* kAwaitTasks = R"(FUNCTION void await_tasks(const int* ended, u32 tasks) {
  if (threadIdx.x == 0) {
    u32 n;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(ended) : "memory");
    } while (n < tasks);
  }
  __syncthreads();
}
)";

// The task that is the n-th one to be taken (ir/kernel/task_order.h).
inline constexpr const char* kFindTask = R"(struct Task {
  bool second;
  u32 number;
};
FUNCTION Task find_task(u32 n, u32 tasks, u32 all, u32 ahead) {
  const u32 lead = tasks + ahead < all ? tasks + ahead : all, turns = all - lead, at = n - lead;
  if (n < lead) return {false, n};
  if (at >= 2 * turns) return {true, at - turns};
  if (at % 2 == 0) return {true, at / 2};
  return {false, lead + at / 2};
}
)";

}  // namespace fusec::codegen::cuda
