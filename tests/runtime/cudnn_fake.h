// SPDX-License-Identifier: Apache-2.0
// Parts of fakes of cuDNN's backend, on host memory: the elements that a spec describes, and plans that are functions.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "ir/ops/cast.h"
#include "runtime/library/cudnn/spec.h"
#include "tests/runtime/library_case.h"

namespace fusec::runtime::testing {

inline char* spec_element(const cudnn::TensorSpec& spec, void* base, const Extents& at) {
  int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += (spec.dims[i] == 1 ? 0 : at[i]) * spec.strides[i];
  return static_cast<char*>(base) + offset * static_cast<int64_t>(size_of(spec.dtype));
}
inline double spec_load(const cudnn::TensorSpec& spec, void* base, const Extents& at) {
  return ir::load_double(spec.dtype, spec_element(spec, base, at));
}
inline void spec_store(const cudnn::TensorSpec& spec, void* base, const Extents& at, double value) {
  ir::store_double(spec.dtype, spec_element(spec, base, at), value);
}

class FakeWork : public cudnn::CudnnPlan {
 public:
  FakeWork(std::string name, std::size_t workspace, std::function<void(void* const*)> work)
      : name_(std::move(name)), workspace_(workspace), work_(std::move(work)) {}
  Status run(void* const* pointers, void* workspace, void*) const override {
    if (workspace_ > 0) std::memset(workspace, 0xEE, workspace_);
    work_(pointers);
    return {};
  }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::string name() const override { return name_; }

 private:
  std::string name_;
  std::size_t workspace_;
  std::function<void(void* const*)> work_;
};

}  // namespace fusec::runtime::testing
