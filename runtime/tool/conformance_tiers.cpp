// SPDX-License-Identifier: Apache-2.0
// Lists the ONNX ops of each conformance tier and assigns a model to the first tier that covers its ops.

#include "runtime/tool/conformance_tiers.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace fusec::tool {
namespace {

struct Tier {
  std::string_view name, ops;  // ops: names with a space between
};

constexpr std::array<Tier, 5> kTiers = {{
    {"elementwise",
     "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
     "CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Floor "
     "Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max "
     "Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin "
     "Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"},
    {"reduce",
     "ArgMax ArgMin BatchNormalization CumSum GroupNormalization Hardmax InstanceNormalization LRN "
     "LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization RMSNormalization ReduceL1 ReduceL2 "
     "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax "
     "TopK"},
    {"move",
     "Concat Constant ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather GatherElements GatherND OneHot "
     "Pad Range Reshape Resize ReverseSequence ScatterElements ScatterND Shape Size Slice SpaceToDepth Split "
     "Squeeze Tile Transpose Trilu Unsqueeze Upsample"},
    {"compute",
     "AveragePool Conv ConvInteger ConvTranspose Einsum Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool "
     "MatMul MatMulInteger MaxPool QLinearConv QLinearMatMul"},
    {"control", "If"},
}};

bool lists(std::string_view ops, std::string_view op) {
  for (std::size_t at = ops.find(op); at != std::string_view::npos; at = ops.find(op, at + 1)) {
    const bool begins = at == 0 || ops[at - 1] == ' ';
    if (begins && (at + op.size() == ops.size() || ops[at + op.size()] == ' ')) return true;
  }
  return false;
}

// kTiers.size() for an op that none lists.
std::size_t tier_index(std::string_view op) {
  std::size_t i = 0;
  while (i < kTiers.size() && !lists(kTiers[i].ops, op)) ++i;
  return i;
}

}  // namespace

std::string find_tier(const importer::ModelSummary& model) {
  if (!model.foreign_types.empty()) return "other";
  std::size_t last = 0;
  for (const std::string& op : model.ops) last = std::max(last, tier_index(op));
  return last < kTiers.size() ? std::string(kTiers[last].name) : "other";
}

std::string tiers_markdown() {
  std::string text = "| tier | ops |\n|---|---|\n";
  for (const Tier& tier : kTiers) {
    text += "| " + std::string(tier.name) + " | " + std::string(tier.ops) + " |\n";
  }
  return text;
}

}  // namespace fusec::tool
