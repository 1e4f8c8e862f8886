// SPDX-License-Identifier: Apache-2.0
// The table of libraries and the questions that it answers. Nothing here asks a library: a row says what holds for
// every version that is opened. What depends on the machine at hand (16-bit types of oneDNN) stays with the library.

#include "ir/library/capabilities.h"

#include "ir/support/check.h"

namespace fusec::ir {
namespace {

constexpr TensorOp kProducts[] = {TensorOp::conv, TensorOp::matmul};
constexpr TensorOp kCudnnOps[] = {TensorOp::conv, TensorOp::max_pool, TensorOp::avg_pool, TensorOp::attention};
// oneDNN's max_pool drops NaN.
constexpr TensorOp kOneDnnOps[] = {TensorOp::conv, TensorOp::matmul, TensorOp::avg_pool};
constexpr TensorOp kPlainOps[] = {TensorOp::conv, TensorOp::matmul, TensorOp::max_pool, TensorOp::avg_pool};

constexpr DType kF32[] = {DType::f32};
constexpr DType kWide[] = {DType::f32, DType::f64};  // in which floats are computed
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
constexpr DType kHalves[] = {DType::f16, DType::bf16};
constexpr DType kNoF64[] = {DType::f32, DType::f16, DType::bf16};

// The gelus and elu are excluded: oneDNN's are off by 64 and more units in the last place, and its gelu of infinity is
// NaN. max and min are excluded because oneDNN's drop NaN, as do its clamp and hard_sigmoid. Fused into a generated
// kernel they cost less than a pass that corrects the result.
constexpr ScalarOp kHostUnary[] = {ScalarOp::relu,    ScalarOp::leaky_relu, ScalarOp::hard_swish,
                                   ScalarOp::sigmoid, ScalarOp::tanh,       ScalarOp::silu,
                                   ScalarOp::abs,     ScalarOp::square,     ScalarOp::sqrt};
constexpr ScalarOp kHostBinary[] = {ScalarOp::add, ScalarOp::sub, ScalarOp::mul};
constexpr EpilogueLimits kHostEpilogues{.anchors = kProducts, .unary = kHostUnary, .binary = kHostBinary};

// The epilogues of GPU libraries are, in this order: bias, an addend as large as the result, relu. cuBLASLt has the
// gelu by tanh, too. All other ops become part of a generated kernel: cuDNN fuses more only for some types and layouts,
// and no further pass over memory could compute the rest.
constexpr ScalarOp kRelu[] = {ScalarOp::relu};
constexpr ScalarOp kAdd[] = {ScalarOp::add};
constexpr EpilogueLimits kCudnnEpilogues{.anchors = kProducts,
                                         .unary = kRelu,
                                         .binary = kAdd,
                                         .types = kFloats,
                                         .unary_types = kNoF64,
                                         .in_any_order = false,
                                         .broadcasts = false};

// cublasLt.h 13 states of CUBLASLT_EPILOGUE_GELU_BIAS: "apply Bias and then GELU transform". It names no formula and no
// error, and does not say that an addend (C) may be there as well, so gelu_tanh stands alone behind the bias, and only
// for 16-bit results: CudaLibraries.GeluByTanh measures that it is this formula, and its error. An empty list of types
// here leaves gelu_tanh to generated kernels.
constexpr ScalarOp kGeluTanh[] = {ScalarOp::gelu_tanh};
constexpr std::span<const DType> kGeluTypes = kHalves;
constexpr EpilogueLimits with_gelu(EpilogueLimits limits) {
  limits.lone = kGeluTanh;
  limits.lone_types = kGeluTypes;
  return limits;
}
constexpr EpilogueLimits kCublasLtEpilogues = with_gelu(kCudnnEpilogues);

constexpr LibraryCapabilities kLibraries[] = {
    {.name = "onednn",
     .title = "oneDNN",
     .ops = kOneDnnOps,
     .compute = kF32,
     .pool = {.counts_past_padding = false},
     .strides = {.backwards = false, .repeated = false, .scattered = false},
     .epilogues = kHostEpilogues},
    // The loops take every type and view and run any scalar op; they finish what oneDNN leaves.
    {.name = "plain",
     .title = "the loops",
     .is_built_in = true,
     .ops = kPlainOps,
     .conv = {.max_spatial_axes = kAnyAxes},
     .epilogues = kHostEpilogues},
    // Matrices that no pitch describes become several calls.
    {.name = "cublaslt",
     .title = "cuBLASLt",
     .ops = kProducts,
     .compute = kWide,
     .conv = {.max_spatial_axes = kAnyAxes, .pointwise_only = true},
     .strides = {.scattered = false},
     .epilogues = kCublasLtEpilogues},
    {.name = "cudnn",
     .title = "cuDNN",
     .ops = kCudnnOps,
     .compute = kWide,
     .has_mixed_types = false,
     .conv = {.is_slow_depthwise = true, .is_slow_on_few_channels = true},
     .pool = {.has_dilations = false,
              .has_uneven_padding = false,
              .has_empty_windows = false,
              .is_slow_average = true,
              .counts_past_padding = false},
     // What every cuDNN 9 has but 9.10.0 and 9.10.1, which lack it (cudnn-frontend 1.32, sdpa_support_surface.h). Where
     // keys are few, engine 1 of 9.14 reads rows of a mask that begin anywhere; else engine 2 does, which takes longer
     // than products and a softmax (H100; runtime/library/cudnn/attention.cpp has the times).
     .attention = {.types = kHalves,
                   .min_sm = 80,
                   .channel_step = 8,
                   .max_channels = 128,
                   .wide_sm = 90,
                   .max_wide_channels = 256,
                   .masked_key_step = 8,
                   .few_masked_keys = 256},
     .strides = {.backwards = false, .repeated = false, .scattered = false},
     .epilogues = kCudnnEpilogues},
};

}  // namespace

const LibraryCapabilities& library_capabilities(std::string_view name) {
  const auto* const row =
      std::find_if(std::begin(kLibraries), std::end(kLibraries), [&](const auto& r) { return r.name == name; });
  FUSEC_CHECK(row != std::end(kLibraries)) << "no library is named '" << name << "'";
  return *row;
}

std::vector<const LibraryCapabilities*> libraries_of(const Target& target) {
  std::vector<const LibraryCapabilities*> rows;
  for (const std::string& name : target.libraries) rows.push_back(&library_capabilities(name));
  return rows;
}

StrideLimits stride_limits(const Target& target) {
  StrideLimits all;
  for (const LibraryCapabilities* library : libraries_of(target)) {
    all.backwards = all.backwards && library->strides.backwards;
    all.repeated = all.repeated && library->strides.repeated;
    all.scattered = all.scattered && library->strides.scattered;
  }
  return all;
}

std::optional<std::string> unsupported_reason(const LibraryCapabilities& library, TensorOp op, DType compute) {
  if (!contains(library.ops, op)) return std::string(library.title) + " is not asked for " + std::string(info(op).name);
  if (library.compute.empty() || contains(library.compute, compute)) return std::nullopt;
  return std::string("no arithmetic in ") + to_string(compute);
}

const char* unsupported_reason(const PoolLimits& limits, const PoolAxis& a, bool counts_padding, bool ceil_mode) {
  constexpr const char* kEmpty = "no windows of padding alone";
  constexpr const char* kUneven = "both ends are padded alike";
  constexpr const char* kPast = "no places past the padding are counted";
  if (!limits.has_dilations && a.dilation != 1) return "no dilations";
  if (!limits.has_empty_windows && a.before >= a.kernel) return kEmpty;
  if (!a.is_known()) {
    if (!limits.has_uneven_padding && (ceil_mode || a.before != a.after)) return kUneven;
    return !limits.counts_past_padding && counts_padding && ceil_mode ? kPast : nullptr;
  }
  const int64_t in = a.in.value(), out = a.out.value(), room = in + 2 * a.before - a.kernel;
  if (!limits.has_uneven_padding && (room < 0 || room / a.stride + 1 != out)) return kUneven;
  const int64_t start = (out - 1) * a.stride - a.before;  // of the last window
  if (!limits.has_empty_windows && start >= in) return kEmpty;
  return !limits.counts_past_padding && counts_padding && start + a.dilated_extent() > in + a.after ? kPast : nullptr;
}

std::optional<std::string> unsupported_reason(const LibraryCapabilities& library, const Target& target,
                                              const AttentionShape& shape) {
  const AttentionLimits& limits = library.attention;
  if (!contains(library.ops, TensorOp::attention)) return "no attention by " + std::string(library.title);
  if (target.sm < limits.min_sm) return "no attention on " + target.name;
  if (!contains(limits.types, shape.dtype)) return std::string("no attention in ") + to_string(shape.dtype);
  const int64_t most = target.sm == limits.wide_sm ? limits.max_wide_channels : limits.max_channels;
  for (const Dim& channels : {shape.channels, shape.value_channels}) {
    if (!channels.is_const() || channels.value() < limits.channel_step || channels.value() > most ||
        channels.value() % limits.channel_step != 0)
      return "heads of " + channels.str() + " channels";
  }
  if (!shape.masked) return std::nullopt;
  if (shape.keys.is_const() && shape.keys.value() % limits.masked_key_step != 0 &&
      shape.keys.value() > limits.few_masked_keys)
    return "a mask of " + shape.keys.str() + " keys";
  return std::nullopt;
}

bool fuses(const EpilogueLimits& limits, ScalarOp op, DType result, std::span<const ScalarOp> before) {
  if (!limits.types.empty() && !contains(limits.types, result)) return false;
  if (contains(limits.lone, op)) return before.empty() && contains(limits.lone_types, result);
  if (!before.empty() && contains(limits.lone, before.back())) return false;
  if (contains(limits.unary, op)) {
    const bool may_follow = limits.in_any_order || before.empty() || contains(limits.binary, before.back());
    return may_follow && (limits.unary_types.empty() || contains(limits.unary_types, result));
  }
  return contains(limits.binary, op) && (limits.in_any_order || before.empty());
}

}  // namespace fusec::ir
