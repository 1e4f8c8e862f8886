// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt library: decides which steps it takes, normalizes them to Gemms, picks algorithms at bind and calls them
// at run. Each Gemm has a second algorithm for addresses that are not 16-byte aligned, because alignment is known only
// at run.

#include "runtime/library/cublaslt/cublaslt.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "runtime/library/cublaslt/call.h"
#include "runtime/library/interface/device_weights.h"

namespace fusec::runtime {
namespace {

using cublaslt::Gemm;
using cublaslt::Handle;
using cublaslt::LtAlgorithm;

constexpr std::size_t kWide = 16;                  // bytes of alignment with which every algorithm works
constexpr int64_t kWorkspace = int64_t{32} << 20;  // cuBLAS's own default on Hopper
constexpr int kMaxAlgorithms = 16;                 // the most that are offered as algorithms

// A Gemm with one algorithm for addresses at multiples of kWide and one for all other addresses.
struct Chosen {
  Gemm gemm;
  LtAlgorithm wide, narrow;
};

bool is_wide(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kWide == 0; }

class CublasLtOp : public LibraryOp {
 public:
  CublasLtOp(std::shared_ptr<const Handle> handle, std::vector<Chosen> chosen, std::size_t args, const void* ones,
             const void* zeros, int addend)
      : handle_(std::move(handle)), chosen_(std::move(chosen)), args_(args), fixed_{ones, zeros}, addend_(addend) {}

  Status run(void* const* args, void* workspace, const ExecContext& context) const override {
    for (const Chosen& chosen : chosen_) {
      for (const cublaslt::Offsets& offsets : chosen.gemm.calls)
        FUSEC_TRY(run_at(chosen, offsets, args, workspace, context));
    }
    return {};
  }
  // Where a bias is a product of its own, it comes before the others; a workspace serves one call after the other.
  std::size_t calls() const override {
    return chosen_.size() == 1 && limited_bytes() == 0 ? chosen_[0].gemm.calls.size() : 1;
  }
  Status run_call(std::size_t call, void* const* args, const ExecContext& context) const override {
    return run_at(chosen_[0], chosen_[0].gemm.calls[call], args, nullptr, context);
  }

  std::size_t workspace_bytes() const override { return limited_bytes() == 0 ? 0 : limited_bytes() + kDeviceAlignment; }
  std::size_t limited_bytes() const override {
    std::size_t bytes = 0;
    for (const Chosen& chosen : chosen_) bytes = std::max({bytes, chosen.wide.workspace, chosen.narrow.workspace});
    return bytes;
  }
  std::vector<int> may_alias() const override { return addend_ >= 0 ? std::vector<int>{addend_} : std::vector<int>{}; }
  std::string implementation() const override {
    std::size_t calls = 0;
    for (const Chosen& chosen : chosen_) calls += chosen.gemm.calls.size();
    return calls == 1 ? "cublaslt" : "cublaslt x" + std::to_string(calls);
  }

 private:
  static constexpr std::size_t kDeviceAlignment = 256;

  Status run_at(const Chosen& chosen, const cublaslt::Offsets& offsets, void* const* args, void* workspace,
                const ExecContext& context) const {
    const cublaslt::Addresses at = addresses(chosen.gemm, offsets, args, workspace, context.stream);
    const bool wide = is_wide(at.a) && is_wide(at.b) && is_wide(at.c) && is_wide(at.out) && is_wide(at.bias);
    return cublaslt::run(*handle_, chosen.gemm, wide ? chosen.wide : chosen.narrow, at);
  }

  const void* at(const cublaslt::Matrix& matrix, int64_t offset, void* const* args) const {
    if (matrix.arg < 0) return nullptr;
    const auto index = static_cast<std::size_t>(matrix.arg);
    const void* const base = index < args_ ? args[index] : fixed_.at(index - args_);
    return static_cast<const char*>(base) + offset * static_cast<int64_t>(size_of(matrix.dtype));
  }

