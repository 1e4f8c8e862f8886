// SPDX-License-Identifier: Apache-2.0
// What each library computes, as data: one row per library, the only place where a limit of a library stands. A Target
// names the libraries of such a machine. Passes and partition decide by their rows what to leave to a library, and the
// library itself (runtime/library) refuses by the same row. Rows are static, so that one machine can compile for
// another. A GPU that is opened has only the libraries that are there; a package that calls another is an error at
// bind.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/options.h"
#include "fusec/shape.h"
#include "fusec/target.h"
#include "ir/ops/op.h"

namespace fusec::ir {

inline constexpr int kAnyAxes = std::numeric_limits<int>::max();

struct ConvLimits {
  int max_spatial_axes = 3;
  bool pointwise_only = false;           // windows of one position, no padding, no groups
  bool is_slow_depthwise = false;        // one filter per channel takes a multiple of the time that its traffic needs
  bool is_slow_on_few_channels = false;  // so do 16-bit images with fewer channels than tensor cores take at once
};

struct PoolLimits {
  int max_spatial_axes = 3;
  bool has_dilations = true;
  bool has_uneven_padding = true;   // both ends of an axis padded differently, or the number of windows rounded up
  bool has_empty_windows = true;    // windows of padding alone
  bool is_slow_average = false;     // small windows take a multiple of the time that their traffic needs
  bool counts_past_padding = true;  // an average over a window that reaches past the padding, as of ceil_mode
};

// The views that operands are read through where they lie.
struct StrideLimits {
  bool backwards = true;  // negative strides
  bool repeated = true;   // images and matrices of which several elements share one place
  bool scattered = true;  // matrices with neither rows nor columns contiguous, channels-last images with other strides
};

// The epilogues of a call: [bias], then up to `max` of `unary` and `binary`, or one of `lone`. Each has one list, also
// for the operands of epilogues: `unary` ops have one operand, or constants beside it.
struct EpilogueLimits {
  std::span<const TensorOp> anchors = {};  // the ops that have epilogues
  std::span<const ScalarOp> unary = {}, binary = {};
  std::span<const DType> types = {};        // of results; empty: any
  std::span<const DType> unary_types = {};  // of results of unary ops; empty: any of `types`
  std::span<const ScalarOp> lone = {};      // ops of one operand that no other epilogue may stand before or behind
  std::span<const DType> lone_types = {};   // of their results
  bool in_any_order = true;                 // else a binary op, if any, then a unary one, if any
  bool broadcasts = true;  // operands may be one value, or one per channel; else as large as the result
  std::size_t max = 4;     // there are no fast kernels for longer chains
};

// Fused attention.
struct AttentionLimits {
  std::span<const DType> types = {};  // of query, key and value
  int min_sm = 0;                     // the first GPU architecture
  int64_t channel_step = 1;           // the channels of a head are a multiple of it
  int64_t max_channels = 0;           // of a head
  int wide_sm = 0;                    // the architecture on which there are `max_wide_channels`
  int64_t max_wide_channels = 0;
  // A known number of keys beside a mask is a multiple of the step, or few: else a slow kernel reads the mask. Where it
  // is not known, bind stores the mask in rows of a multiple of the step.
  int64_t masked_key_step = 1, few_masked_keys = 0;
};

struct LibraryCapabilities {
  std::string_view name;     // as in Target::libraries and Library::name
  std::string_view title;    // in messages
  bool is_built_in = false;  // part of fusec: it is used whatever Options::use_library says
  std::span<const TensorOp> ops;
  std::span<const DType> compute = {};  // types of LibraryStep::compute; empty: any
  bool has_mixed_types = true;          // operands may differ in type from the output
  ConvLimits conv = {};
  PoolLimits pool = {};
  AttentionLimits attention = {};
  StrideLimits strides = {};
  EpilogueLimits epilogues = {};
};

template <class T>
bool contains(std::span<const T> list, T item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The row of a library, by its name. The name must be one of the table's.
const LibraryCapabilities& library_capabilities(std::string_view name);
// The rows of the target's libraries, in order of preference.
std::vector<const LibraryCapabilities*> libraries_of(const Target& target);

// The views that every library of the target reads, so that it does not matter which of them bind picks.
StrideLimits stride_limits(const Target& target);

// Why the library has no such call at all, whatever the shapes; nullopt: it has.
std::optional<std::string> unsupported_reason(const LibraryCapabilities& library, TensorOp op, DType compute);

// The window of a pool along one axis.
struct PoolAxis {
  Dim in, out;
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;

  int64_t dilated_extent() const { return dilation * (kernel - 1) + 1; }
  bool is_known() const { return in.is_const() && out.is_const(); }
};

// Why the library cannot pool along the axis; null: it can, and for extents that are not known, whatever they are.
const char* unsupported_reason(const PoolLimits& limits, const PoolAxis& axis, bool counts_padding, bool ceil_mode);

// An attention before it is a node.
struct AttentionShape {
  DType dtype = DType::f32;
  Dim channels, value_channels;  // of a head
  Dim keys;
  bool masked = false;
  Dim heads = 1, queries = 1;  // of all samples; of a head
};

// Why the library does not compute such an attention on the target; nullopt: it does, whatever the mask broadcasts
// along and with any numbers of queries and heads.
std::optional<std::string> unsupported_reason(const LibraryCapabilities& library, const Target& target,
                                              const AttentionShape& shape);

// Whether the op is among the library's epilogues, in whatever place and type.
inline bool has_epilogue(const EpilogueLimits& limits, ScalarOp op, bool has_operand) {
  return has_operand ? contains(limits.binary, op) : contains(limits.unary, op) || contains(limits.lone, op);
}
// Whether the library fuses the op into a call as the next epilogue. `before`: the ops that the call has.
bool fuses(const EpilogueLimits& limits, ScalarOp op, DType result, std::span<const ScalarOp> before);

}  // namespace fusec::ir
