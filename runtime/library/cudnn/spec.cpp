// SPDX-License-Identifier: Apache-2.0
// Serializes specs as cache keys and lists the cuDNN engines that are avoided in exact numerics. Loads and
// stores serialized plans as entries of the kernel cache, at bind; their key contains the device and cuDNN's version,
// because a plan is valid only for these. It does not depend on cuDNN.

#include "runtime/library/cudnn/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

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

std::string to_text(const AttentionSpec& spec) {
  std::string text =
      fmt::format("attention scale={} workspace={} plan={}", spec.scale, spec.workspace_limit, spec.plan);
  text += tensor_text("query", spec.query) + tensor_text("key", spec.key) + tensor_text("value", spec.value);
  if (spec.mask) text += tensor_text("mask", *spec.mask);
  if (spec.causal) text += " causal";
  return text + tensor_text("out", spec.out);
}

std::vector<std::string> barred_engines(const ConvSpec& spec) {
  const Window& w = spec.window;
  bool more_in_front = false;
  for (std::size_t i = 0; i < w.before.size(); ++i) more_in_front |= w.before[i] > w.after[i];
  const bool is_grouped = spec.in.dims[1] != spec.filter.dims[1];
  if (spec.in.dtype == DType::f32 && is_grouped && more_in_front) return {"eng5"};
  if (!spec.exact || !is_16_bit_float(spec.out.dtype)) return {};
  const bool has_relu = !spec.epilogues.empty() && !spec.epilogues.back().operand;
  if (has_relu) return {"eng6_k25=2", "eng39_"};
  return {"eng6_k25=2", "eng32_", "eng47_"};
}

std::unique_ptr<CudnnPlanCache> CudnnPlanCache::open(const Options& options, const std::string& device,
                                                     const std::string& version) {
  if (device.empty() || !options.use_cache) return nullptr;
  auto cache =
      KernelCache::open(options, device, [](const std::string&) {});  // the engine's own kernel cache warns of this
  if (!cache) return nullptr;
  return std::unique_ptr<CudnnPlanCache>(
      new CudnnPlanCache(std::move(cache), fmt::format("cudnn plan 5; {}; cudnn {}; ", device, version)));
}

// The image of an entry is the name, a line feed, and the text.
std::optional<StoredPlan> CudnnPlanCache::load(const std::string& spec) const {
  const std::optional<codegen::Artifact> entry = cache_->load(where_ + spec);
  if (!entry) return std::nullopt;
  const auto end = std::find(entry->image.begin(), entry->image.end(), static_cast<uint8_t>('\n'));
  if (end == entry->image.end()) return std::nullopt;
  return StoredPlan{{entry->image.begin(), end}, {end + 1, entry->image.end()}};
}

void CudnnPlanCache::store(const std::string& spec, const StoredPlan& plan) const {
  codegen::Artifact entry;
  entry.key = where_ + spec;
  entry.image.assign(plan.name.begin(), plan.name.end());
  std::replace(entry.image.begin(), entry.image.end(), static_cast<uint8_t>('\n'), static_cast<uint8_t>(' '));
  entry.image.push_back('\n');
  entry.image.insert(entry.image.end(), plan.text.begin(), plan.text.end());
  cache_->store(entry);
}

}  // namespace fusec::runtime::cudnn