  cublaslt::Addresses addresses(const Gemm& gemm, const cublaslt::Offsets& offsets, void* const* args, void* workspace,
                                void* stream) const {
    const auto scratch = (reinterpret_cast<std::uintptr_t>(workspace) + kDeviceAlignment - 1) & ~(kDeviceAlignment - 1);
    cublaslt::Addresses to;
    to.a = at(gemm.a, offsets.a, args);
    to.b = at(gemm.b, offsets.b, args);
    to.c = at(gemm.c, offsets.c, args);
    to.out = const_cast<void*>(at(gemm.out, offsets.out, args));
    if (gemm.bias >= 0) to.bias = args[gemm.bias];
    to.workspace = reinterpret_cast<void*>(scratch);
    to.stream = stream;
    return to;
  }

  std::shared_ptr<const Handle> handle_;
  std::vector<Chosen> chosen_;
  std::size_t args_;
  std::array<const void*, 2> fixed_;  // ones, zeros
  int addend_;
};

bool has(const ir::LibraryStep& step, ir::ScalarOp op) {
  return std::any_of(step.epilogues.begin(), step.epilogues.end(),
                     [=](const ir::Epilogue& epilogue) { return epilogue.op == op; });
}

bool is_float_product(const Problem& p) {
  return is_float(p[Role::input].dtype) && is_float(p[Role::weight].dtype) && is_float(p[Role::output].dtype);
}

bool is_channels_last(const CallOperand& image) { return image.strides[1] == 1 || image.dims[1] == 1; }

// The matrix product to which a call reduces, or the reason why cuBLASLt cannot do it. A column of ones and a buffer of
// zeros follow the arguments of the call.
Result<Problem> as_product(const LibraryCall& call) {
  Problem problem = normalize(call);
  if (!is_float_product(problem)) return Status(StatusCode::unsupported, "no arithmetic in integers");
  const int zeros = static_cast<int>(call.args.size()) + 1;
  if (is_empty_sum(problem)) {
    problem = over_one_zero(std::move(problem));
    problem[Role::input].arg = problem[Role::weight].arg = zeros;
  }
  if (problem.op == ir::TensorOp::matmul) {
    merge_axes(problem);
    return problem;
  }
  if (auto reason = unsupported_reason(ir::library_capabilities("cublaslt"), problem))
    return Status(StatusCode::unsupported, *reason);
  if (!is_channels_last(problem[Role::input]) || !is_channels_last(problem[Role::output])) {
    return Status(StatusCode::unsupported, "an image that is not channels-last");
  }
  return as_matmul(std::move(problem));
}

// What Options asks of a library's results.
struct Rules {
  Numerics numerics = Numerics::precise;
  bool tf32 = false, batch_invariant = false;
};

class CublasLtLibrary : public Library {
 public:
  CublasLtLibrary(const Options& options, std::shared_ptr<DeviceMemory> memory, std::shared_ptr<const Handle> handle)
      : CublasLtLibrary({options.numerics, options.tf32, options.batch_invariant}, memory, std::move(handle),
                        static_cast<std::size_t>(std::clamp<int64_t>(options.workspace_limit, 0, kWorkspace))) {}
  CublasLtLibrary(Rules rules, std::shared_ptr<DeviceMemory> memory, std::shared_ptr<const Handle> handle,
                  std::size_t workspace)
      : rules_(rules),
        memory_(std::move(memory)),
        handle_(std::move(handle)),
        weights_(memory_),
        workspace_(workspace) {}

  std::string name() const override { return std::string(capabilities_.name); }
  std::string version() const override {
    return handle_->api.version != nullptr ? std::to_string(handle_->api.version()) : "unknown";
  }
  std::shared_ptr<Library> clone(int64_t workspace) const override {
    const auto limit = static_cast<std::size_t>(std::min(workspace, kWorkspace));
    return std::make_shared<CublasLtLibrary>(rules_, memory_, handle_, std::max(workspace_, limit));
  }

  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    if (auto reason = unsupported_reason(capabilities_, step.op, step.compute)) return reason;
    // Observed in algorithm families 20, 23 and 24 of 13.1.
    if (rules_.numerics == Numerics::exact && has(step, ir::ScalarOp::relu))
      return "some of cuBLASLt's algorithms make 0 of NaN in their relu";
    if (rules_.numerics == Numerics::exact && has(step, ir::ScalarOp::gelu_tanh))
      return "cuBLASLt rounds behind its gelu alone, and by a formula of its own";
    return std::nullopt;
  }

