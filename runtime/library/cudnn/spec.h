// SPDX-License-Identifier: Apache-2.0
// Requests to cuDNN as plain data, and the interface that answers them. The ops of this folder use cuDNN only through
// it, so that tests can run them with their own backend on host memory. Plans of convolutions and attention, as
// serialized by cuDNN, are stored in the kernel cache: building a plan queries heuristics and may compile kernels;
// reading a stored one does neither.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "runtime/cache/artifact.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::cudnn {

// The axes are N C spatial..., with two or three spatial axes; of attention, those of the op's row. Broadcast axes have
// extent 1.
struct TensorSpec {
  DType dtype = DType::f32;
  Extents dims, strides;   // elements
  int64_t alignment = 16;  // its address is a multiple of this many bytes
  bool operator==(const TensorSpec&) const = default;
};

// What cuDNN fuses (ir/library/capabilities.h): an add of the operand, or a relu.
struct EpilogueSpec {
  std::optional<TensorSpec> operand;
};

struct ConvSpec {
  TensorSpec in, filter, out;  // filter: [O, I / groups, spatial...]
  Window window;
  std::vector<EpilogueSpec> epilogues;
  DType compute = DType::f32;
  bool tf32 = false;   // f32 operands may be rounded to TF32
  bool exact = false;  // NaN and infinities must be kept
  std::size_t workspace_limit = 0;
  std::string plan = {};  // CudnnPlanInfo::name; empty: the first from cuDNN's heuristics
};

// Fused attention: the op `attention`, computed in f32 between 16-bit operands. The weights are rounded to 16 bits
// before they weight the values.
struct AttentionSpec {
  TensorSpec query, key, value, out;
  std::optional<TensorSpec> mask;  // [N or 1, H or 1, S or 1, T]
  bool causal = false;             // query s of S takes the keys up to s + T - S; there is no mask
  float scale = 1;
  std::size_t workspace_limit = 0;
  std::string plan = {};  // as in ConvSpec
};

// One line that differs between any two different specs.
std::string to_text(const ConvSpec& spec);
std::string to_text(const AttentionSpec& spec);

// Parts of the names of plans that compute what the spec forbids; else empty. They apply to cuDNN 9.14 on sm_90.
// Wrong values, in any numerics: engine 5 reads other memory where an f32 convolution with a filter per channel is
// padded more in front than behind ([N, 2, 2] * [2, 1, 3] with pads 1 and 0); CudaLibraries.FrontPadsOfGroups tests
// it. The name has no end, so that engines 50 to 59 go too, which rank behind others there.
// Lost NaN or infinities, where spec.exact forbids that, of 16-bit types: engines 32 and 47 store 0 for -inf unless a
// following relu hides it, because they clip with a comparison that -inf fails. The relu of engine 39 turns NaN into
// 0. One grouped kernel of engine 6 followed by a separate relu does so too, although that relu keeps NaN after other
// kernels. CudaLibraries.ExactReluKeepsNan and ExactOverflowIsInfinite test for this.
// Engines of other versions may be correct; avoiding them costs a slower plan.
std::vector<std::string> barred_engines(const ConvSpec& spec);
// None is known. Attention is never asked for in exact numerics.
inline std::vector<std::string> barred_engines(const AttentionSpec& /*spec*/) { return {}; }

// One algorithm of cuDNN for a convolution or an attention.
struct CudnnPlanInfo {
  std::string name;  // engine and knobs, "eng28_k2=4_k24=17"
};

struct PoolSpec {
  TensorSpec in, out;
  bool is_max = false, count_include_pad = false;
  Extents kernel, strides, padding;
};

// Work that can be put on a stream. It is immutable and may run in several threads at once, each with its own memory.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  // pointers: device addresses, in the order that the Backend function states.
  virtual Status run(void* const* pointers, void* workspace, void* stream) const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
};

// All functions are thread-safe. `unsupported` if cuDNN has no algorithm. Plans may outlive the Backend.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string version() const { return "unknown"; }
  // The plans that meet our numerics, in the order of cuDNN's heuristics. None of them is built. Of attention, then
  // those that its heuristics do not name and that are known to be faster in some cases.
  virtual Result<std::vector<CudnnPlanInfo>> conv_plans(const ConvSpec& spec) = 0;
  virtual Result<std::vector<CudnnPlanInfo>> attention_plans(const AttentionSpec& spec) = 0;
  // in, filter, the operands of `epilogues` in order, out
  virtual Result<std::unique_ptr<CudnnPlan>> conv(const ConvSpec& spec) = 0;
  // query, key, value, [mask,] out
  virtual Result<std::unique_ptr<CudnnPlan>> attention(const AttentionSpec& spec) = 0;
  // in, out
  virtual Result<std::unique_ptr<CudnnPlan>> pool(const PoolSpec& spec) = 0;
  // from, to: the same elements in another order
  virtual Result<std::unique_ptr<CudnnPlan>> copy(const TensorSpec& from, const TensorSpec& to) = 0;
  // out: every element is `value`
  virtual Result<std::unique_ptr<CudnnPlan>> fill(const TensorSpec& out, double value) = 0;
  // [operand,] out: the op on `out` in place
  virtual Result<std::unique_ptr<CudnnPlan>> epilogue(const EpilogueSpec& epilogue, const TensorSpec& out) = 0;
};

struct StoredPlan {
  std::string name;  // CudnnPlanInfo::name; for a refusal, cuDNN's reason
  std::string text;  // serialized for one version and device; empty: cuDNN has no plan
};

// Thread-safe. If the kernel cache fails, the plan is built.
class CudnnPlanCache {
 public:
  // Null if there is no cache or the device has no name.
  static std::unique_ptr<CudnnPlanCache> open(const Options& options, const std::string& device,
                                              const std::string& version);
  // `spec` is the text of one.
  std::optional<StoredPlan> load(const std::string& spec) const;
  void store(const std::string& spec, const StoredPlan& plan) const;

 private:
  CudnnPlanCache(std::unique_ptr<KernelCache> cache, std::string where)
      : cache_(std::move(cache)), where_(std::move(where)) {}
  std::unique_ptr<KernelCache> cache_;
  std::string where_;  // device and version
};

}  // namespace fusec::runtime::cudnn
