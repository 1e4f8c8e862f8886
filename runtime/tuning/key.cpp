// SPDX-License-Identifier: Apache-2.0
// Builds the text keys of the tuning database: one for a normalized library call, one for the device, library versions
// and options. Times that were stored under another text are not found, so a change of these texts discards them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/device/host/detect.h"
#include "runtime/library/interface/problem.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {
namespace {

std::string operand_text(const char* role, const CallOperand& o) {
  return fmt::format(" {}={}[{}]({})@{}{}", role, to_string(o.dtype), fmt::join(o.dims, ","), fmt::join(o.strides, ","),
                     o.alignment, o.constant != nullptr ? "c" : "");
}

// The names and order of the roles in the key.
constexpr std::pair<Role, const char*> kNames[] = {
    {Role::input, "a"},     {Role::weight, "b"},  {Role::query, "query"}, {Role::key, "key"},
    {Role::value, "value"}, {Role::mask, "mask"}, {Role::output, "out"},  {Role::bias, "bias"}};

std::string window_text(const Problem& p) {
  const Window& w = p.window;
  return fmt::format(" window={} step={} dilation={} pad={}+{} groups={}", fmt::join(w.kernel, "x"),
                     fmt::join(w.strides, "x"), fmt::join(w.dilations, "x"), fmt::join(w.before, "x"),
                     fmt::join(w.after, "x"), p.groups);
}

const char* numerics_text(Numerics numerics) {
  switch (numerics) {
    case Numerics::exact:
      return "exact";
    case Numerics::fast:
      return "fast";
    case Numerics::precise:
      break;
  }
  return "precise";
}

}  // namespace

std::string tuning_call(const LibraryCall& call) {
  Problem p = normalize(call);
  if (p.op == ir::TensorOp::matmul) merge_axes(p);
  std::string text = fmt::format("{} {}", ir::info(p.op).name, to_string(p.compute));
  for (const auto& [role, name] : kNames) {
    if (const CallOperand* operand = p.find(role)) text += operand_text(name, *operand);
    if (role == Role::output && !p.window.kernel.empty()) text += window_text(p);
  }
  if (p.op == ir::TensorOp::attention) text += fmt::format(" scale={}{}", p.scale, p.causal ? " causal" : "");
  for (const BoundEpilogue& epilogue : p.epilogues) {
    text += fmt::format(" +{}", ir::info(epilogue.op).name);
    if (epilogue.operand) {
      text += operand_text("c", *epilogue.operand);
    } else if (epilogue.alpha != 0 || epilogue.beta != 0) {
      text += fmt::format("({},{})", epilogue.alpha, epilogue.beta);
    }
  }
  const int sum = find_addend(p, p.epilogues.size(), call);
  if (sum >= 0) text += fmt::format(" in_place={}", sum);
  const auto is_constant = [](const BoundArg& arg) { return arg.constant != nullptr; };
  if (call.repeated) return text + " repeated";
  if (call.warm_constants && std::any_of(call.args.begin(), call.args.end(), is_constant)) text += " warm";
  return text;
}

std::string tuning_scope(const Options& options, const Target& target, const LoadedProgram& loaded, int threads) {
  std::string text;
  if (loaded.device) {
    text = fmt::format("{}; {} {} SMs; {}; tf32 {}", loaded.device->name(), target.name, target.sm_count,
                       numerics_text(options.numerics), static_cast<int>(options.tf32));
    text += fmt::format("; workspace {}", std::max(options.workspace_limit, kMeasuredWorkspace));
  } else {
    text = fmt::format("{}; {}; {} threads; {}", cpu_name(), target.name, threads, numerics_text(options.numerics));
  }
  for (const auto& library : loaded.libraries) text += fmt::format("; {} {}", library->name(), library->version());
  return text;
}

double count_work(const LibraryCall& call) {
  const Problem p = normalize(call);
  double work = 1;
  for (const int64_t extent : p[Role::output].dims) work *= static_cast<double>(extent);
  if (p.op == ir::TensorOp::matmul) return work * static_cast<double>(p[Role::input].dims.back());
  if (p.op == ir::TensorOp::attention) return 2 * work * static_cast<double>(p[Role::key].dims[2]);
  const CallOperand* const filter = p.find(Role::weight);
  for (std::size_t i = 1; filter != nullptr && i < filter->dims.size(); ++i)
    work *= static_cast<double>(filter->dims[i]);
  return work;
}

}  // namespace fusec::runtime
