// SPDX-License-Identifier: Apache-2.0
// What is asked of cuDNN, as plain data, and who answers. The ops of this folder see nothing of cuDNN but this, so that
// tests run them with a backend of their own on host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::cudnn {

// Axes N C spatial..., two or three of these; axes along which it is broadcast have extent 1.
struct TensorSpec {
  DType dtype = DType::f32;
  Extents dims, strides;   // elements
  int64_t alignment = 16;  // bytes that its address is a multiple of
  bool operator==(const TensorSpec&) const = default;
};

// A scalar op on the running value; with an operand it is an add.
struct PostSpec {
  ir::ScalarOp op = ir::ScalarOp::relu;
  double alpha = 0;
  std::optional<TensorSpec> operand;
};

struct ConvSpec {
  TensorSpec in, filter, out;  // filter: [O, I / groups, spatial...]
  Window window;
  std::vector<PostSpec> posts;
  DType compute = DType::f32;
  bool tf32 = false;   // f32 operands may be rounded to TF32
  bool exact = false;  // NaN and infinities must be kept
  std::size_t workspace_limit = 0;
  std::string plan = {};  // PlanInfo::name; empty: the first that cuDNN's heuristics name
};

// One line that tells any two specs apart.
std::string to_text(const ConvSpec& spec);

// Beginnings of the names of plans that would lose what is not finite, where spec.exact forbids that; else none. They
// are of cuDNN 9.14 on an H200 and 16-bit types. Engines 32 and 47 store 0 for -inf, where a relu behind does not hide
// it, as they clip by a comparison that -inf fails; the relu of 39 makes 0 of NaN, and behind one kernel of 6 for
// groups a relu of its own does, which keeps NaN behind others. CudaLibraries.ExactReluKeepsNan and
// ExactOverflowIsInfinite look for them. The engines of other versions may be sound; without them a slower plan is
// taken.
std::vector<std::string> lossy_engines(const ConvSpec& spec);

// A way of cuDNN to do a convolution.
struct PlanInfo {
  std::string name;  // engine and knobs, "eng28_k2=4_k24=17"
};

struct PoolSpec {
  TensorSpec in, out;
  bool is_max = false, count_include_pad = false;
  Extents kernel, strides, padding;
};

// Work that is ready to be put on a stream: immutable, may run in several threads at once, each with its own memory.
class Work {
 public:
  virtual ~Work() = default;
  // pointers: device addresses, in the order that the function of Backend names.
  virtual Status run(void* const* pointers, void* workspace, void* stream) const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
};

// All functions are thread-safe; `unsupported` where cuDNN has no way to do it. Plans may outlive the Backend.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string version() const { return "unknown"; }
  // The plans that keep to our arithmetic, in the order of cuDNN's heuristics; none of them is built.
  virtual Result<std::vector<PlanInfo>> conv_plans(const ConvSpec& spec) = 0;
  // in, filter, the operands of `posts` in order, out
  virtual Result<std::unique_ptr<Work>> conv(const ConvSpec& spec) = 0;
  // in, out
  virtual Result<std::unique_ptr<Work>> pool(const PoolSpec& spec) = 0;
  // from, to: the same elements in another order
  virtual Result<std::unique_ptr<Work>> copy(const TensorSpec& from, const TensorSpec& to) = 0;
  // out: every element is `value`
  virtual Result<std::unique_ptr<Work>> fill(const TensorSpec& out, double value) = 0;
  // [operand,] out: the op on `out` in place
  virtual Result<std::unique_ptr<Work>> post(const PostSpec& post, const TensorSpec& out) = 0;
};

}  // namespace fusec::runtime::cudnn
