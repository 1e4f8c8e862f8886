// SPDX-License-Identifier: Apache-2.0
// Prints the launches of a plan as a table or as JSON, with times when they come from Session::profile, and counts what
// they compute.

#include "runtime/tool/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/cost/cost.h"
#include "runtime/plan/bind.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kOriginWidth = 60;

double giga_per_s(double amount, double us) { return us > 0 ? amount / (1e3 * us) : 0; }
double gb_per_s(const LaunchInfo& step) { return giga_per_s(static_cast<double>(step.bytes), step.us); }

// Nobody predicts a library.
Json prediction_json(const LaunchInfo& step, double us) { return step.generated ? Json(us) : Json(); }
std::string prediction_text(const LaunchInfo& step, double us) {
  return step.generated ? fmt::format("{:.1f}", us) : "-";
}

const char* kind_text(const LaunchInfo& step) {
  if (step.once) return step.specialized ? "once per plan, specialised" : "once per plan";
  if (step.specialized) return "specialised";
  return step.generated ? "generated" : "library";
}

double count_elements(const std::vector<int64_t>& shape, std::size_t from = 0) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(std::min(from, shape.size())), shape.end(), 1.0,
                         [](double product, int64_t extent) { return product * static_cast<double>(extent); });
}

// Of the arguments' shapes; the last one is the output. Poolings and what follows a product count nothing beside it.
double count_flops(const runtime::LibraryCall& call) {
  const std::vector<runtime::BoundArg>& args = call.args;
  const double out = count_elements(args.back().shape);
  switch (call.step->op) {
    case ir::TensorOp::conv:  // each output element reads the weight of one channel
      return 2 * out * count_elements(args[1].shape, 1);
    case ir::TensorOp::matmul: {
      const std::vector<int64_t>& a = args[0].shape;
      if (a.size() < 2) return a.empty() ? 0 : 2 * out * static_cast<double>(a[0]);
      return 2 * out * static_cast<double>(a[a.size() - (call.step->attrs.i("transpose_a") == 1 ? 2 : 1)]);
    }
    case ir::TensorOp::attention: {  // query by keys, then weights by values
      const std::vector<int64_t>&query = args[0].shape, &key = args[1].shape;
      if (query.empty() || key.size() < 2) return 0;
      const double keys = static_cast<double>(key[key.size() - 2]);
      return 2 * keys * (count_elements(query) + out);
    }
    default:
      return 0;
  }
}

// "row_add_softmax_f16_3fa2_1" -> "row_add_softmax_f16".
std::string without_digits(const std::string& name) {
  const auto cut = [](const std::string& text, const char* digits) {
    const std::size_t at = text.rfind('_');
    if (at == std::string::npos || at + 1 == text.size()) return text;
    return text.find_first_not_of(digits, at + 1) == std::string::npos ? text.substr(0, at) : text;
  };
  const std::size_t at = name.rfind('_');
  const bool numbered = at != std::string::npos && name.size() - at - 1 < 4;  // a hash has four digits
  return cut(numbered ? cut(name, "0123456789") : name, "0123456789abcdef");
}

StepWork find_work(const runtime::Plan& plan, const runtime::Launch& launch, const runtime::ResolvedStep& resolved,
                   const Target& target) {
  if (launch.op != nullptr) {
    const runtime::LibraryCall call = library_call(*plan.loaded, resolved, plan.threads);
    return {std::string(ir::info(call.step->op).name), count_flops(call)};
  }
  const auto* const step = std::get_if<ir::KernelStep>(&launch.step->v);
  if (step == nullptr) return {launch.step->origin, 0};
  const ir::Kernel& kernel = plan.loaded->program.kernels[step->kernel];
  const std::span extents(plan.extents.data() + launch.first_extent, kernel.extents.size());
  return {without_digits(kernel.name), ir::cost(kernel, target, {extents}).ops().total()};
}

// Indices of the launches to show, in the order to show them in.
std::vector<std::size_t> choose_steps(const PlanStats& plan, const StepView& view) {
  std::vector<std::size_t> order(plan.steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (view.top <= 0) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return plan.steps[a].us > plan.steps[b].us; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(view.top)));
  return order;
}

double total_us(const PlanStats& plan) {
  return std::accumulate(plan.steps.begin(), plan.steps.end(), 0.0,
                         [](double sum, const LaunchInfo& step) { return sum + step.us; });
}

std::string share_text(double us, double total) { return fmt::format("{:.1f}%", total > 0 ? 100 * us / total : 0); }

struct OpSum {
  std::string op;
  int64_t launches = 0, bytes = 0;
  double us = 0, flops = 0;
};

