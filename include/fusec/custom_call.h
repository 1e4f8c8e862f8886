// SPDX-License-Identifier: Apache-2.0
// Custom calls: functions of the host that a model calls between its kernels. A GraphBuilder makes such a node by
// custom_call, an import by ImportOptions::call_domains.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/status.h"

namespace fusec {

inline constexpr std::size_t kMaxCallInputs = 16;

// Dense row-major memory of the device on which the function is registered, aligned to the size of an element.
struct FUSEC_API CallTensor {
  DType dtype = DType::f32;
  std::span<const int64_t> shape;
  void* data = nullptr;  // null where there is no element
};

// Writes `output` from `inputs`, which it only reads, and from the attributes of the node, alone: a call whose inputs
// are the same in every run is made once. It may be called by several threads at once, and must not throw. `stream`: of
// a GPU, the CUstream on which it puts its work without waiting for it; the stream may be in capture. Null on the CPU.
using CustomCall = std::function<Status(std::span<const CallTensor> inputs, const CallTensor& output,
                                        const std::string& attributes, void* stream)>;

// From now on engines that are made for the platform ("cpu" or "cuda") call `function` under this name; a null one
// removes it. The evaluator calls that of "cpu". An Engine keeps the function that it was made with.
// invalid_argument: the name is empty, or the platform is another.
FUSEC_API Status register_call(const std::string& name, const std::string& platform, CustomCall function) noexcept;

}  // namespace fusec