  std::vector<Algorithm> algorithms(const LibraryCall& call) override {
    std::vector<Algorithm> out;
    const Result<Prepared> prepared = prepare(call);
    if (!prepared.ok() || prepared->problem[Role::input].arg > static_cast<int>(call.args.size())) return out;
    for (const LtAlgorithm& algo : list(prepared->plan.gemms.back())) {
      if (algo.workspace <= workspace_) out.push_back({make_id(*handle_, algo), algo.workspace});
    }
    return out;
  }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    FUSEC_ASSIGN(Prepared prepared, prepare(call));
    auto& [problem, plan, chosen] = prepared;
    if (!call.algorithm.empty()) FUSEC_TRY(take(call.algorithm, chosen.back()));
    void *column = nullptr, *zeros = nullptr;
    if (plan.ones_needed > 0) {
      FUSEC_ASSIGN(column, weights_.filled(problem[Role::bias].dtype, 1, plan.ones_needed));
    }
    const CallOperand &a = problem[Role::input], &b = problem[Role::weight];
    if (a.arg > static_cast<int>(call.args.size())) {
      FUSEC_ASSIGN(zeros, weights_.filled(a.dtype, 0, std::max(product(a.dims), product(b.dims))));
    }
    return std::unique_ptr<LibraryOp>(std::make_unique<CublasLtOp>(handle_, std::move(chosen), call.args.size(), column,
                                                                   zeros, alias(problem, plan, call)));
  }

 private:
  struct Prepared {
    Problem problem;
    cublaslt::Matmuls plan;
    std::vector<Chosen> chosen;  // of plan.gemms, by cuBLASLt's heuristic
  };

  Result<Prepared> prepare(const LibraryCall& call) const {
    FUSEC_ASSIGN(Problem problem, as_product(call));
    const int ones = static_cast<int>(call.args.size());
    FUSEC_ASSIGN(cublaslt::Matmuls plan, cublaslt::plan_matmul(problem, ones, rules_.tf32));
    const std::vector<int> shared = shared_args(call, problem);
    Result<std::vector<Chosen>> chosen = choose(plan, shared);
    if (!chosen.ok() && problem.find(Role::bias) != nullptr && plan.gemms.size() == 1) {
      // cuBLASLt has no epilogues for some types.
      FUSEC_ASSIGN(plan, cublaslt::plan_split(problem, ones, rules_.tf32));
      chosen = choose(plan, shared);
    }
    if (!chosen.ok()) return chosen.status();
    return Prepared{std::move(problem), std::move(plan), std::move(chosen).value()};
  }

  // An algorithm applies to the product itself (the last Gemm), and to addresses at multiples of kWide.
  Status take(const std::string& id, Chosen& chosen) const {
    for (const LtAlgorithm& algo : list(chosen.gemm)) {
      if (algo.workspace > workspace_ || make_id(*handle_, algo) != id) continue;
      chosen.wide = algo;
      return {};
    }
    return Status(StatusCode::unsupported, "cuBLASLt does not list this algorithm");
  }

  // cuBLASLt's own choice within this library's workspace, then what it lists for the most workspace, so that an
  // algorithm is listed under every limit that it keeps to.
  std::vector<LtAlgorithm> list(const Gemm& gemm) const {
    std::vector<LtAlgorithm> out = find_algorithms(*handle_, gemm, {limit(gemm, workspace_), kWide}, 1);
    const std::string own = out.empty() ? "" : make_id(*handle_, out[0]);
    for (LtAlgorithm& algo : find_algorithms(*handle_, gemm, {limit(gemm, kWorkspace), kWide}, kMaxAlgorithms))
      if (make_id(*handle_, algo) != own) out.push_back(std::move(algo));
    return out;
  }

