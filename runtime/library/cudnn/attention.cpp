// SPDX-License-Identifier: Apache-2.0
// Builds attention for cuDNN at bind. cuDNN reads heads through any strides whose rows are contiguous and begin at
// multiples of 16 bytes; other operands are staged through dense temporaries. So are masks of many keys, in rows that
// zeros fill up.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/library/capabilities.h"
#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

constexpr int64_t kRowAlignment = 16;           // bytes
constexpr std::size_t kMaxAttentionPlans = 16;  // that are algorithms

int64_t size(const CallOperand& o) { return static_cast<int64_t>(size_of(o.dtype)); }

// The same elements; axes of extent 1 get the strides that they have in a dense tensor.
TensorSpec described(const CallOperand& o) {
  TensorSpec spec{o.dtype, o.dims, o.strides, o.alignment};
  int64_t next = 1;
  for (std::size_t axis = spec.dims.size(); axis-- > 0;) {
    if (spec.dims[axis] == 1) spec.strides[axis] = next;
    next = std::max(next, spec.strides[axis] * spec.dims[axis]);
  }
  return spec;
}

TensorSpec packed(const CallOperand& o) {
  TensorSpec spec{o.dtype, o.dims, o.strides};
  int64_t next = 1;
  for (std::size_t axis = spec.dims.size(); axis-- > 0;)
    spec.strides[axis] = std::exchange(next, next * spec.dims[axis]);
  return spec;
}

// cuDNN does not check where rows begin: it computes something else, or faults.
bool has_aligned_rows(const TensorSpec& spec, int64_t element) {
  for (std::size_t axis = 0; axis + 1 < spec.dims.size(); ++axis) {
    const bool repeats = spec.strides[axis] == 0 && spec.dims[axis] != 1;
    if (repeats || (spec.dims[axis] != 1 && spec.strides[axis] * element % kRowAlignment != 0)) return false;
  }
  return spec.strides.back() == 1 && spec.alignment % kRowAlignment == 0;
}

// Whether engines read rows of a mask of so many keys only where they begin at multiples of 16 bytes; else a slow one
// reads them.
bool needs_aligned_rows(int64_t keys) { return keys > ir::library_capabilities("cudnn").attention.few_masked_keys; }

// A dense mask, but for the ends of rows that are filled up so that cuDNN reads them fast.
TensorSpec in_rows(TensorSpec mask) {
  const int64_t step = ir::library_capabilities("cudnn").attention.masked_key_step, keys = mask.dims.back();
  int64_t next = needs_aligned_rows(keys) ? (keys + step - 1) / step * step : keys;
  for (std::size_t axis = mask.dims.size() - 1; axis-- > 0;)
    mask.strides[axis] = std::exchange(next, next * mask.dims[axis]);
  mask.strides.back() = 1;
  return mask;
}

// Plans that are tried before the one of cuDNN's heuristics. Times of 9.14 on an H100, us, heads of 64 channels: 12
// heads of 197 queries and keys by engine 4 with k24=3 6.1, by the heuristics' choice (5, k24=32) 8.1; 64 times as many
// heads by engine 5 with k24=7 46.8, k24=32 51.4; 768 heads of 128 22.5 and 29.0. With a mask: 12 heads of 128 by
// engine 1 with k24=3 5.9, by the heuristics' choice (2, k24=7) 7.9; 768 heads by engine 1 with k24=5 34.8, 38.4.
// Windows of 49 queries and 32 channels, 12,288 heads: engine 4 102 and 351, with a mask engine 1 169 and 313. Engines
// 4 and 5 have no causal attention: 12 heads of 128 by engine 1 with k24=3 10.2, by the heuristics' choice (2, k24=32)
// 14; 768 heads by engine 2 with k24=7 25.8, by engine 1 31, by the heuristics' choice 36.6, all with the time of the
// events.
std::vector<std::string> preferred_plans(const AttentionSpec& spec) {
  constexpr int64_t kTile = 128, kFewTiles = 128, kFewKeys = 256;  // of queries; about one for each multiprocessor
  const int64_t queries = spec.query.dims[2];
  const bool few_keys = spec.key.dims[2] <= kFewKeys;
  if (queries == 1) return {};  // one row of a decoder: the heuristics split the keys
  if (spec.causal && queries != spec.key.dims[2]) return {};
  const int64_t tiles = spec.query.dims[0] * spec.query.dims[1] * ((queries + kTile - 1) / kTile);
  if (few_keys && (tiles < kFewTiles || queries < kTile))
    return {spec.mask || spec.causal ? "eng1_k24=3" : "eng4_k24=3"};
  if (queries < kTile || ((spec.mask || spec.causal) && !few_keys)) return {};
  if (spec.causal) return {"eng2_k24=7"};
  return {spec.mask ? "eng1_k24=5" : "eng5_k24=7"};
}

