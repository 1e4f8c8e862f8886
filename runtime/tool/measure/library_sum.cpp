// SPDX-License-Identifier: Apache-2.0
// Measures a CPU plan against the sum of its library calls, each timed alone in its fastest layout, for `fusec bench
// --library-sum`. Model and calls alternate within a round, so that disturbances affect both.

#include "runtime/tool/measure/library_sum.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/plan/bind.h"
#include "runtime/run/executor.h"

namespace fusec::tool {
namespace {

using runtime::AlignedBuffer;
using runtime::Base;
using runtime::IsolatedCall;
using runtime::Launch;
using runtime::LibraryCall;
using runtime::Plan;

constexpr int kModelRuns = 4, kProfileRuns = 2, kCalls = 5, kTrials = 3;  // of one round, or of one trial of layouts
constexpr int64_t kMinRounds = 3;
constexpr double kHopeless = 4;  // layouts this many times slower than another one are tried once

// Both halves of this float are normal numbers as f16 and as bf16 too.
constexpr uint32_t kPattern = 0x3c003c00;

Result<AlignedBuffer> filled(int64_t bytes) {
  FUSEC_ASSIGN(AlignedBuffer buffer, AlignedBuffer::make(runtime::round_up(std::max<int64_t>(bytes, 1), 64)));
  std::fill_n(reinterpret_cast<uint32_t*>(buffer.data()), buffer.bytes() / 4, kPattern);
  return buffer;
}

// Memory that is given out piece by piece, round and round: a piece was last used as long ago as the whole is large.
class Rotation {
 public:
  static Result<Rotation> make(int64_t bytes) {
    FUSEC_ASSIGN(AlignedBuffer buffer, filled(bytes));
    return Rotation(std::move(buffer));
  }
  void* next(int64_t bytes) {
    if (at_ + bytes > buffer_.bytes()) at_ = 0;
    return buffer_.data() + std::exchange(at_, at_ + runtime::round_up(bytes, 64));
  }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  explicit Rotation(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}
  AlignedBuffer buffer_;
  int64_t at_ = 0;
};

struct Group {
  LibraryCall call;  // of library steps
  bool in_place = false;
  StepGroup shown;
  std::vector<IsolatedCall> layouts;
  int best = -1;
};

// The distinct calls of a plan, to be timed alone: activations stay where they are, weights rotate.
class Bench {
 public:
  explicit Bench(int threads) : threads_(threads) {}

  // Room for all arguments of these calls.
  Status reserve(const std::vector<Group>& groups, int64_t rotate) {
    std::vector<int64_t> most;
    int64_t weights = 0, workspace = 0;
    for (const Group& group : groups) {
      for (const IsolatedCall& call : group.layouts) {
        most.resize(std::max(most.size(), call.bytes.size()));
        for (std::size_t i = 0; i < call.bytes.size(); ++i) {
          const auto bytes = static_cast<int64_t>(call.bytes[i]);
          int64_t& room = static_cast<int>(i) == call.weights ? weights : most[i];
          room = std::max(room, bytes);
        }
        workspace = std::max(workspace, static_cast<int64_t>(call.op->workspace_bytes()));
      }
    }
    for (const int64_t bytes : most) {
      FUSEC_ASSIGN(AlignedBuffer buffer, filled(bytes));
      args_.push_back(std::move(buffer));
    }
    FUSEC_ASSIGN(out_, filled(most.empty() ? 0 : *std::max_element(most.begin(), most.end())));
    FUSEC_ASSIGN(workspace_, filled(workspace));
    FUSEC_ASSIGN(Rotation rotation, Rotation::make(std::max(rotate, weights)));
    rotation_.emplace(std::move(rotation));
    return {};
  }

  // Microseconds: the mean of a few calls after one that is not counted; of more than `hopeless` that one.
  Result<double> time(const IsolatedCall& call, double hopeless = std::numeric_limits<double>::infinity()) {
    Status failed;
    const auto once = [&] {
      const std::vector<void*> args = arguments(call);
      return time_us([&] {
        if (Status status = call.op->run(args.data(), workspace_.data(), {threads_}); !status.ok()) failed = status;
      });
    };
    const double first = once();
    if (!failed.ok()) return failed;
    if (first > hopeless) return first;
    double us = 0;
    for (int i = 0; i < kCalls; ++i) us += once();
    if (!failed.ok()) return failed;
    return us / kCalls;
  }

  int64_t rotated_bytes() const { return rotation_->bytes(); }

 private:
  std::vector<void*> arguments(const IsolatedCall& call) {
    std::vector<void*> args;
    for (std::size_t i = 0; i < call.bytes.size(); ++i) {
      args.push_back(static_cast<int>(i) == call.weights ? rotation_->next(static_cast<int64_t>(call.bytes[i]))
                     : i + 1 == call.bytes.size()        ? out_.data()
                                                         : args_[i].data());
    }
    return args;
  }

