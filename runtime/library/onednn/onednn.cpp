// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/onednn/onednn.h"

#include <cstdlib>
#include <dnnl.hpp>
#include <future>
#include <mutex>
#include <new>

#include "ir/support/memory.h"
#include "runtime/library/interface/problem.h"
#include "runtime/library/onednn/build.h"
#include "runtime/library/onednn/describe.h"

namespace fusec::runtime {
namespace {

bool has_empty(const Operand& operand) { return product(operand.dims) == 0; }

bool has_negative_stride(const Operand& operand) {
  for (int64_t stride : operand.strides) {
    if (stride < 0) return true;
  }
  return false;
}

// What no implementation of oneDNN takes.
const char* unsupported_reason(const Problem& p) {
  const bool has_b = p.op == ir::TensorOp::conv || p.op == ir::TensorOp::matmul;
  if (!onednn::data_type(p.a.dtype) || !onednn::data_type(p.out.dtype)) return "no arithmetic in this type";
  if (has_empty(p.out) || has_empty(p.a) || (has_b && has_empty(p.b))) return "an empty operand";
  if (has_negative_stride(p.out) || has_negative_stride(p.a) || (has_b && has_negative_stride(p.b)))
    return "a negative stride";
  if (p.out.dims.size() > 5 && p.op != ir::TensorOp::matmul) return "more than three spatial axes";
  return nullptr;
}

// A primitive that could not be made for want of memory leaves a broken promise in oneDNN's cache, and asking for the
// same one again throws std::future_error for ever. Emptying the cache takes it out; primitives in use stay.
void empty_primitive_cache() {
  static std::mutex one_at_a_time;  // the second would read the first one's 0
  const std::lock_guard lock(one_at_a_time);
  int capacity = 0;
  if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
  (void)dnnl_set_primitive_cache_capacity(0);
  (void)dnnl_set_primitive_cache_capacity(capacity);
}

// oneDNN's own operator new answers null where memory is exhausted, and what it makes is then constructed at null. So
// there must be room for what a primitive takes before it is asked for one.
void expect_room() {
  constexpr std::size_t kRoom = std::size_t{2} << 20;
  void* const room = ir::allocate_host(kRoom);
  if (room == nullptr) throw std::bad_alloc();
  std::free(room);
}

// Runs what makes primitives. A promise that another call broke is taken out, and the work is done again.
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
  explicit OneDnnLibrary(Numerics numerics) : numerics_(numerics), engine_(dnnl::engine::kind::cpu, 0) {}

  std::string name() const override { return "onednn"; }
  std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + " isa " +
           std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
  std::shared_ptr<Library> fresh() const override { return make_onednn_library(numerics_); }

  std::vector<Choice> choices(const LibraryCall& call) override try {
    Problem problem = normalize(call);
    if (unsupported_reason(problem) != nullptr) return {};
    const ThreadCount threads(call.threads);
    const onednn::Context context{engine_, weights_, numerics_, call};
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    const std::vector<std::string> names = with_whole_cache([&]() -> std::vector<std::string> {
      if (problem.op == ir::TensorOp::conv) return onednn::conv_names(context, problem);
      if (problem.op == ir::TensorOp::matmul) return onednn::matmul_names(context, problem);
      return {};
    });
    std::vector<Choice> out;
    for (const std::string& name : names) out.push_back({name});
    return out;
  } catch (const dnnl::error&) {
    return {};
  }

  std::optional<std::string> refuses(const ir::LibraryStep& step) const override {
    switch (step.op) {
      case ir::TensorOp::conv:
      case ir::TensorOp::matmul:
      case ir::TensorOp::avg_pool:
        break;
      case ir::TensorOp::max_pool:
        return "oneDNN's max_pool drops NaN";
      default:
        return "no primitive for " + std::string(ir::info(step.op).name);
    }
    if (step.compute != DType::f32) return std::string("no arithmetic in ") + to_string(step.compute);
    return std::nullopt;
  }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override try {
    Problem problem = normalize(call);
    if (const char* reason = unsupported_reason(problem)) return Status(StatusCode::unsupported, reason);
    const ThreadCount threads(call.threads);  // primitives are split over this many
    const onednn::Context context{engine_, weights_, numerics_, call};
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

  std::vector<IsolatedCall> alone(const LibraryCall& call, bool in_place) override {
    Problem problem = normalize(call);
    if (unsupported_reason(problem) != nullptr) return {};
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    const ThreadCount threads(call.threads);
    return with_whole_cache([&] {
      return onednn::lone_calls({engine_, weights_, numerics_, call}, problem, in_place);
    });
  }

 private:
  static std::optional<onednn::Built> build(const onednn::Context& context, const Problem& problem) {
    switch (problem.op) {
      case ir::TensorOp::conv:
        return onednn::build_conv(context, problem, context.call.choice);
      case ir::TensorOp::matmul:
        return onednn::build_matmul(context, problem, context.call.choice);
      default:
        return onednn::build_avg_pool(context, problem);
    }
  }

  Numerics numerics_;
  dnnl::engine engine_;
  onednn::PackedWeights weights_;
};

}  // namespace

std::shared_ptr<Library> make_onednn_library(Numerics numerics) {
  return with_whole_cache([&] { return std::make_shared<OneDnnLibrary>(numerics); });
}

}  // namespace fusec::runtime
