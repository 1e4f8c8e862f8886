// SPDX-License-Identifier: Apache-2.0
// Serializes convolution specs as cache keys and lists the cuDNN engines that are avoided in exact numerics. It does
// not depend on cuDNN.

#include "runtime/library/cudnn/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fusec::runtime::cudnn {
namespace {

std::string tensor_text(const char* role, const TensorSpec& t) {
  return fmt::format(" {}={}[{}]({})@{}", role, to_string(t.dtype), fmt::join(t.dims, ","), fmt::join(t.strides, ","),
                     t.alignment);
}

}  // namespace

std::string to_text(const ConvSpec& spec) {
  const Window& w = spec.window;
  std::string text =
      fmt::format("conv {} tf32={} exact={} workspace={} plan={} window={} step={} dilation={} pad={}+{}",
                  to_string(spec.compute), static_cast<int>(spec.tf32), static_cast<int>(spec.exact),
                  spec.workspace_limit, spec.plan, fmt::join(w.kernel, "x"), fmt::join(w.strides, "x"),
                  fmt::join(w.dilations, "x"), fmt::join(w.before, "x"), fmt::join(w.after, "x"));
  text += tensor_text("in", spec.in) + tensor_text("filter", spec.filter) + tensor_text("out", spec.out);
  for (const EpilogueSpec& epilogue : spec.epilogues) {
    text += epilogue.operand ? " +add(0)" + tensor_text("operand", *epilogue.operand) : " +relu(0)";
  }
  return text;
}

std::vector<std::string> lossy_engines(const ConvSpec& spec) {
  if (!spec.exact || !is_16_bit_float(spec.out.dtype)) return {};
  const bool has_relu = !spec.epilogues.empty() && !spec.epilogues.back().operand;
  if (has_relu) return {"eng6_k25=2", "eng39_"};
  return {"eng6_k25=2", "eng32_", "eng47_"};
}

}  // namespace fusec::runtime::cudnn
