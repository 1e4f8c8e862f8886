// SPDX-License-Identifier: Apache-2.0
// Normalizes library calls to Problems at bind: resolves layouts, transposes, vectors and broadcasting into extents and
// strides. It moves no data; every library starts from its result.

#include "runtime/library/interface/problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/support/check.h"

namespace fusec::runtime {
namespace {

CallOperand make_operand(const LibraryCall& call, std::size_t arg, Role role) {
  const BoundArg& from = call.args[arg];
  FUSEC_CHECK(from.shape.size() == from.strides.size()) << "argument " << arg << " lacks strides";
  int64_t alignment = 16;
  while (from.offset % alignment != 0) alignment /= 2;
  return {static_cast<int>(arg), from.dtype, from.shape, from.strides, from.constant, alignment, role};
}

// Aligns the operand with the axes of `out` by numpy's broadcasting rule.
CallOperand aligned(CallOperand operand, const Extents& out) {
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

// Calls f on every operand with the axes of the output, including the output.
template <class F>
void for_output_axes(Problem& problem, const F& f) {
  f(problem[Role::output]);
  if (problem.find(Role::bias) != nullptr) f(problem[Role::bias]);
  for (BoundEpilogue& bound : problem.epilogues) {
    if (bound.operand) f(*bound.operand);
  }
}

void add_epilogues(const LibraryCall& call, Problem& problem) {
  for (const ir::Epilogue& epilogue : call.step->epilogues) {
    BoundEpilogue bound{epilogue.op, epilogue.alpha, epilogue.beta, std::nullopt};
    if (epilogue.operand >= 0) {
      const Role role = epilogue.op == ir::ScalarOp::mul ? Role::scale : Role::addend;
      bound.operand =
          aligned(make_operand(call, static_cast<std::size_t>(epilogue.operand), role), problem[Role::output].dims);
    }
    problem.epilogues.push_back(std::move(bound));
  }
}

// N spatial... C -> N C spatial...
void channels_second(CallOperand& operand) {
  std::rotate(operand.dims.begin() + 1, operand.dims.end() - 1, operand.dims.end());
  std::rotate(operand.strides.begin() + 1, operand.strides.end() - 1, operand.strides.end());
}

void read_window(const ir::Attrs& attrs, Extents kernel, Problem& problem) {
  Window& window = problem.window;
  const std::size_t axes = problem[Role::output].dims.size() - 2;
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
  CallOperand &in = problem[Role::input], &out = problem[Role::output];
  FUSEC_CHECK(out.dims.size() >= 3 && in.dims.size() == out.dims.size()) << "an image of low rank";
  if (attrs.s("layout") == "last") {
    channels_second(in);
    for_output_axes(problem, channels_second);
  }
  const CallOperand* const filter = problem.find(Role::weight);
  if (filter == nullptr) {
    problem.ceil_mode = attrs.i("ceil_mode") == 1;
    problem.count_include_pad = problem.op == ir::TensorOp::avg_pool && attrs.i("count_include_pad") == 1;
    return read_window(attrs, attrs.ints("kernel"), problem);
  }
  problem.groups = attrs.i("groups");
  FUSEC_CHECK(filter->dims.size() == out.dims.size() && filter->dims[0] == out.dims[1] &&
              filter->dims[1] * problem.groups == in.dims[1])
      << "a filter that does not fit";
  read_window(attrs, {filter->dims.begin() + 2, filter->dims.end()}, problem);
}

// A vector gets the missing axis, transposes become strides, and batch axes are padded to the rank of the output.
CallOperand matrix(CallOperand operand, bool transposed, bool left, std::size_t rank) {
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

void insert_axis(CallOperand& operand, std::size_t from_end) {
  const auto at = static_cast<std::ptrdiff_t>(operand.dims.size() - from_end);
  operand.dims.insert(operand.dims.begin() + at, 1);
  operand.strides.insert(operand.strides.begin() + at, 0);
}

void normalize_matmul(const LibraryCall& call, Problem& problem) {
  const ir::Attrs& attrs = call.step->attrs;
  CallOperand &a = problem[Role::input], &b = problem[Role::weight], &out = problem[Role::output];
  if (b.dims.size() == 1) for_output_axes(problem, [](CallOperand& o) { insert_axis(o, 0); });
  if (a.dims.size() == 1) for_output_axes(problem, [](CallOperand& o) { insert_axis(o, 1); });
  const std::size_t rank = out.dims.size();
  a = matrix(std::move(a), attrs.i("transpose_a") == 1, true, rank);
  b = matrix(std::move(b), attrs.i("transpose_b") == 1, false, rank);
  FUSEC_CHECK(rank >= 2 && a.dims[rank - 1] == b.dims[rank - 2] && a.dims[rank - 2] == out.dims[rank - 2] &&
              b.dims[rank - 1] == out.dims[rank - 1])
      << "matrices that do not fit";
}

void normalize_attention(const LibraryCall& call, Problem& problem) {
  const Extents &q = problem[Role::query].dims, &k = problem[Role::key].dims, &v = problem[Role::value].dims;
  FUSEC_CHECK(q.size() == 4 && k.size() == 4 && v.size() == 4 && problem[Role::output].dims.size() == 4 &&
              q[3] == k[3] && k[2] == v[2])
      << "queries, keys and values that do not fit";
  problem.scale = call.step->attrs.f("scale");
  problem.causal = call.step->attrs.i("causal") == 1;
  const Extents scores{q[0], q[1], q[2], k[2]};
  if (problem.find(Role::mask) != nullptr) problem.put(Role::mask, aligned(problem[Role::mask], scores));
}

void erase_axis(CallOperand& operand, std::size_t axis) {
  operand.dims.erase(operand.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

// Whether axes i and i + 1 form one axis in this operand. `inner`: extent of axis i + 1 of the output.
bool merges(const CallOperand& operand, std::size_t i, int64_t inner) {
  return operand.strides[i] == operand.strides[i + 1] * inner && (operand.dims[i] == 1) == (operand.dims[i + 1] == 1);
}

}  // namespace

int64_t product(const Extents& extents) {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

CallOperand& Problem::operator[](Role role) {
  const auto at = std::find_if(operands.begin(), operands.end(), [=](const CallOperand& o) { return o.role == role; });
  FUSEC_CHECK(at != operands.end()) << "no operand is the " << to_string(role);
  return *at;
}

const CallOperand* Problem::find(Role role) const {
  const auto at = std::find_if(operands.begin(), operands.end(), [=](const CallOperand& o) { return o.role == role; });
  return at == operands.end() ? nullptr : &*at;
}

void Problem::put(Role role, CallOperand operand) {
  erase(role);
  operand.role = role;
  operands.push_back(std::move(operand));
}

void Problem::erase(Role role) {
  std::erase_if(operands, [=](const CallOperand& o) { return o.role == role; });
}

void Problem::exchange(Role one, Role other) { std::swap((*this)[one].role, (*this)[other].role); }

BoundEpilogue add_of(CallOperand operand) {
  operand.role = Role::addend;
  return {ir::ScalarOp::add, 0, 0, std::move(operand)};
}

Problem normalize(const LibraryCall& call) {
  FUSEC_CHECK(call.step) << "a bad library call";
  return normalize(call, ir::roles_of(call.step->op));
}

Problem normalize(const LibraryCall& call, std::span<const Role> roles) {
  FUSEC_CHECK(call.args.size() == call.step->args.size() && call.args.size() >= 2) << "a bad library call";
  Problem problem;
  problem.op = call.step->op;
  problem.compute = call.step->compute;
  const std::size_t out = call.args.size() - 1;
  // The bias and the operands of epilogues follow the inputs. An op's own bias is named by the step, too.
  for (std::size_t i = 0; i < std::min(roles.size(), out); ++i) {
    if (roles[i] != Role::bias) problem.operands.push_back(make_operand(call, i, roles[i]));
  }
  problem.put(Role::output, make_operand(call, out, Role::output));
  add_epilogues(call, problem);
  const bool is_image = call.step->attrs.find("layout") != nullptr;
  if (call.step->bias >= 0) {
    const Extents& dims = problem[Role::output].dims;
    CallOperand bias = make_operand(call, static_cast<std::size_t>(call.step->bias), Role::bias);
    // The bias of a convolution is [C], along the channel axis.
    if (is_image && bias.dims.size() == 1 && call.step->attrs.s("layout") == "first") {
      bias.dims.resize(dims.size() - 1, 1);
      bias.strides.resize(dims.size() - 1, 0);
    }
    problem.put(Role::bias, aligned(std::move(bias), dims));
  }
  if (is_image) normalize_image(call, problem);
  if (problem.op == ir::TensorOp::matmul) normalize_matmul(call, problem);
  if (problem.op == ir::TensorOp::attention) normalize_attention(call, problem);
  return problem;
}

namespace {

// A bias is small: libraries copy it, or add it by an op of its own.
bool is_backwards(const CallOperand& operand) {
  return operand.role != Role::bias &&
         std::any_of(operand.strides.begin(), operand.strides.end(), [](int64_t s) { return s < 0; });
}

// The types of the operands, those of epilogues included, are that of the output.
bool has_one_type(const Problem& p) {
  const DType dtype = p[Role::output].dtype;
  return std::all_of(p.operands.begin(), p.operands.end(), [=](const CallOperand& o) { return o.dtype == dtype; }) &&
         std::all_of(p.epilogues.begin(), p.epilogues.end(),
                     [=](const BoundEpilogue& bound) { return !bound.operand || bound.operand->dtype == dtype; });
}

std::optional<std::string> unsupported_window(const ir::LibraryCapabilities& library, const Problem& p) {
  const Window& w = p.window;
  const CallOperand &in = p[Role::input], &out = p[Role::output];
  if (product(in.dims) == 0) return std::nullopt;  // no window is read
  const bool is_pool = p.find(Role::weight) == nullptr;
  const auto axes = static_cast<int>(w.kernel.size());
  if (axes > (is_pool ? library.pool.max_spatial_axes : library.conv.max_spatial_axes)) return "too many spatial axes";
  if (!is_pool) {
    if (library.conv.pointwise_only && !is_pointwise(p)) return "a convolution of a larger window";
    return std::nullopt;
  }
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const ir::PoolAxis axis{in.dims[2 + i], out.dims[2 + i], w.kernel[i], w.strides[i],
                            w.dilations[i], w.before[i],     w.after[i]};
    if (const char* reason = unsupported_reason(library.pool, axis, p.count_include_pad, p.ceil_mode)) return reason;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported_reason(const ir::LibraryCapabilities& library, const Problem& p) {
  if (!p.window.kernel.empty()) {
    if (auto reason = unsupported_window(library, p)) return reason;
  }
  if (!library.strides.backwards && std::any_of(p.operands.begin(), p.operands.end(), is_backwards))
    return "a negative stride";
  if (!library.has_mixed_types && !has_one_type(p)) return "operands of several types";
  return std::nullopt;
}

namespace {

void drop_unit_batches(Problem& problem) {
  const Extents& out = problem[Role::output].dims;
  for (std::size_t i = 0; i + 2 < out.size();) {
    if (out[i] != 1) {
      ++i;
      continue;
    }
    problem.for_each_operand([i](CallOperand& o) { erase_axis(o, i); });
  }
}

// Merges axes i and i + 1; false if an operand's strides forbid it.
bool merge_batches(Problem& problem, std::size_t i) {
  const int64_t inner = problem[Role::output].dims[i + 1];
  bool fits = true;
  problem.for_each_operand([&](const CallOperand& o) { fits = fits && merges(o, i, inner); });
  if (!fits) return false;
  problem.for_each_operand([i](CallOperand& o) {
    o.dims[i + 1] *= o.dims[i];
    erase_axis(o, i);
  });
  return true;
}

// [batch, rows, k] x [k, columns] is one product with batch * rows rows if all rows are equally spaced.
void batch_into_rows(Problem& problem) {
  CallOperand &a = problem[Role::input], &b = problem[Role::weight];
  const int64_t rows = problem[Role::output].dims[1];
  const auto fits_rows = [&](const CallOperand& o) { return rows == 1 || merges(o, 0, rows); };
  bool fits = b.dims[0] == 1 && fits_rows(a);
  for_output_axes(problem, [&](const CallOperand& o) { fits = fits && fits_rows(o); });
  if (!fits) return;
  const auto fold = [&](CallOperand& o) {
    if (rows == 1) o.strides[1] = o.strides[0];
    o.dims[1] *= o.dims[0];
    erase_axis(o, 0);
  };
  fold(a);
  for_output_axes(problem, fold);
  erase_axis(b, 0);
}

}  // namespace

bool is_empty_sum(const Problem& problem) {
  return ir::is_product(problem.op) &&
         (product(problem[Role::input].dims) == 0 || product(problem[Role::weight].dims) == 0);
}

Problem over_one_zero(Problem p) {
  const Extents out = p[Role::output].dims;
  const std::size_t rank = out.size();
  CallOperand &a = p[Role::input], &b = p[Role::weight];
  a = {-1, a.dtype, Extents(rank, 1), Extents(rank, 0), nullptr, 16, Role::input};
  b = {-1, a.dtype, Extents(rank, 1), Extents(rank, 0), nullptr, 16, Role::weight};
  if (p.op == ir::TensorOp::matmul) {
    a.dims[rank - 2] = out[rank - 2], a.strides[rank - 2] = a.strides[rank - 1] = 1;
    b.dims[rank - 1] = b.strides[rank - 2] = out[rank - 1], b.strides[rank - 1] = 1;
    return p;
  }
  a.dims = out, a.dims[1] = 1;
  int64_t stride = 1;
  for (std::size_t i = rank; i-- > 0; stride *= a.dims[i]) a.strides[i] = stride;
  b.dims[0] = out[1], b.strides.assign(rank, 1);
  const Extents ones(rank - 2, 1), none(rank - 2, 0);
  p.window = {ones, ones, ones, none, none};
  p.groups = 1;
  return p;
}

void merge_axes(Problem& problem) {
  drop_unit_batches(problem);
  const Extents& out = problem[Role::output].dims;
  for (std::size_t i = 0; i + 3 < out.size();) i += merge_batches(problem, i) ? 0 : 1;
  if (out.size() == 3) batch_into_rows(problem);
}

namespace {

// Axes from the innermost outwards.
std::vector<std::size_t> axes_inside_out(std::size_t rank, ImageOrder order) {
  std::vector<std::size_t> axes;
  if (order == ImageOrder::last) axes.push_back(1);
  for (std::size_t i = rank; i-- > 2;) axes.push_back(i);
  if (order == ImageOrder::first) axes.push_back(1);
  axes.push_back(0);
  return axes;
}

}  // namespace

CallOperand canonical_image(CallOperand image, ImageOrder order) {
  int64_t dense = 1;
  for (const std::size_t axis : axes_inside_out(image.dims.size(), order)) {
    if (image.dims[axis] == 1) image.strides[axis] = dense;
    dense = image.strides[axis] * image.dims[axis];
  }
  return image;
}

CallOperand dense_image(CallOperand image, ImageOrder order) {
  int64_t dense = 1;
  for (const std::size_t axis : axes_inside_out(image.dims.size(), order)) {
    image.strides[axis] = std::exchange(dense, dense * image.dims[axis]);
  }
  return image;
}

void transpose_matrix(CallOperand& matrix) {
  const std::size_t n = matrix.dims.size();
  std::swap(matrix.dims[n - 1], matrix.dims[n - 2]);
  std::swap(matrix.strides[n - 1], matrix.strides[n - 2]);
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
void channels_to_end(CallOperand& o) {
  std::rotate(o.dims.begin() + 1, o.dims.begin() + 2, o.dims.end());
  std::rotate(o.strides.begin() + 1, o.strides.begin() + 2, o.strides.end());
}

// Whether another argument of the step lies in the same allocation, so that overwriting it early would be visible.
bool is_shared(const ir::LibraryStep& step, std::size_t arg) {
  for (std::size_t i = 0; i + 1 < step.args.size(); ++i) {
    if (i != arg && step.args[i].alloc == step.args[arg].alloc) return true;
  }
  return false;
}

}  // namespace

Problem as_matmul(Problem p) {
  p.op = ir::TensorOp::matmul;
  CallOperand &a = p[Role::input], &b = p[Role::weight];
  channels_to_end(a);
  for_output_axes(p, channels_to_end);
  const std::size_t rank = p[Role::output].dims.size();
  Extents dims(rank, 1), strides(rank, 0);
  dims[rank - 2] = b.dims[1], dims[rank - 1] = b.dims[0];
  strides[rank - 2] = b.strides[1], strides[rank - 1] = b.strides[0];
  b.dims = std::move(dims);
  b.strides = std::move(strides);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (a.dims[i] == 1) a.strides[i] = 0;
  }
  merge_axes(p);
  return p;
}

int find_addend(const Problem& problem, std::size_t count, const LibraryCall& call) {
  for (std::size_t i = 0; i < count; ++i) {
    const BoundEpilogue& bound = problem.epilogues[i];
    if (bound.op != ir::ScalarOp::add || !bound.operand || bound.operand->constant) continue;
    const BoundArg& operand = call.args[static_cast<std::size_t>(bound.operand->arg)];
    const BoundArg& out = call.args.back();
    if (operand.dtype != out.dtype || operand.shape != out.shape || operand.strides != out.strides) continue;
    if (!is_shared(*call.step, static_cast<std::size_t>(bound.operand->arg))) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace fusec::runtime