std::vector<OpSum> sum_by_op(const PlanStats& plan, const StepView& view) {
  std::vector<OpSum> sums;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const LaunchInfo& step = plan.steps[i];
    if (step.once) continue;
    const std::string& op = view.work[i].op;
    auto at = std::find_if(sums.begin(), sums.end(), [&](const OpSum& sum) { return sum.op == op; });
    if (at == sums.end()) at = sums.insert(at, OpSum{op});
    at->launches += 1, at->bytes += step.bytes, at->us += step.us, at->flops += view.work[i].flops;
  }
  std::stable_sort(sums.begin(), sums.end(), [](const OpSum& a, const OpSum& b) { return a.us > b.us; });
  return sums;
}

}  // namespace

Result<std::vector<StepWork>> find_work(const runtime::Plan& plan, const Target& target) {
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(plan.loaded->program, plan.bindings));
  std::vector<StepWork> work;
  for (std::size_t i = 0; i < plan.launches.size(); ++i)
    work.push_back(find_work(plan, plan.launches[i], resolved.steps[i], target));
  return work;
}

Json steps_json(const PlanStats& plan, const StepView& view) {
  Json list = Json::array();
  for (const std::size_t i : choose_steps(plan, view)) {
    const LaunchInfo& step = plan.steps[i];
    Json entry = {{"origin", step.origin},
                  {"kind", step.generated ? "generated" : "library"},
                  {"once", step.once},
                  {"specialized", step.specialized},
                  {"implementation", step.implementation},
                  {"bytes", step.bytes},
                  {"threads", step.threads},
                  {"us", step.us},
                  {"predicted_us", prediction_json(step, step.predicted_us)},
                  {"bound_us", prediction_json(step, step.bound_us)}};
    if (!view.work.empty()) {
      entry.update(Json{{"number", i},
                        {"op", view.work[i].op},
                        {"flops", view.work[i].flops},
                        {"gflop_per_s", giga_per_s(view.work[i].flops, step.us)},
                        {"gb_per_s", gb_per_s(step)}});
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json ops_json(const PlanStats& plan, const StepView& view) {
  Json list = Json::array();
  for (const OpSum& sum : sum_by_op(plan, view)) {
    list.push_back({{"op", sum.op},
                    {"launches", sum.launches},
                    {"us", sum.us},
                    {"bytes", sum.bytes},
                    {"flops", sum.flops},
                    {"gflop_per_s", giga_per_s(sum.flops, sum.us)},
                    {"gb_per_s", giga_per_s(static_cast<double>(sum.bytes), sum.us)}});
  }
  return list;
}

std::string steps_table(const PlanStats& plan, bool timed, const StepView& view) {
  std::vector<std::string> header = {"#", "kind", "implementation", "bytes", "threads"};
  if (timed) header.insert(header.end(), {"us", "predicted", "bound", "GB/s", "share"});
  if (!view.work.empty()) header.push_back("GFLOP/s");
  header.push_back("origin");
  Table table(header);
  const double total = total_us(plan);
  for (const std::size_t i : choose_steps(plan, view)) {
    const LaunchInfo& step = plan.steps[i];
    std::vector<std::string> row = {std::to_string(i), kind_text(step), step.implementation, bytes_text(step.bytes),
                                    std::to_string(step.threads)};
    if (timed) {
      row.push_back(fmt::format("{:.1f}", step.us));
      row.push_back(prediction_text(step, step.predicted_us));
      row.push_back(prediction_text(step, step.bound_us));
      row.push_back(fmt::format("{:.1f}", gb_per_s(step)));
      row.push_back(share_text(step.us, total));
    }
    if (!view.work.empty()) row.push_back(fmt::format("{:.1f}", giga_per_s(view.work[i].flops, step.us)));
    row.push_back(shortened(step.origin, kOriginWidth));
    table.row(std::move(row));
  }
  return table.str();
}

std::string ops_table(const PlanStats& plan, const StepView& view) {
  Table table({"op", "launches", "us", "share", "bytes", "GB/s", "GFLOP", "GFLOP/s"});
  const double total = total_us(plan);
  for (const OpSum& sum : sum_by_op(plan, view)) {
    table.row({sum.op, std::to_string(sum.launches), fmt::format("{:.1f}", sum.us), share_text(sum.us, total),
               bytes_text(sum.bytes), fmt::format("{:.1f}", giga_per_s(static_cast<double>(sum.bytes), sum.us)),
               fmt::format("{:.3f}", sum.flops / 1e9), fmt::format("{:.1f}", giga_per_s(sum.flops, sum.us))});
  }
  return table.str();
}

Result<PlanStats> time_launches(Session& session, std::span<const Tensor> inputs, int64_t runs) {
  FUSEC_ASSIGN(PlanStats plan, session.profile(inputs));
  ProfileOptions options;
  options.runs = runs, options.counters = false;
  FUSEC_ASSIGN(const Profile profile, session.profile(inputs, options));
  std::size_t next = 0;
  for (LaunchInfo& step : plan.steps)
    if (!step.once && next < profile.launches.size()) step.us = profile.launches[next++].info.us;
  return plan;
}

}  // namespace fusec::tool
