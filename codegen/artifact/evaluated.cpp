// SPDX-License-Identifier: Apache-2.0
// Stores a kernel as text in an artifact, and has the evaluator run what was stored.

#include "codegen/artifact/evaluated.h"

#include <string_view>
#include <utility>

#include "ir/eval/kernel.h"
#include "ir/text/kernel_text.h"

namespace fusec::codegen {
namespace {

constexpr char kEvaluate[] = "fusec evaluates the image";  // no function of a math library has such a name

// Runs the whole kernel; its arguments have been checked when the kernel was bound. A fault is told as an index out of
// range is, the only fault that a run can have.
void evaluate(const HostArgs* args, int64_t begin, int64_t end, void*) {
  if (begin >= end) return;
  const auto& kernel = *static_cast<const ir::Kernel*>(args->externs[0]);
  std::map<std::string, int64_t> extents;
  std::map<ir::SymbolId, ir::IndexExpr> values;
  for (uint32_t i = 0; i < kernel.extents.size(); ++i) {
    extents[kernel.extents[ir::ExtentId{i}]] = args->extents[i];
    values[ir::ExtentId{i}] = ir::IndexExpr(args->extents[i]);
  }
  const auto sizes = [&](const ir::IndexShape& shape) {
    std::vector<int64_t> out;
    for (const ir::IndexExpr& e : shape) out.push_back(e.substitute(values).value());
    return out;
  };
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const ir::Buffer& buffer = kernel.buffers[kernel.params[i]];
    tensors.push_back(Tensor::borrow(buffer.dtype, sizes(buffer.shape), args->buffers[i], sizes(buffer.strides)));
  }
  if (!ir::evaluate(kernel, tensors, extents).ok()) *args->status = 1;
}

}  // namespace

Artifact make_evaluated(const ir::Kernel& kernel) {
  Artifact artifact;
  const std::string text = ir::print(kernel);
  artifact.image.assign(text.begin(), text.end());
  artifact.externs = {kEvaluate};
  artifact.phases.emplace_back().iterations = 1;
  artifact.local_bytes = 0;
  return artifact;
}

bool is_evaluated(const Artifact& artifact) { return artifact.externs == std::vector<std::string>{kEvaluate}; }

Result<EvaluatedKernel> load_evaluated(const Artifact& artifact) {
  const std::string_view text(reinterpret_cast<const char*>(artifact.image.data()), artifact.image.size());
  FUSEC_ASSIGN(ir::Kernel kernel, ir::parse_kernel(text));
  return EvaluatedKernel{evaluate, std::make_shared<const ir::Kernel>(std::move(kernel))};
}

}  // namespace fusec::codegen
