// SPDX-License-Identifier: Apache-2.0
// Binds custom calls to the functions that the host registered, and calls them with dense tensors.

#include "runtime/library/calls/calls.h"

#include <array>
#include <utility>
#include <variant>

#include "ir/library/host_calls.h"

namespace fusec::runtime {
namespace {

class CallOp final : public LibraryOp {
 public:
  CallOp(std::shared_ptr<const CustomCall> function, const LibraryCall& call)
      : function_(std::move(function)),
        name_(call.step->attrs.s("name")),
        attributes_(call.step->attrs.s("attributes")),
        args_(call.args) {}

  Status run(void* const* args, void*, const ExecContext& context) const override {
    std::array<CallTensor, kMaxCallInputs + 1> tensors;
    for (std::size_t i = 0; i < args_.size(); ++i) tensors[i] = {args_[i].dtype, args_[i].shape, args[i]};
    const std::size_t inputs = args_.size() - 1;
    Status done = (*function_)(std::span(tensors.data(), inputs), tensors[inputs], attributes_, context.stream);
    return done.ok() ? done : std::move(done).with_note("in the custom call '" + name_ + "'");
  }
  int64_t alignment(std::size_t arg) const override { return static_cast<int64_t>(size_of(args_[arg].dtype)); }
  std::string implementation() const override { return "call " + name_; }

 private:
  const std::shared_ptr<const CustomCall> function_;
  const std::string name_, attributes_;
  const std::vector<BoundArg> args_;
};

// The partition has made all of them so.
bool is_dense(const BoundArg& arg) {
  int64_t stride = 1;
  for (std::size_t i = arg.shape.size(); i-- > 0;) {
    if (arg.shape[i] != 1 && arg.strides[i] != stride) return false;
    stride *= arg.shape[i];
  }
  return true;
}

class CallLibrary final : public Library {
 public:
  explicit CallLibrary(TargetKind platform) : platform_(platform) {}
  std::string name() const override { return "calls"; }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    if (step.op == ir::TensorOp::custom_call) return std::nullopt;
    return "it is no custom call";
  }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    if (get_unsupported_reason(*call.step)) return Status(StatusCode::unsupported, "it is no custom call");
    const std::string& name = call.step->attrs.s("name");
    auto function = ir::find_call(name, platform_);
    if (function == nullptr) return ir::reject_call(name, platform_);
    for (const BoundArg& arg : call.args)
      if (!is_dense(arg))
        return Status(StatusCode::internal, "an argument of the custom call '" + name + "' is not dense");
    return std::unique_ptr<LibraryOp>(std::make_unique<CallOp>(std::move(function), call));
  }

 private:
  const TargetKind platform_;
};

Status check_step(const ir::Step& step, TargetKind platform) {
  const auto* const call = std::get_if<ir::LibraryStep>(&step.v);
  if (call == nullptr || call->op != ir::TensorOp::custom_call) return {};
  const std::string& name = call->attrs.s("name");
  if (ir::find_call(name, platform) != nullptr) return {};
  return ir::reject_call(name, platform).with_note("at " + step.origin);
}

}  // namespace

std::shared_ptr<Library> make_call_library(TargetKind platform) { return std::make_shared<CallLibrary>(platform); }

Status check_calls(const ir::Program& program, TargetKind platform) {
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants)
      for (const ir::Candidate& candidate : variant.candidates)
        for (const ir::Step& step : candidate.steps) FUSEC_TRY(check_step(step, platform));
  return {};
}

}  // namespace fusec::runtime