class Building {
 public:
  Building(const BuildContext& context, const Problem& problem, std::string algorithm)
      : context_(context), problem_(problem), algorithm_(std::move(algorithm)) {}

  Result<ExecutionPlan> run() {
    const CallOperand& out = problem_[Role::output];
    if (problem_[Role::key].dims[2] == 0) return zeros(out);  // a sum over no values
    AttentionSpec spec;
    std::vector<PlanArg> pointers;
    FUSEC_TRY(take(problem_[Role::query], spec.query, pointers));
    FUSEC_TRY(take(problem_[Role::key], spec.key, pointers));
    FUSEC_TRY(take(problem_[Role::value], spec.value, pointers));
    if (const CallOperand* mask = problem_.find(Role::mask)) {
      spec.mask = described(*mask);
      FUSEC_TRY(take_mask(*mask, *spec.mask, pointers));
    }
    // One query takes all keys, and cuDNN up to 9.9 has no causal attention of it.
    spec.causal = problem_.causal && spec.query.dims[2] > 1;
    spec.scale = static_cast<float>(problem_.scale);
    spec.workspace_limit = context_.workspace_limit;
    spec.out = described(out);
    const bool staged = !has_aligned_rows(spec.out, size(out));
    const TensorSpec last = std::exchange(spec.out, staged ? packed(out) : spec.out);
    const PlanArg given{ArgSource::arg, out.arg, 0, nullptr};
    const PlanArg to = staged ? plan_.reserve(spec.out) : given;
    pointers.push_back(to);
    plan_.need(to, spec.out);
    auto work = find_work(spec);
    if (work.status().code() == StatusCode::unsupported && spec.causal && spec.query.dims[2] != spec.key.dims[2]) {
      FUSEC_ASSIGN(const PlanArg mask, read_causal(spec));
      pointers.insert(pointers.end() - 1, mask);
      work = find_work(spec);
    }
    if (!work.ok()) return work.status();
    plan_name_ = (*work)->name();
    plan_.add(*std::move(work), std::move(pointers));
    if (staged) {
      FUSEC_ASSIGN(auto copy, context_.backend.copy(spec.out, last));
      plan_.add(std::move(copy), {to, given});
    }
    return std::move(plan_);
  }
  // The plan that run() has found.
  const std::string& plan_name() const { return plan_name_; }
  // What run() has asked cuDNN for, without the name of a plan; nullopt: nothing.
  const std::optional<AttentionSpec>& spec() const { return spec_; }

 private:
  Result<ExecutionPlan> zeros(const CallOperand& out) {
    FUSEC_ASSIGN(auto plan, context_.backend.fill(described(out), 0));
    plan_.add(std::move(plan), {{ArgSource::arg, out.arg, 0, nullptr}});
    return std::move(plan_);
  }

  Result<std::shared_ptr<const CudnnPlan>> find_work(AttentionSpec spec) {
    spec_ = spec;
    if (algorithm_.empty()) return context_.batch_invariant ? find_plan_for_any_batch(spec) : find_plan(spec);
    spec.plan = algorithm_;
    return context_.plans.get(context_.backend, spec);
  }

  Result<std::shared_ptr<const CudnnPlan>> find_plan(AttentionSpec spec) {
    for (std::string& plan : preferred_plans(spec)) {
      spec.plan = std::move(plan);
      if (auto work = context_.plans.get(context_.backend, spec); work.ok()) return work;
    }
    spec.plan.clear();
    auto work = context_.plans.get(context_.backend, spec);
    if (work.status().code() != StatusCode::unsupported) return work;
    return Status(
        StatusCode::unsupported,
        work.status().message() + "; without the pass recognize_attention, products and a softmax compute it");
  }