  // Several calls run side by side if they have no workspace. How many there are depends on the batch.
  std::size_t limit(const Gemm& gemm, std::size_t workspace) const {
    return gemm.calls.size() > 1 && !rules_.batch_invariant ? 0 : workspace;
  }

  Result<std::vector<Chosen>> choose(const cublaslt::Matmuls& plan, const std::vector<int>& shared) const {
    std::vector<Chosen> out;
    for (const Gemm& gemm : plan.gemms) {
      if (gemm.batch > std::numeric_limits<int32_t>::max()) return Status(StatusCode::unsupported, "too many batches");
      FUSEC_ASSIGN(LtAlgorithm wide, find(gemm, shared, kWide));
      FUSEC_ASSIGN(LtAlgorithm narrow, find(gemm, shared, size_of(gemm.out.dtype)));
      out.push_back({gemm, std::move(wide), std::move(narrow)});
    }
    return out;
  }

  // The arguments that all samples share: filters, matrices that have no axis beside their two, and the bias.
  static std::vector<int> shared_args(const LibraryCall& call, const Problem& problem) {
    std::vector<int> args;
    const int weight = problem[Role::weight].arg;
    const bool is_arg = weight >= 0 && static_cast<std::size_t>(weight) < call.args.size();
    const bool is_matrix = is_arg && call.args[static_cast<std::size_t>(weight)].shape.size() <= 2;
    if (call.step->op == ir::TensorOp::conv || is_matrix) args.push_back(weight);
    if (const CallOperand* bias = problem.find(Role::bias)) args.push_back(bias->arg);
    return args;
  }

  // cuBLASLt's choice for addresses of this alignment.
  Result<LtAlgorithm> find(const Gemm& gemm, const std::vector<int>& shared, std::size_t alignment) const {
    cublaslt::Limits limits{limit(gemm, workspace_), alignment, rules_.batch_invariant};
    if (!rules_.batch_invariant) {
      std::vector<LtAlgorithm> found = find_algorithms(*handle_, gemm, limits, 1);
      limits.workspace = workspace_;
      if (found.empty()) found = find_algorithms(*handle_, gemm, limits, 1);
      if (found.empty()) return Status(StatusCode::unsupported, "cuBLASLt has no algorithm for it");
      return std::move(found[0]);
    }
    const std::vector<LtAlgorithm> found = find_algorithms(*handle_, of_any_batch(gemm, shared), limits, 1);
    if (found.empty()) return Status(StatusCode::unsupported, "cuBLASLt has no algorithm for it in every batch");
    auto checked = check_algorithm(*handle_, gemm, found[0]);
    if (checked.ok() && checked->workspace <= limits.workspace) return checked;
    return Status(StatusCode::invalid_argument,
                  "batch-invariant mode: cuBLASLt's algorithm for many samples does not serve this batch" +
                      (checked.ok() ? std::string(": it takes more workspace") : ": " + checked.status().message()) +
                      "; leave the mode out, or compute this step by generated code (--no-library)");
  }

  static int alias(const Problem& problem, const cublaslt::Matmuls& plan, const LibraryCall& call) {
    const int i = find_addend(problem, problem.epilogues.size(), call);
    if (i < 0) return -1;
    const int arg = problem.epilogues[static_cast<std::size_t>(i)].operand->arg;
    return arg == plan.addend ? arg : -1;
  }

  const ir::LibraryCapabilities& capabilities_ = ir::library_capabilities("cublaslt");
  Rules rules_;
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<const Handle> handle_;
  DeviceWeights weights_;
  std::size_t workspace_;
};

}  // namespace

Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                                       const cublaslt::Api& api) {
  FUSEC_ASSIGN(std::shared_ptr<const Handle> handle, Handle::open(api));
  return std::shared_ptr<Library>(std::make_shared<CublasLtLibrary>(options, std::move(memory), std::move(handle)));
}

Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory) {
  FUSEC_ASSIGN(const cublaslt::Api api, cublaslt::load_api());
  return make_cublaslt_library(options, std::move(memory), api);
}

}  // namespace fusec::runtime
