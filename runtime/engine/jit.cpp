// SPDX-License-Identifier: Apache-2.0
// Implements `jit`: selects an Engine by the memory layouts of the inputs and compiles a variant for each new pattern
// of layouts. A pattern that does not compile, or that exceeds the limit on variants, uses the row-major variant, whose
// Session copies the inputs.

#include "fusec/jit.h"

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fusec/engine.h"
#include "fusec/session.h"
#include "ir/graph/graph.h"
#include "ir/support/check.h"
#include "runtime/engine/jit_layout.h"
#include "runtime/threads/single_flight.h"

namespace fusec {
namespace {

using runtime::Layout;

// Inputs with patterns beyond this many are copied to row-major memory, so that a caller with ever new strides does not
// fill memory with code.
constexpr std::size_t kMaxVariants = 32;

// Session::run or run_async.
using Call = std::function<Status(Session&, std::span<const Tensor>, std::span<Tensor>)>;

// An Engine and its idle Sessions, one per call under way at most.
class LayoutVariant {
 public:
  explicit LayoutVariant(Engine engine) : engine_(std::move(engine)) {}

  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Call& call) {
    FUSEC_ASSIGN(Session session, take());
    const Status status = call(session, inputs, outputs);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(session));
    return status;
  }

 private:
  Result<Session> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Session session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
    }
    return Session::create(engine_);
  }

  Engine engine_;
  std::mutex mutex_;
  std::vector<Session> idle_;
};

using LayoutVariantPtr = std::shared_ptr<LayoutVariant>;
using Pattern = std::vector<Layout>;

bool all_contiguous(std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors) {
    if (!t.is_contiguous()) return false;
  }
  return true;
}

}  // namespace

struct JitFunction::Impl {
  Model model;
  Options options;
  LayoutVariantPtr row_major;
  std::mutex mutex;
  std::map<Pattern, LayoutVariantPtr> variants;  // null: the pattern does not compile
  runtime::SingleFlight<Pattern, LayoutVariantPtr> in_flight;

  Result<LayoutVariantPtr> compile(const Pattern& pattern) {
    Model variant = model;
    variant.graph = std::make_shared<ir::Graph>(runtime::with_layouts(*model.graph, pattern));
    Result<Engine> engine = Engine::compile(variant, options);
    // A later call may have the memory.
    if (engine.status().code() == StatusCode::out_of_memory) return engine.status();
    LayoutVariantPtr made = engine.ok() ? std::make_shared<LayoutVariant>(std::move(engine).value()) : nullptr;
    const std::lock_guard lock(mutex);
    variants[pattern] = made;
    return made;
  }

  // Null: use the row-major variant.
  LayoutVariantPtr find(const Pattern& pattern) {
    {
      const std::lock_guard lock(mutex);
      if (auto it = variants.find(pattern); it != variants.end()) return it->second;
      if (variants.size() >= kMaxVariants) return nullptr;
    }
    Result<LayoutVariantPtr> made = in_flight.run(pattern, [&] { return compile(pattern); });
    return made.ok() ? *made : nullptr;
  }

  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Call& call) {
    if (inputs.size() != model.graph->inputs.size() || all_contiguous(inputs))
      return row_major->run(inputs, outputs, call);
    Pattern pattern;
    std::vector<Tensor> memory;
    bool plain = true;  // row-major, or to be copied
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int rank = model.graph->type(model.graph->inputs[i]).rank();
      if (inputs[i].rank() != rank) return row_major->run(inputs, outputs, call);  // which says what is wrong
      const std::optional<Layout> layout = runtime::infer_layout(inputs[i]);
      pattern.push_back(layout.value_or(runtime::row_major_layout(rank)));
      plain &= pattern.back() == runtime::row_major_layout(rank);
      memory.push_back(layout ? runtime::borrow_memory(inputs[i], *layout) : inputs[i]);
    }
    const LayoutVariantPtr variant = plain ? nullptr : find(pattern);
    return variant ? variant->run(memory, outputs, call) : row_major->run(inputs, outputs, call);
  }
};

Status JitFunction::operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs) const noexcept {
  return ir::guarded([&] {
    return impl_->run(inputs, outputs, [](Session& session, std::span<const Tensor> in, std::span<Tensor> out) {
      return session.run(in, out);
    });
  });
}

Status JitFunction::run_async(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) const noexcept {
  return ir::guarded([&] {
    return impl_->run(inputs, outputs, [stream](Session& session, std::span<const Tensor> in, std::span<Tensor> out) {
      return session.run_async(in, out, stream);
    });
  });
}

int JitFunction::variants() const {
  const std::lock_guard lock(impl_->mutex);
  int count = 1;
  for (const auto& [pattern, variant] : impl_->variants) count += variant != nullptr;
  return count;
}

Result<JitFunction> jit(const Model& model, const Options& options) noexcept {
  return ir::guarded([&]() -> Result<JitFunction> {
    FUSEC_ASSIGN(Engine engine, Engine::compile(model, options));
    auto impl = std::make_shared<JitFunction::Impl>();
    impl->model = model;
    impl->options = options;
    impl->row_major = std::make_shared<LayoutVariant>(std::move(engine));
    return JitFunction(std::move(impl));
  });
}

}  // namespace fusec
