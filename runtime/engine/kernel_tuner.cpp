// SPDX-License-Identifier: Apache-2.0
// Measures the candidates of generated kernels, for `fusec tune` and, with Strategy::profile, during a compile. Rows
// look like those of library calls: the candidate that select takes by itself stands for the default algorithm.

#include "runtime/engine/kernel_tuner.h"

#include <fmt/format.h>

#include "runtime/engine/engine.h"
#include "runtime/plan/measuring.h"

namespace fusec::runtime {
namespace {

constexpr const char* kOwn = "fusec";  // in the place of a library's name

// The candidates of one variant.
class CandidateAlgorithms final : public Algorithms {
 public:
  CandidateAlgorithms(const KernelWork& work, CandidateTimer& timer)
      : work_(work), timer_(timer), variant_(work.program.slots[0].variants[0]) {}

  std::size_t count() const override { return variant_.candidates.size(); }
  void name(std::size_t number, TuningRow& row) const override {
    const ir::Candidate& candidate = variant_.candidates[number];
    row.library = kOwn;
    row.algorithm = compiler::candidate_key(work_.program, candidate) + " " + candidate.why;
  }
  bool may_be_default(std::size_t number) const override { return index_of(number) == variant_.picked; }
  Result<std::vector<double>> time(std::size_t number, bool, bool quick, double best_us, TuningRow&) override {
    return timer_.time(index_of(number), quick, best_us);
  }
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(std::size_t by_default, std::size_t other,
                                                                           bool quick) override {
    return timer_.time_in_turn(index_of(by_default), index_of(other), quick);
  }
  Status alive() const override { return timer_.alive(); }

  // A candidate whose registers spill is a failure where another one's do not: its time depends on what the caches
  // hold.
  Result<std::vector<std::pair<std::size_t, std::string>>> refuse(const std::vector<std::size_t>& working) override {
    std::vector<std::pair<std::size_t, std::string>> spilling;
    for (const std::size_t number : working) {
      FUSEC_ASSIGN(const int64_t bytes, timer_.local_bytes(index_of(number)));
      if (bytes == 0) continue;
      spilling.emplace_back(number, fmt::format("a thread needs {} bytes beside its registers, and another candidate "
                                                "none",
                                                bytes));
    }
    if (spilling.size() == working.size()) spilling.clear();
    return spilling;
  }

 private:
  static int index_of(std::size_t number) { return static_cast<int>(number); }

  const KernelWork& work_;
  CandidateTimer& timer_;
  const ir::Variant& variant_;
};

}  // namespace

Result<TuneReport> tune_kernels(const ir::Program& program, const Bindings& bindings, CandidateTimer& timer,
                                Tuning& tuning, const TuneLimits& limits, const TuneProgress& progress) {
  const std::vector<KernelWork> kernels = list_kernel_work(program, bindings);
  std::vector<MeasuredWork> works;
  for (const KernelWork& kernel : kernels) {
    MeasuredWork& work = works.emplace_back();
    work.layer = {kernel.call(), kernel.origin, kernel.count, {}};
    if (!limits.again) work.layer.rows = tuning.rows(work.layer.call);
    work.amount = kernel.program.slots[0].variants[0].candidates[0].predicted_us * static_cast<double>(kernel.count);
    work.list = [&]() -> Result<std::unique_ptr<Algorithms>> {
      FUSEC_TRY(timer.begin(kernel.program));
      return std::unique_ptr<Algorithms>(std::make_unique<CandidateAlgorithms>(kernel, timer));
    };
  }
  return measure_all(std::move(works), tuning, limits, progress);
}

namespace {

// Returns all that is known afterwards, or that it was cancelled.
Result<compiler::TuningData> profile(const ir::Program& program, const Bindings& bindings, const Options& options,
                                     const Machine& machine) {
  Tuning tuning(options, machine.target, [&] { return kernel_scope(options, machine); });
  const auto timer = make_candidate_timer(options, machine, tuning.flush_bytes());
  const Result<TuneReport> report =
      tune_kernels(program, bindings, *timer, tuning, {options.tuning_seconds, options.quick_tuning});
  if (report.status().code() == StatusCode::cancelled) return report.status();
  if (!report.ok()) make_warn(options)("measuring stopped: " + report.status().str());
  return to_tuning_data(tuning.all_rows());
}

}  // namespace

Status profile_kernels(ir::Program& program, const Options& options, const Machine& machine) {
  if (!program.symbols.empty()) return {};
  FUSEC_ASSIGN(const compiler::TuningData tuning, profile(program, {}, options, machine));
  (void)compiler::select(program, machine.target, tuning);
  return {};
}

Status profile_shapes(const Model& model, const Options& options, const Machine& machine, const Bindings& bindings) {
  FUSEC_ASSIGN(const Stages stages,
               run_stages(*model.graph, machine.target, options, Stage::select, {}, {}, Listing::all));
  return profile(stages.program, bindings, options, machine).status();
}

}  // namespace fusec::runtime
