// SPDX-License-Identifier: Apache-2.0
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
    // The workspace is for the threads of bind.
    const int threads = context.threads < threads_ ? context.threads : threads_;
    if (is_empty(problem_.out.dims)) return {};
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
  std::vector<PostOp> posts_;
  int threads_;
};

constexpr char kLoops[] = "loops";

class PlainLibrary : public Library {
 public:
  std::string name() const override { return "plain"; }

  std::optional<std::string> refuses(const ir::LibraryStep& step) const override {
    switch (step.op) {
      case ir::TensorOp::conv:
      case ir::TensorOp::matmul:
      case ir::TensorOp::max_pool:
      case ir::TensorOp::avg_pool:
        return std::nullopt;
      default:
        return "no loops for " + std::string(ir::info(step.op).name);
    }
  }

  std::vector<Choice> choices(const LibraryCall&) override { return {{kLoops}}; }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    if (!call.choice.empty() && call.choice != kLoops) return Status(StatusCode::unsupported, "no such choice");
    Problem problem = normalize(call);
    if (problem.out.dims.size() > plain::kMaxAxes) return Status(StatusCode::unsupported, "more axes than loops have");
    const bool is_pool = problem.op == ir::TensorOp::max_pool || problem.op == ir::TensorOp::avg_pool;
    if (is_pool && problem.out.dims.size() > 5) return Status(StatusCode::unsupported, "more than three spatial axes");
    if (problem.op == ir::TensorOp::matmul) merge_axes(problem);
    return std::unique_ptr<LibraryOp>(
        std::make_unique<PlainOp>(std::move(problem), call.threads > 0 ? call.threads : 1));
  }
};

}  // namespace

std::shared_ptr<Library> make_plain_library() { return std::make_shared<PlainLibrary>(); }

}  // namespace fusec::runtime
