// SPDX-License-Identifier: Apache-2.0
// Named ranges for profilers that attach through NVTX, NVIDIA's interface for annotations: a tool names its library in
// NVTX_INJECTION64_PATH. Without a tool a range costs a test.
#pragma once

namespace fusec {

// While alive, what this thread does is in a range of that name.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) : pushed_(is_attached() && push(name)) {}
  ~NvtxRange() {
    if (pushed_) pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

  // Whether a tool is there; it does not come later.
  static bool is_attached() {
    static const bool attached = attach();
    return attached;
  }

 private:
  static bool attach();
  static bool push(const char* name);  // false: the tool does not want it
  static void pop();
  const bool pushed_;
};

}  // namespace fusec
