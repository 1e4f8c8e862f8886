// SPDX-License-Identifier: Apache-2.0
// The oneDNN library: decides which steps it takes, binds them and lists algorithms. It also guards every primitive
// creation against oneDNN's failures when memory runs out.

#include "runtime/library/onednn/onednn.h"

#include <algorithm>
#include <cstdlib>
#include <dnnl.hpp>
#include <future>
#include <mutex>
#include <new>

#include "ir/support/memory.h"
#include "runtime/library/interface/problem.h"
#include "runtime/library/onednn/build.h"

namespace fusec::runtime {
namespace {

// The reason why no implementation of oneDNN can run the problem; nullopt if there is none.
std::optional<std::string> unsupported_problem(const Problem& p) {
  if (!onednn::data_type(p[Role::input].dtype) || !onednn::data_type(p[Role::output].dtype))
    return "no arithmetic in this type";
  const bool has_empty = std::any_of(p.operands.begin(), p.operands.end(),
                                     [](const CallOperand& o) { return o.role != Role::bias && product(o.dims) == 0; });
  if (has_empty) return "an empty operand";
  return unsupported_reason(ir::library_capabilities("onednn"), p);
}

// If memory runs out while a primitive is created, oneDNN's cache keeps a broken promise, and every later request for
// the same primitive throws std::future_error. Emptying the cache removes it; primitives in use stay valid.
void empty_primitive_cache() {
  static std::mutex one_at_a_time;  // a second thread would read the capacity 0 set by the first
  const std::lock_guard lock(one_at_a_time);
  int capacity = 0;
  if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
  (void)dnnl_set_primitive_cache_capacity(0);
  (void)dnnl_set_primitive_cache_capacity(capacity);
}

// When memory is exhausted, oneDNN's own operator new returns null and the object is then constructed at null. So this
// checks beforehand that there is enough memory for a primitive.
void expect_room() {
  constexpr std::size_t kRoom = std::size_t{2} << 20;
  void* const room = ir::allocate_host(kRoom);
  if (room == nullptr) throw std::bad_alloc();
  std::free(room);
}

// Runs work that creates primitives. If another call left a broken promise, the cache is emptied and the work is
// repeated once.
template <class Work>
auto with_whole_cache(const Work& work) -> decltype(work()) {
  for (bool again = true;; again = false) {
    try {
      expect_room();
      return work();
    } catch (const std::bad_alloc&) {
      empty_primitive_cache();
      throw;
    } catch (const std::future_error&) {
      empty_primitive_cache();
      if (!again) throw std::bad_alloc();
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_out_of_memory) throw;
      empty_primitive_cache();
      throw std::bad_alloc();
    }
  }
}

class OneDnnLibrary : public Library {
 public:
  OneDnnLibrary(Numerics numerics, bool batch_invariant)
      : numerics_(numerics), batch_invariant_(batch_invariant), engine_(dnnl::engine::kind::cpu, 0) {}

  std::string name() const override { return "onednn"; }
  std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + " isa " +
           std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
  std::shared_ptr<Library> clone(int64_t /*workspace*/) const override {
    return make_onednn_library(numerics_, batch_invariant_);
  }

  std::vector<Algorithm> algorithms(const LibraryCall& call) override try {
    Problem problem = normalize(call);
    if (unsupported_problem(problem)) return {};
    const ThreadCount threads(call.threads);
    const onednn::BuildContext context{engine_, weights_, numerics_, batch_invariant_, call};
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    const std::vector<std::string> names = with_whole_cache([&]() -> std::vector<std::string> {
      if (problem.op == ir::TensorOp::conv) return onednn::conv_names(context, problem);
      if (problem.op == ir::TensorOp::matmul) return onednn::matmul_names(context, problem);
      return {};
    });
    std::vector<Algorithm> out;
    for (const std::string& name : names) out.push_back({name});
    return out;
  } catch (const dnnl::error&) {
    return {};
  }

  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    return unsupported_reason(ir::library_capabilities("onednn"), step.op, step.compute);
  }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override try {
    Problem problem = normalize(call);
    if (auto reason = unsupported_problem(problem)) return Status(StatusCode::unsupported, *reason);
    const ThreadCount threads(call.threads);  // primitives are split over this many threads
    const onednn::BuildContext context{engine_, weights_, numerics_, batch_invariant_, call};
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    return with_whole_cache([&]() -> Result<std::unique_ptr<LibraryOp>> {
      std::optional<onednn::Built> built = build(context, problem);
      if (!built) return Status(StatusCode::unsupported, "oneDNN has reference loops only");
      auto op = onednn::make_op(engine_, *std::move(built), call);
      if (!op) return Status(StatusCode::unsupported, "too many arguments");
      return op;
    });
  } catch (const dnnl::error& error) {
    return Status(StatusCode::unsupported, std::string("oneDNN: ") + error.what());
  }

  std::vector<IsolatedCall> isolated_calls(const LibraryCall& call, bool in_place) override {
    Problem problem = normalize(call);
    if (unsupported_problem(problem)) return {};
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    const ThreadCount threads(call.threads);
    return with_whole_cache([&] {
      return onednn::isolated_calls_of_problem({engine_, weights_, numerics_, batch_invariant_, call}, problem,
                                               in_place);
    });
  }

 private:
  static std::optional<onednn::Built> build(const onednn::BuildContext& context, const Problem& problem) {
    switch (problem.op) {
      case ir::TensorOp::conv:
        return onednn::build_conv(context, problem, context.call.algorithm);
      case ir::TensorOp::matmul:
        return onednn::build_matmul(context, problem, context.call.algorithm);
      default:
        return onednn::build_avg_pool(context, problem);
    }
  }

  Numerics numerics_;
  bool batch_invariant_;
  dnnl::engine engine_;
  onednn::PackedWeights weights_;
};

}  // namespace

std::shared_ptr<Library> make_onednn_library(Numerics numerics, bool batch_invariant) {
  return with_whole_cache([&] { return std::make_shared<OneDnnLibrary>(numerics, batch_invariant); });
}

}  // namespace fusec::runtime
