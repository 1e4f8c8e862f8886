// SPDX-License-Identifier: Apache-2.0
// The plain library: binds every convolution, matmul and pooling to our own loops. It is the last library asked on the
// host, so it must take whatever the others refuse.

#include "runtime/library/plain/plain.h"

#include <utility>

#include "ir/support/check.h"
#include "runtime/library/plain/finish.h"
#include "runtime/library/plain/loops.h"

namespace fusec::runtime {
namespace {

bool is_empty(const Extents& dims) { return product(dims) == 0; }

class PlainOp : public LibraryOp {
 public:
  PlainOp(Problem problem, int threads)
      : problem_(std::move(problem)), posts_(plain::all_posts(problem_)), threads_(threads) {}

  Status run(void* const* args, void* workspace, const ExecContext& context) const override {
    // The workspace is sized for the threads given at bind.
    const int threads = context.threads < threads_ ? context.threads : threads_;
    if (is_empty(problem_[Role::output].dims)) return {};
    switch (problem_.op) {
      case ir::TensorOp::conv:
        plain::conv(problem_, posts_, args, workspace, threads);
        break;
      case ir::TensorOp::matmul:
        plain::matmul(problem_, posts_, args, workspace, threads);
        break;
      default:
        plain::pool(problem_, posts_, args, threads);
    }
    return {};
  }

  std::size_t workspace_bytes() const override {
    if (problem_.op == ir::TensorOp::conv) return plain::conv_workspace(problem_, threads_);
    return problem_.op == ir::TensorOp::matmul ? plain::matmul_workspace(problem_, threads_) : 0;
  }

  std::string implementation() const override { return "loops"; }

 private:
  Problem problem_;
  std::vector<BoundEpilogue> posts_;
  int threads_;
};

constexpr char kLoops[] = "loops";

class PlainLibrary : public Library {
 public:
  std::string name() const override { return std::string(capabilities_.name); }

  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    return unsupported_reason(capabilities_, step.op, step.compute);
  }

  std::vector<Algorithm> algorithms(const LibraryCall&) override { return {{kLoops}}; }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    if (!call.algorithm.empty() && call.algorithm != kLoops)
      return Status(StatusCode::unsupported, "no such algorithm");
    Problem problem = normalize(call);
    if (problem[Role::output].dims.size() > plain::kMaxAxes)
      return Status(StatusCode::unsupported, "more axes than loops have");
    if (auto reason = unsupported_reason(capabilities_, problem)) return Status(StatusCode::unsupported, *reason);
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    return std::unique_ptr<LibraryOp>(
        std::make_unique<PlainOp>(std::move(problem), call.threads > 0 ? call.threads : 1));
  }

 private:
  const ir::LibraryCapabilities& capabilities_ = ir::library_capabilities("plain");
};

}  // namespace

std::shared_ptr<Library> make_plain_library() { return std::make_shared<PlainLibrary>(); }

}  // namespace fusec::runtime
