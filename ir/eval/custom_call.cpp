// SPDX-License-Identifier: Apache-2.0
// Evaluates custom calls by the function that the host registered for the CPU.

#include <array>

#include "ir/eval/op_call.h"
#include "ir/library/host_calls.h"

namespace fusec::ir {

// The function takes values in the dtypes of the graph, also where floats are kept wide between ops.
Result<Tensor> eval_custom_call(const OpCall& call) {
  const std::string& name = call.attrs.s("name");
  const auto function = find_call(name, TargetKind::cpu);
  if (function == nullptr) return reject_call(name, TargetKind::cpu);
  std::vector<Tensor> operands;
  std::array<CallTensor, kMaxCallInputs> inputs;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    FUSEC_ASSIGN(Tensor narrow, is_float(call.operand_dtypes[i]) ? round_to(call.operand(i), call.operand_dtypes[i])
                                                                 : Result<Tensor>(call.operand(i)));
    operands.push_back(std::move(narrow));
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs[i] = {operands[i].dtype(), operands[i].shape(), operands[i].data()};
  FUSEC_ASSIGN(Tensor out, Tensor::make(call.dtype, call.shape));
  Status done = (*function)(std::span(inputs.data(), operands.size()), {out.dtype(), out.shape(), out.data()},
                            call.attrs.s("attributes"), nullptr);
  if (!done.ok()) return std::move(done).with_note("in the custom call '" + name + "'");
  return round_to(out, call.storage);
}

}  // namespace fusec::ir
