// SPDX-License-Identifier: Apache-2.0
// Loads and runs host artifacts, without the runtime: for tests and measurements of generated code.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "fusec/tensor.h"

namespace fusec::codegen_test {

// The image of an artifact mapped read-execute.
class Loaded {
 public:
  explicit Loaded(codegen::Artifact artifact);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  // `splits`: into how many ranges each phase's iterations are cut. Returns the status word.
  int32_t run(const std::vector<Tensor>& args, const std::map<std::string, int64_t>& extents, const ir::Kernel& kernel,
              int splits = 1) const;
  const codegen::Artifact& artifact() const { return artifact_; }
  codegen::HostFunction function(std::size_t phase) const;
  const std::vector<const void*>& externs() const { return externs_; }

 private:
  codegen::Artifact artifact_;
  void* image_ = nullptr;
  std::size_t size_ = 0;
  std::vector<const void*> externs_;
};

// The named target when this machine can run it, else null.
std::unique_ptr<Target> usable_target(const std::string& name);
// All of x86-64-v2, v3, v4, v4 with bf16 and that with VBMI that this machine can run. Under sanitizers the first and
// the last of them.
std::vector<Target> usable_targets();

}  // namespace fusec::codegen_test
