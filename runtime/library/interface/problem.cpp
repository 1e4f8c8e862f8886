// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/interface/problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/support/check.h"

namespace fusec::runtime {
namespace {

Operand operand_of(const LibraryCall& call, std::size_t arg) {
  const BoundArg& from = call.args[arg];
  FUSEC_CHECK(from.shape.size() == from.strides.size()) << "argument " << arg << " lacks strides";
  int64_t alignment = 16;
  while (from.offset % alignment != 0) alignment /= 2;
  return {static_cast<int>(arg), from.dtype, from.shape, from.strides, from.constant, alignment};
}

// Aligns the operand with the axes of `out` by numpy's rule.
Operand aligned(Operand operand, const Extents& out) {
  FUSEC_CHECK(operand.dims.size() <= out.size()) << "an operand of rank " << operand.dims.size();
  const std::size_t missing = out.size() - operand.dims.size();
  operand.dims.insert(operand.dims.begin(), missing, 1);
  operand.strides.insert(operand.strides.begin(), missing, 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    FUSEC_CHECK(operand.dims[i] == out[i] || operand.dims[i] == 1) << "operand extent " << operand.dims[i];
    if (operand.strides[i] == 0 || operand.dims[i] == 1) operand.dims[i] = 1, operand.strides[i] = 0;
  }
  return operand;
}

// Calls f on every operand that has the axes of the output, the output included.
template <class F>
void for_output_axes(Problem& problem, const F& f) {
  f(problem.out);
  if (problem.bias) f(*problem.bias);
  for (PostOp& post : problem.epilogues) {
    if (post.operand) f(*post.operand);
  }
}

void add_epilogues(const LibraryCall& call, Problem& problem) {
  for (const ir::Epilogue& epilogue : call.step->epilogues) {
    PostOp post{epilogue.op, epilogue.alpha, epilogue.beta, std::nullopt};
    if (epilogue.operand >= 0) {
      post.operand = aligned(operand_of(call, static_cast<std::size_t>(epilogue.operand)), problem.out.dims);
    }
    problem.epilogues.push_back(std::move(post));
  }
}

// N spatial... C -> N C spatial...
void channels_second(Operand& operand) {
  std::rotate(operand.dims.begin() + 1, operand.dims.end() - 1, operand.dims.end());
  std::rotate(operand.strides.begin() + 1, operand.strides.end() - 1, operand.strides.end());
}

void read_window(const ir::Attrs& attrs, Extents kernel, Problem& problem) {
  Window& window = problem.window;
  const std::size_t axes = problem.out.dims.size() - 2;
  window.kernel = std::move(kernel);
  window.strides = attrs.ints("strides");
  window.dilations = attrs.ints("dilations");
  const Extents& pads = attrs.ints("pads");
  FUSEC_CHECK(window.kernel.size() == axes && window.strides.size() == axes && window.dilations.size() == axes &&
              pads.size() == 2 * axes)
      << "a window that is not of " << axes << " axes";
  window.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  window.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
}

void normalize_image(const LibraryCall& call, Problem& problem) {
  const ir::Attrs& attrs = call.step->attrs;
  FUSEC_CHECK(problem.out.dims.size() >= 3 && problem.a.dims.size() == problem.out.dims.size())
      << "an image of low rank";
  if (attrs.s("layout") == "last") {
    channels_second(problem.a);
    for_output_axes(problem, channels_second);
  }
  if (problem.op != ir::TensorOp::conv) {
    problem.ceil_mode = attrs.i("ceil_mode") == 1;
    problem.count_include_pad = problem.op == ir::TensorOp::avg_pool && attrs.i("count_include_pad") == 1;
    return read_window(attrs, attrs.ints("kernel"), problem);
  }
  problem.groups = attrs.i("groups");
  problem.b = operand_of(call, 1);
  FUSEC_CHECK(problem.b.dims.size() == problem.out.dims.size() && problem.b.dims[0] == problem.out.dims[1] &&
              problem.b.dims[1] * problem.groups == problem.a.dims[1])
      << "a filter that does not fit";
  read_window(attrs, {problem.b.dims.begin() + 2, problem.b.dims.end()}, problem);
}

// A vector gets the axis it lacks; transposes become strides; batch axes get the rank of the output.
Operand matrix(Operand operand, bool transposed, bool left, std::size_t rank) {
  const bool vector = operand.dims.size() == 1;
  if (vector) {
    operand.dims.insert(left ? operand.dims.begin() : operand.dims.end(), 1);
    operand.strides.insert(left ? operand.strides.begin() : operand.strides.end(), 0);
  }
  std::size_t n = operand.dims.size();
  if (transposed && !vector) {
    std::swap(operand.dims[n - 1], operand.dims[n - 2]);
    std::swap(operand.strides[n - 1], operand.strides[n - 2]);
  }
  FUSEC_CHECK(n <= rank) << "an operand of rank " << n << " for a product of rank " << rank;
  operand.dims.insert(operand.dims.begin(), rank - n, 1);
  operand.strides.insert(operand.strides.begin(), rank - n, 0);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (operand.strides[i] == 0 || operand.dims[i] == 1) operand.dims[i] = 1, operand.strides[i] = 0;
  }
  return operand;
}

void insert_axis(Operand& operand, std::size_t from_end) {
  const auto at = static_cast<std::ptrdiff_t>(operand.dims.size() - from_end);
  operand.dims.insert(operand.dims.begin() + at, 1);
  operand.strides.insert(operand.strides.begin() + at, 0);
}

void normalize_matmul(const LibraryCall& call, Problem& problem) {
  const ir::Attrs& attrs = call.step->attrs;
  Operand a = operand_of(call, 0), b = operand_of(call, 1);
  if (b.dims.size() == 1) for_output_axes(problem, [](Operand& o) { insert_axis(o, 0); });
  if (a.dims.size() == 1) for_output_axes(problem, [](Operand& o) { insert_axis(o, 1); });
  const std::size_t rank = problem.out.dims.size();
  problem.a = matrix(std::move(a), attrs.i("transpose_a") == 1, true, rank);
  problem.b = matrix(std::move(b), attrs.i("transpose_b") == 1, false, rank);
  FUSEC_CHECK(rank >= 2 && problem.a.dims[rank - 1] == problem.b.dims[rank - 2] &&
              problem.a.dims[rank - 2] == problem.out.dims[rank - 2] &&
              problem.b.dims[rank - 1] == problem.out.dims[rank - 1])
      << "matrices that do not fit";
}

void erase_axis(Operand& operand, std::size_t axis) {
  operand.dims.erase(operand.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

// Whether axes i and i + 1 are one axis of this operand. `inner`: extent of axis i + 1 of the output.
bool merges(const Operand& operand, std::size_t i, int64_t inner) {
  return operand.strides[i] == operand.strides[i + 1] * inner && (operand.dims[i] == 1) == (operand.dims[i + 1] == 1);
}

}  // namespace

int64_t product(const Extents& extents) {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

Problem normalize(const LibraryCall& call) {
  FUSEC_CHECK(call.step && call.args.size() == call.step->args.size() && call.args.size() >= 2) << "a bad library call";
  Problem problem;
  problem.op = call.step->op;
  problem.compute = call.step->compute;
  problem.a = operand_of(call, 0);
  problem.out = operand_of(call, call.args.size() - 1);
  add_epilogues(call, problem);
  if (call.step->bias >= 0) {
    Operand bias = operand_of(call, static_cast<std::size_t>(call.step->bias));
    // A convolution's bias is [C] on the channel axis.
    if (problem.op == ir::TensorOp::conv && bias.dims.size() == 1 && call.step->attrs.s("layout") == "first") {
      bias.dims.resize(problem.out.dims.size() - 1, 1);
      bias.strides.resize(problem.out.dims.size() - 1, 0);
    }
    problem.bias = aligned(std::move(bias), problem.out.dims);
  }
  if (problem.op == ir::TensorOp::matmul) {
    normalize_matmul(call, problem);
  } else {
    normalize_image(call, problem);
  }
  return problem;
}

namespace {

void drop_unit_batches(Problem& problem) {
  for (std::size_t i = 0; i + 2 < problem.out.dims.size();) {
    if (problem.out.dims[i] != 1) {
      ++i;
      continue;
    }
    const auto erase = [i](Operand& o) { erase_axis(o, i); };
    erase(problem.a), erase(problem.b);
    for_output_axes(problem, erase);
  }
}

// Makes axes i and i + 1 one, or returns false where an operand's strides forbid it.
bool merge_batches(Problem& problem, std::size_t i) {
  const int64_t inner = problem.out.dims[i + 1];
  bool fits = merges(problem.a, i, inner) && merges(problem.b, i, inner);
  for_output_axes(problem, [&](const Operand& o) { fits = fits && merges(o, i, inner); });
  if (!fits) return false;
  const auto fold = [i](Operand& o) {
    o.dims[i + 1] *= o.dims[i];
    erase_axis(o, i);
  };
  fold(problem.a), fold(problem.b);
  for_output_axes(problem, fold);
  return true;
}

// [batch, rows, k] x [k, columns] is one product of batch * rows rows where the rows lie at equal steps.
void batch_into_rows(Problem& problem) {
  const int64_t rows = problem.out.dims[1];
  const auto fits_rows = [&](const Operand& o) { return rows == 1 || merges(o, 0, rows); };
  bool fits = problem.b.dims[0] == 1 && fits_rows(problem.a);
  for_output_axes(problem, [&](const Operand& o) { fits = fits && fits_rows(o); });
  if (!fits) return;
  const auto fold = [&](Operand& o) {
    if (rows == 1) o.strides[1] = o.strides[0];
    o.dims[1] *= o.dims[0];
    erase_axis(o, 0);
  };
  fold(problem.a);
  for_output_axes(problem, fold);
  erase_axis(problem.b, 0);
}

}  // namespace

bool is_empty_product(const Problem& problem) {
  const bool is_product = problem.op == ir::TensorOp::matmul || problem.op == ir::TensorOp::conv;
  return is_product && (product(problem.a.dims) == 0 || product(problem.b.dims) == 0);
}

Problem over_one_zero(Problem p) {
  const Extents& out = p.out.dims;
  const std::size_t rank = out.size();
  const Operand zeros{-1, p.a.dtype, Extents(rank, 1), Extents(rank, 0), nullptr, 16};
  p.a = p.b = zeros;
  if (p.op == ir::TensorOp::matmul) {
    p.a.dims[rank - 2] = out[rank - 2], p.a.strides[rank - 2] = p.a.strides[rank - 1] = 1;
    p.b.dims[rank - 1] = p.b.strides[rank - 2] = out[rank - 1], p.b.strides[rank - 1] = 1;
    return p;
  }
  p.a.dims = out, p.a.dims[1] = 1;
  int64_t stride = 1;
  for (std::size_t i = rank; i-- > 0; stride *= p.a.dims[i]) p.a.strides[i] = stride;
  p.b.dims[0] = out[1], p.b.strides.assign(rank, 1);
  const Extents ones(rank - 2, 1), none(rank - 2, 0);
  p.window = {ones, ones, ones, none, none};
  p.groups = 1;
  return p;
}

void merge_axes(Problem& problem) {
  drop_unit_batches(problem);
  for (std::size_t i = 0; i + 3 < problem.out.dims.size();) i += merge_batches(problem, i) ? 0 : 1;
  if (problem.out.dims.size() == 3) batch_into_rows(problem);
}

bool is_pointwise(const Problem& p) {
  const auto all = [](const Extents& extents, int64_t value) {
    return std::all_of(extents.begin(), extents.end(), [=](int64_t e) { return e == value; });
  };
  const Window& w = p.window;
  return p.groups == 1 && all(w.kernel, 1) && all(w.strides, 1) && all(w.before, 0) && all(w.after, 0);
}

namespace {

// N C spatial... -> N spatial... C
void channels_to_end(Operand& o) {
  std::rotate(o.dims.begin() + 1, o.dims.begin() + 2, o.dims.end());
  std::rotate(o.strides.begin() + 1, o.strides.begin() + 2, o.strides.end());
}

// Whether another argument of the step lies in the same allocation, so that overwriting it early would be seen.
bool is_shared(const ir::LibraryStep& step, std::size_t arg) {
  for (std::size_t i = 0; i + 1 < step.args.size(); ++i) {
    if (i != arg && step.args[i].alloc == step.args[arg].alloc) return true;
  }
  return false;
}

}  // namespace

Problem as_matmul(Problem p) {
  p.op = ir::TensorOp::matmul;
  channels_to_end(p.a);
  channels_to_end(p.out);
  if (p.bias) channels_to_end(*p.bias);
  for (PostOp& post : p.epilogues) {
    if (post.operand) channels_to_end(*post.operand);
  }
  const std::size_t rank = p.out.dims.size();
  Extents dims(rank, 1), strides(rank, 0);
  dims[rank - 2] = p.b.dims[1], dims[rank - 1] = p.b.dims[0];
  strides[rank - 2] = p.b.strides[1], strides[rank - 1] = p.b.strides[0];
  p.b.dims = std::move(dims);
  p.b.strides = std::move(strides);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (p.a.dims[i] == 1) p.a.strides[i] = 0;
  }
  merge_axes(p);
  return p;
}

int summand(const Problem& problem, std::size_t count, const LibraryCall& call) {
  for (std::size_t i = 0; i < count; ++i) {
    const PostOp& post = problem.epilogues[i];
    if (post.op != ir::ScalarOp::add || !post.operand || post.operand->constant) continue;
    const BoundArg& operand = call.args[static_cast<std::size_t>(post.operand->arg)];
    const BoundArg& out = call.args.back();
    if (operand.dtype != out.dtype || operand.shape != out.shape || operand.strides != out.strides) continue;
    if (!is_shared(*call.step, static_cast<std::size_t>(post.operand->arg))) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace fusec::runtime