  int threads_;
  std::vector<AlignedBuffer> args_;  // by argument, shared by all calls
  AlignedBuffer out_, workspace_;
  std::optional<Rotation> rotation_;
};

std::string text(const LibraryCall& call) {
  const ir::LibraryStep& step = *call.step;
  std::string out(ir::info(step.op).name);
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const bool operand = i + 1 < call.args.size() && i > 0 && !(i == 1 && step.op != ir::TensorOp::max_pool);
    if (operand) continue;
    out += (i + 1 == call.args.size() ? " -> " : i > 0 ? " * " : " ") + shape_text(call.args[i].shape);
  }
  if (step.bias >= 0) out += " +bias";
  for (const ir::Epilogue& epilogue : step.epilogues) out.append(" +").append(ir::info(epilogue.op).name);
  return out;
}

bool same_call(const LibraryCall& a, const LibraryCall& b) {
  const ir::LibraryStep &s = *a.step, &t = *b.step;
  return s.op == t.op && s.attrs == t.attrs && s.compute == t.compute && s.epilogues == t.epilogues &&
         s.bias == t.bias &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [](const runtime::BoundArg& x, const runtime::BoundArg& y) {
                      return x.dtype == y.dtype && x.shape == y.shape && x.strides == y.strides &&
                             (x.constant == nullptr) == (y.constant == nullptr);
                    });
}

// Whether the plan runs the step's epilogue sum over its own memory.
bool in_place(const Plan& plan, const Launch& launch) {
  const runtime::Address& out = plan.args[launch.first_arg + launch.args - 1];
  for (const int arg : launch.op->may_alias()) {
    const runtime::Address& in = plan.args[launch.first_arg + static_cast<uint32_t>(arg)];
    if (in.base == out.base && in.ordinal == out.ordinal && in.bytes == out.bytes) return true;
  }
  return false;
}

std::vector<Group> group_steps(const Plan& plan, const runtime::ResolvedProgram& resolved) {
  std::vector<Group> groups;
  for (std::size_t i = plan.once; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    Group group;
    group.shown.generated = launch.op == nullptr;
    group.shown.origin = launch.step->origin;
    if (launch.op != nullptr) {
      group.call = library_call(*plan.loaded, resolved.steps[i], plan.threads);
      group.in_place = in_place(plan, launch);
      group.shown.what = text(group.call);
      group.shown.implementation = launch.op->implementation();
    } else {
      group.shown.implementation = plan.loaded->program.kernels[std::get<ir::KernelStep>(launch.step->v).kernel].name;
      group.shown.what = group.shown.implementation;
      for (uint32_t e = 0; e < resolved.steps[i].extents.size(); ++e) {
        group.shown.what += (e ? " x " : " ") + std::to_string(resolved.steps[i].extents[e]);
      }
    }
    const auto same = [&](const Group& g) {
      if (g.shown.generated != group.shown.generated) return false;
      if (group.shown.generated) return g.shown.what == group.shown.what;
      return g.in_place == group.in_place && same_call(g.call, group.call);
    };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) at = groups.insert(at, std::move(group));
    at->shown.steps.push_back(i);
  }
  return groups;
}

// The layout of least median over a few trials, all layouts in turn.
Status choose_layout(Bench& bench, Group& group) {
  std::vector<std::vector<double>> us(group.layouts.size());
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < kTrials; ++trial) {
    for (std::size_t i = 0; i < us.size(); ++i) {
      if (!us[i].empty() && us[i].front() > kHopeless * least) continue;
      FUSEC_ASSIGN(const double time, bench.time(group.layouts[i], kHopeless * least));
      us[i].push_back(time);
      least = std::min(least, time);
    }
  }
  for (std::size_t i = 0; i < us.size(); ++i) {
    group.shown.layouts.emplace_back(group.layouts[i].layout, median(us[i]));
    if (group.best < 0 || median(us[i]) < median(us[static_cast<std::size_t>(group.best)]))
      group.best = static_cast<int>(i);
  }
  if (group.best < 0) return {};
  const IsolatedCall& best = group.layouts[static_cast<std::size_t>(group.best)];
  group.shown.layout = best.layout;
  group.shown.isolated_implementation = best.op->implementation();
  return {};
}