  // `spec` with the plan for many samples whose rows lie densely.
  Result<std::shared_ptr<const CudnnPlan>> find_plan_for_any_batch(AttentionSpec spec) {
    const Problem many = of_many_samples(problem_);
    AttentionSpec wide = spec;
    wide.query = packed(many[Role::query]), wide.key = packed(many[Role::key]), wide.value = packed(many[Role::value]);
    wide.out = packed(many[Role::output]);
    if (const CallOperand* mask = many.find(Role::mask)) wide.mask = in_rows(packed(*mask));
    FUSEC_ASSIGN(const auto chosen, find_plan(wide));
    spec.plan = chosen->name();
    auto work = context_.plans.get(context_.backend, spec);
    return work.ok() ? work : not_for_this_batch(spec.plan, work.status());
  }

  Status take(const CallOperand& operand, TensorSpec& spec, std::vector<PlanArg>& pointers) {
    spec = described(operand);
    return source(operand, has_aligned_rows(spec, size(operand)), packed(operand), spec, pointers);
  }

  Status take_mask(const CallOperand& mask, TensorSpec& spec, std::vector<PlanArg>& pointers) {
    bool readable = spec.strides.back() == 1;
    if (needs_aligned_rows(spec.dims.back())) {
      for (std::size_t axis = 0; axis + 1 < spec.dims.size(); ++axis)
        readable = readable && (spec.dims[axis] == 1 || spec.strides[axis] * size(mask) % kRowAlignment == 0);
    }
    return source(mask, readable, in_rows(packed(mask)), spec, pointers);
  }

  // The causal mask as one that is read: cuDNN up to 9.5 has no other of other numbers of queries and keys than
  // multiples of 64.
  Result<PlanArg> read_causal(AttentionSpec& spec) {
    const int64_t queries = spec.query.dims[2], keys = spec.key.dims[2];
    spec.causal = false;
    spec.mask = in_rows({spec.query.dtype, {1, 1, queries, keys}, Extents(4, 1)});
    FUSEC_ASSIGN(void* const mask,
                 context_.weights.causal_mask(spec.query.dtype, queries, keys, spec.mask->strides[2]));
    return PlanArg{ArgSource::fixed, -1, 0, mask};
  }

  // `spec` describes the operand where it lies; it is copied to `copied` unless cuDNN can read it there.
  Status source(const CallOperand& operand, bool readable, const TensorSpec& copied, TensorSpec& spec,
                std::vector<PlanArg>& pointers) {
    const PlanArg given{ArgSource::arg, operand.arg, 0, nullptr};
    if (readable) {
      plan_.need(given, spec);
      pointers.push_back(given);
      return {};
    }
    const TensorSpec from = std::exchange(spec, copied);
    TensorSpec whole = spec;
    whole.dims.back() = std::max(whole.dims.back(), whole.strides[whole.dims.size() - 2]);
    const PlanArg staged = plan_.reserve(whole);
    if (whole != spec) {
      FUSEC_ASSIGN(auto fill, context_.backend.fill(whole, 0));
      plan_.add(std::move(fill), {staged});
    }
    FUSEC_ASSIGN(auto copy, context_.backend.copy(from, spec));
    plan_.add(std::move(copy), {given, staged});
    pointers.push_back(staged);
    return {};
  }

  const BuildContext& context_;
  const Problem& problem_;
  std::string algorithm_;
  ExecutionPlan plan_;
  std::optional<AttentionSpec> spec_;
  std::string plan_name_;
};

}  // namespace

Result<ExecutionPlan> build_attention(const BuildContext& context, const Problem& problem,
                                      const std::string& algorithm) {
  return Building(context, problem, algorithm).run();
}

std::vector<Algorithm> attention_algorithms(const BuildContext& context, const Problem& problem) {
  Building by_default(context, problem, {});
  const Result<ExecutionPlan> built = by_default.run();
  if (!built.ok() || !by_default.spec()) return {};
  const auto plans = context.backend.attention_plans(*by_default.spec());
  if (!plans.ok()) return {};
  std::vector<Algorithm> out = {{by_default.plan_name()}};
  for (const CudnnPlanInfo& plan : *plans)
    if (plan.name != out[0].id && out.size() < kMaxAttentionPlans) out.push_back({plan.name});
  return out;
}

}  // namespace fusec::runtime::cudnn