// The model on tensors of its own memory plan.
class BoundModel {
 public:
  static Result<BoundModel> make(std::shared_ptr<const Plan> plan, std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs) {
    BoundModel model;
    FUSEC_TRY(model.memory_->reserve(*plan).status());
    model.frame_ = std::make_unique<runtime::Frame>(plan, *model.memory_);
    for (const Tensor& t : inputs) model.in_.push_back(t.data());
    for (const Tensor& t : outputs) model.out_.push_back(const_cast<void*>(static_cast<const void*>(t.data())));
    model.step_us_.resize(plan->launches.size());
    return model;
  }
  Status run(double* step_us = nullptr) { return frame_->run(in_, out_, step_us); }
  // Adds the times of one run to those of each step.
  Status profile(std::vector<std::vector<double>>& us) {
    FUSEC_TRY(run(step_us_.data()));
    for (std::size_t i = 0; i < us.size(); ++i) us[i].push_back(step_us_[i]);
    return {};
  }

 private:
  BoundModel() = default;
  std::unique_ptr<runtime::RunMemory> memory_ = std::make_unique<runtime::RunMemory>();
  std::unique_ptr<runtime::Frame> frame_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<double> step_us_;
};

struct Samples {
  std::vector<double> model, sums, ratios;
  std::vector<std::vector<double>> steps;   // by launch
  std::vector<std::vector<double>> groups;  // calls alone
};

Status round(BoundModel& model, Bench& bench, const std::vector<Group>& groups, Samples& samples) {
  FUSEC_TRY(model.run());  // brings its weights and arena back into the caches that hold them
  Status failed;
  const double us = time_us([&] {
                      for (int i = 0; i < kModelRuns; ++i) failed = failed.ok() ? model.run() : failed;
                    }) /
                    kModelRuns;
  FUSEC_TRY(failed);
  for (int i = 0; i < kProfileRuns; ++i) FUSEC_TRY(model.profile(samples.steps));
  double sum = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].best < 0) continue;
    FUSEC_ASSIGN(const double isolated_us, bench.time(groups[g].layouts[static_cast<std::size_t>(groups[g].best)]));
    samples.groups[g].push_back(isolated_us);
    sum += isolated_us * groups[g].shown.count();
  }
  samples.model.push_back(us);
  samples.sums.push_back(sum);
  samples.ratios.push_back(us / sum);
  return {};
}

LibrarySum summary(std::vector<Group> groups, const Samples& samples) {
  LibrarySum out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    StepGroup& shown = groups[g].shown;
    double total = 0;
    for (const std::size_t step : shown.steps) total += median(samples.steps[step]);
    shown.plan_us = total / shown.count();
    shown.isolated_us = median(samples.groups[g]);
    out.groups.push_back(std::move(shown));
  }
  out.rounds = static_cast<int64_t>(samples.ratios.size());
  out.model_us = median(samples.model);
  out.isolated_us = median(samples.sums);
  out.overhead = median(samples.ratios) - 1;
  return out;
}

std::vector<IsolatedCall> isolated_calls_of_problem(const Plan& plan, const Group& group) {
  if (group.shown.generated) return {};
  for (const std::shared_ptr<runtime::Library>& library : plan.loaded->libraries) {
    std::vector<IsolatedCall> calls = library->isolated_calls(group.call, group.in_place);
    if (!calls.empty()) return calls;
  }
  return {};
}

}  // namespace

LibrarySumParts parts(const LibrarySum& sum) {
  LibrarySumParts out;
  for (const StepGroup& group : sum.groups) {
    (group.generated ? out.generated : out.slower) += group.count() * (group.plan_us - group.isolated_us);
  }
  out.rest = sum.model_us - sum.isolated_us - out.slower - out.generated;
  return out;
}

Result<LibrarySum> library_sum(std::shared_ptr<const Plan> plan, std::span<const Tensor> inputs,
                               std::span<const Tensor> outputs, int64_t rotate, const Budget& budget) {
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(plan->loaded->program, plan->bindings));
  std::vector<Group> groups = group_steps(*plan, resolved);
  Bench bench(plan->threads);
  for (Group& group : groups) group.layouts = isolated_calls_of_problem(*plan, group);
  FUSEC_TRY(bench.reserve(groups, rotate));
  for (Group& group : groups) FUSEC_TRY(choose_layout(bench, group));
  FUSEC_ASSIGN(BoundModel model, BoundModel::make(plan, inputs, outputs));
  Samples samples;
  samples.steps.resize(plan->launches.size());
  samples.groups.resize(groups.size());
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] {
    const auto rounds = static_cast<int64_t>(samples.ratios.size());
    if (budget.runs > 0) return rounds >= budget.runs;
    return rounds >= kMinRounds &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= budget.seconds;
  };
  while (!enough()) FUSEC_TRY(round(model, bench, groups, samples));
  LibrarySum out = summary(std::move(groups), samples);
  out.rotated_bytes = bench.rotated_bytes();
  return out;
}

}  // namespace fusec::tool
