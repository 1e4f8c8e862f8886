// SPDX-License-Identifier: Apache-2.0
// Derives known values forward from constants and iotas. Tensors go through the graph evaluator, one node at a time;
// sums of indices and choices by them go through the few ops of which masks are made.

#include "compiler/passes/known_values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "compiler/partition/graph_names.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

constexpr int kMaxDepth = 64;                       // of nodes behind a value
constexpr int64_t kMaxElements = int64_t{1} << 22;  // of a tensor: a mask of 2,048 queries and keys
constexpr int64_t kMaxTerm = int64_t{1} << 20;      // of offsets and steps, so that sums of indices do not wrap
using Extents = std::vector<int64_t>;

bool is_unknown(const KnownValue& v) { return std::holds_alternative<std::monostate>(v); }
bool is_one_element(const KnownValue& v) {
  const auto* tensor = std::get_if<Tensor>(&v);
  return tensor != nullptr && tensor->num_elements() == 1;
}

Shape shape_of(const Extents& extents) { return {extents.begin(), extents.end()}; }

// The op on these tensors alone; nullopt: there is no such op, its result is large, or it fails.
std::optional<Tensor> evaluated(ir::Op op, const std::vector<Tensor>& operands, ir::Attrs attrs) {
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<ir::Type> types;
  for (const Tensor& operand : operands) {
    inputs.push_back(add_constant(graph, operand));
    types.push_back(graph.type(inputs.back()));
  }
  const Result<ir::Type> type = infer_type(op, types, attrs);
  if (!type.ok() || !is_const(type->shape) || num_elements(type->shape).value() > kMaxElements) return std::nullopt;
  const ValueId out = add_node(graph, op, std::move(inputs), std::move(attrs));
  Result<Tensor> value = evaluate_node(graph, *graph.producer(out), operands);
  if (!value.ok()) return std::nullopt;
  return std::move(value).value();
}

std::optional<Tensor> reshaped(const Tensor& tensor, const Extents& to) {
  return tensor.shape() == to ? tensor : evaluated(TensorOp::reshape, {tensor}, {{"shape", shape_of(to)}});
}
std::optional<Tensor> repeated(const Tensor& tensor, const Extents& to) {
  return tensor.shape() == to ? tensor : evaluated(TensorOp::broadcast, {tensor}, {{"shape", shape_of(to)}});
}

bool are_equal(const Tensor& tensor, int64_t a, int64_t b) {
  const auto size = static_cast<int64_t>(size_of(tensor.dtype()));
  const char* const data = tensor.as<char>();
  return std::memcmp(data + a * size, data + b * size, static_cast<std::size_t>(size)) == 0;
}

// One element instead of many equal ones.
KnownValue shrunk(std::optional<Tensor> tensor) {
  if (!tensor || tensor->num_elements() == 0) return {};
  for (int64_t i = 1; i < tensor->num_elements(); ++i)
    if (!are_equal(*tensor, 0, i)) return *std::move(tensor);
  const Extents ones(tensor->shape().size(), 1);
  if (tensor->num_elements() > 1) {
    tensor = evaluated(TensorOp::slice, {*tensor},
                       {{"starts", Shape(ones.size(), Dim(0))}, {"sizes", shape_of(ones)}, {"steps", ones}});
    if (!tensor) return {};
  }
  return *std::move(tensor);
}

// Element i, as a tensor of rank 0.
std::optional<Tensor> element(const Tensor& tensor, int64_t i) {
  Result<Tensor> one = Tensor::make(tensor.dtype(), {});
  if (!one.ok()) return std::nullopt;
  const std::size_t size = size_of(tensor.dtype());
  std::memcpy(one->data(), tensor.as<char>() + static_cast<std::size_t>(i) * size, size);
  return std::move(one).value();
}

// A matrix with one element up to its diagonal and another behind it, which may be cut at extents that are not known.
KnownValue as_choice(const Tensor& tensor) {
  const Extents& shape = tensor.shape();
  const std::size_t rank = shape.size();
  if (rank < 2 || shape[rank - 1] < 2 || shape[rank - 2] < 2) return {};
  const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  if (tensor.num_elements() != rows * columns || are_equal(tensor, 0, 1)) return {};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      if (!are_equal(tensor, i * columns + j, j <= i ? 0 : 1)) return {};
  }
  IndexChoice choice{{0, Extents(rank, 0)}, *element(tensor, 0), *element(tensor, 1)};
  choice.at.steps[rank - 2] = 1, choice.at.steps[rank - 1] = -1;
  return choice;
}

// f of the index sum inside, if there is one.
template <class F>
KnownValue with_index(KnownValue v, const F& f) {
  if (auto* sum = std::get_if<IndexSum>(&v)) return f(*sum) ? std::move(v) : KnownValue{};
  if (auto* choice = std::get_if<IndexChoice>(&v)) return f(choice->at) ? std::move(v) : KnownValue{};
  return {};
}

bool fits(int64_t x) { return x >= -kMaxTerm && x <= kMaxTerm; }
// A sum of extents, each times a small number.
bool is_small(const Dim& dim) {
  const std::vector<Dim::Term> terms = dim.terms();
  return std::all_of(terms.begin(), terms.end(), [](const Dim::Term& term) {
    return fits(term.coefficient) && term.atoms.size() <= 1 &&
           (term.atoms.empty() || term.atoms[0].fn == Dim::Fn::symbol);
  });
}
bool is_small(const IndexSum& sum) {
  return is_small(sum.offset) && std::all_of(sum.steps.begin(), sum.steps.end(), fits);
}

IndexSum plus(const IndexSum& a, const IndexSum& b, int64_t times) {
  IndexSum sum = a;
  sum.offset += Dim(times) * b.offset;
  for (std::size_t i = 0; i < sum.steps.size(); ++i) sum.steps[i] += times * b.steps[i];
  return sum;
}

// Whether the sum is known to be at least 0 at the index where it is largest along the axes of `most` and least along
// the others.
bool is_not_negative(const IndexSum& sum, const Shape& shape, const std::vector<bool>& most) {
  Dim at = sum.offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (sum.steps[i] == 0 || (sum.steps[i] > 0) != most[i]) continue;
    if (!is_small(shape[i])) return false;
    at += Dim(sum.steps[i]) * (shape[i] - 1);
  }
  return proves_nonneg(at, {});
}

bool is_counter(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

class Derivation {
 public:
  Derivation(const Graph& graph, const Node& node, std::vector<KnownValue> operands)
      : graph_(graph), node_(node), in_(std::move(operands)), shape_(graph.type(node.output).shape) {}

  KnownValue run() {
    if (node_.op.is_scalar()) return scalar_op();
    switch (node_.op.tensor()) {
      case TensorOp::iota:
        return iota();
      case TensorOp::dim:
        return dim();
      case TensorOp::broadcast:
        return with_rank(in_[0], shape_.size());
      case TensorOp::reshape:
        return reshape();
      case TensorOp::transpose:
        return transpose();
      case TensorOp::slice:
        return slice();
      case TensorOp::concat:
        return concat();
      case TensorOp::cumsum:
        return cumsum();
      case TensorOp::reduce_max:
        return reduce_max();
      case TensorOp::gather:
      case TensorOp::gather_elements:
      case TensorOp::gather_nd:
        return gather();
      default:
        return {};
    }
  }

 private:
  const Shape& in_shape(std::size_t i) const { return graph_.type(node_.inputs[i]).shape; }

  KnownValue iota() const {
    const auto axis = static_cast<std::size_t>(node_.attrs.i("axis"));
    if (!is_counter(graph_.type(node_.output).dtype)) return {};
    IndexSum sum{0, Extents(shape_.size(), 0)};
    if (!shape_[axis].is(1)) sum.steps[axis] = 1;
    return sum;
  }

  KnownValue dim() const {
    IndexSum sum{node_.attrs.dims("value")[0], {}};
    return is_counter(graph_.type(node_.output).dtype) && is_small(sum) ? KnownValue(std::move(sum)) : KnownValue{};
  }

  // With axes in front along which it does not change.
  static KnownValue with_rank(KnownValue v, std::size_t rank) {
    if (const auto* tensor = std::get_if<Tensor>(&v)) {
      Extents to = tensor->shape();
      to.insert(to.begin(), rank - to.size(), 1);
      if (auto made = reshaped(*tensor, to)) return *std::move(made);
      return {};
    }
    return with_index(std::move(v), [=](IndexSum& sum) {
      sum.steps.insert(sum.steps.begin(), rank - sum.steps.size(), 0);
      return true;
    });
  }

  // With the extents of operand i wherever they are known.
  std::optional<Tensor> filled(const Tensor& tensor, std::size_t i) const {
    Extents to(tensor.shape());
    for (std::size_t axis = 0; axis < to.size(); ++axis)
      if (const Dim& extent = in_shape(i)[axis]; extent.is_const()) to[axis] = extent.value();
    return repeated(tensor, to);
  }

  // Extents between those that are not known are merged and split among themselves.
  KnownValue reshape() const {
    const Shape& from = in_shape(0);
    if (is_one_element(in_[0])) {
      if (auto one = reshaped(std::get<Tensor>(in_[0]), Extents(shape_.size(), 1))) return *std::move(one);
      return {};
    }
    if (const auto* tensor = std::get_if<Tensor>(&in_[0])) {
      if (runs(from) != runs(shape_)) return {};
      const auto full = filled(*tensor, 0);
      Extents to(shape_.size(), 1);
      for (std::size_t i = 0; i < to.size(); ++i)
        if (shape_[i].is_const()) to[i] = shape_[i].value();
      return full ? shrunk(reshaped(*full, to)) : KnownValue{};
    }
    return with_index(in_[0], [&](IndexSum& sum) {
      Extents steps(shape_.size(), 0);
      std::size_t next = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i].is(1)) continue;
        while (next < shape_.size() && shape_[next].is(1)) ++next;
        if (next == shape_.size() || !(shape_[next] == from[i])) return false;
        steps[next++] = sum.steps[i];
      }
      sum.steps = steps;
      return true;
    });
  }

  // The extents that are not known, and the products of those between them.
  static Shape runs(const Shape& shape) {
    Shape out{Dim(1)};
    for (const Dim& extent : shape) {
      if (extent.is_const()) {
        out.back() = out.back() * extent;
      } else {
        out.push_back(extent);
        out.emplace_back(1);
      }
    }
    return out;
  }

  KnownValue transpose() const {
    const Extents& perm = node_.attrs.ints("perm");
    if (const auto* tensor = std::get_if<Tensor>(&in_[0])) {
      if (auto made = evaluated(node_.op, {*tensor}, node_.attrs)) return *std::move(made);
      return {};
    }
    return with_index(in_[0], [&](IndexSum& sum) {
      Extents steps;
      for (const int64_t axis : perm) steps.push_back(sum.steps[static_cast<std::size_t>(axis)]);
      sum.steps = steps;
      return true;
    });
  }

  KnownValue slice() const {
    const Shape &starts = node_.attrs.dims("starts"), &sizes = node_.attrs.dims("sizes");
    const Extents& steps = node_.attrs.ints("steps");
    KnownValue from = in_[0];
    if (const auto* tensor = std::get_if<Tensor>(&from)) {
      Shape start(starts.size(), Dim(0)), size(starts.size(), Dim(1));
      Extents step(starts.size(), 1);
      bool is_known = true;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        if (tensor->shape()[i] == 1) continue;  // the same everywhere
        is_known = is_known && starts[i].is_const() && sizes[i].is_const();
        start[i] = starts[i], size[i] = sizes[i], step[i] = steps[i];
      }
      if (is_known)
        return shrunk(evaluated(node_.op, {*tensor}, {{"starts", start}, {"sizes", size}, {"steps", step}}));
      from = as_choice(*tensor);
    }
    return with_index(std::move(from), [&](IndexSum& sum) {
      for (std::size_t i = 0; i < starts.size(); ++i) {
        if (sum.steps[i] == 0) continue;
        if (!is_small(starts[i]) || !fits(steps[i])) return false;
        sum.offset += Dim(sum.steps[i]) * starts[i];
        sum.steps[i] = sizes[i].is(1) ? 0 : sum.steps[i] * steps[i];
      }
      return is_small(sum);
    });
  }

  KnownValue concat() const {
    const auto axis = static_cast<std::size_t>(node_.attrs.i("axis"));
    std::vector<Tensor> parts;
    Extents common(shape_.size(), 1);
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const auto part = tensor(i);
      if (!part || !in_shape(i)[axis].is_const()) return {};
      for (std::size_t k = 0; k < common.size(); ++k) common[k] = std::max(common[k], part->shape()[k]);
      parts.push_back(*part);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      common[axis] = in_shape(i)[axis].value();
      const auto part = repeated(parts[i], common);
      if (!part) return {};
      parts[i] = *part;
    }
    return shrunk(evaluated(node_.op, parts, node_.attrs));
  }

  KnownValue cumsum() const {
    const auto axis = static_cast<std::size_t>(node_.attrs.i("axis"));
    auto from = tensor(0);
    if (!from || !shape_[axis].is_const()) return {};
    Extents to = from->shape();
    to[axis] = shape_[axis].value();
    from = repeated(*from, to);
    return from ? shrunk(evaluated(node_.op, {*from}, node_.attrs)) : KnownValue{};
  }

  KnownValue reduce_max() const {
    const Extents& axes = node_.attrs.ints("axes");
    for (const int64_t axis : axes)
      if (in_shape(0)[static_cast<std::size_t>(axis)].is(0)) return {};
    if (KnownValue largest = largest_choice(axes); !is_unknown(largest)) return largest;
    const auto from = tensor(0);
    return from ? shrunk(evaluated(node_.op, {*from}, node_.attrs)) : KnownValue{};
  }

  // The larger element of a choice, if it is chosen somewhere along the axes wherever one stands on the others.
  KnownValue largest_choice(const Extents& axes) const {
    const auto* const choice = std::get_if<IndexChoice>(&in_[0]);
    if (choice == nullptr) return {};
    const double yes = ir::load_double(choice->yes.dtype(), choice->yes.data()),
                 no = ir::load_double(choice->no.dtype(), choice->no.data());
    if (std::isnan(yes) || std::isnan(no)) return {};
    const IndexSum at = yes >= no ? choice->at : negated(choice->at);
    std::vector<bool> most(at.steps.size(), false);
    for (const int64_t axis : axes) most[static_cast<std::size_t>(axis)] = true;
    if (!is_not_negative(at, in_shape(0), most)) return {};
    if (auto one = reshaped(yes >= no ? choice->yes : choice->no, Extents(shape_.size(), 1))) return *std::move(one);
    return {};
  }

  // Whatever is read of equal elements is that element.
  KnownValue gather() const {
    if (!is_one_element(in_[0])) return {};
    if (auto one = reshaped(std::get<Tensor>(in_[0]), Extents(shape_.size(), 1))) return *std::move(one);
    return {};
  }

  KnownValue scalar_op() {
    for (KnownValue& v : in_)
      if (is_unknown(v = with_rank(std::move(v), shape_.size()))) return {};
    if (KnownValue choice = choice_op(); !is_unknown(choice)) return choice;
    if (KnownValue sum = sum_op(); !is_unknown(sum)) return sum;
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const auto operand = tensor(i);
      if (!operand) return {};
      operands.push_back(*operand);
    }
    return shrunk(evaluated(node_.op, operands, node_.attrs));
  }

  // Choices by one index sum, and elements that are the same everywhere: the op on both sides of the choice.
  KnownValue choice_op() const {
    std::optional<IndexSum> at;
    std::vector<Tensor> yes, no;
    for (const KnownValue& v : in_) {
      if (const auto* choice = std::get_if<IndexChoice>(&v)) {
        if (at && !(*at == choice->at)) return {};
        at = choice->at;
        yes.push_back(choice->yes), no.push_back(choice->no);
      } else if (is_one_element(v)) {
        const auto one = reshaped(std::get<Tensor>(v), {});
        if (!one) return {};
        yes.push_back(*one), no.push_back(*one);
      } else {
        return {};
      }
    }
    if (!at) return {};
    auto made = evaluated(node_.op, yes, node_.attrs), other = evaluated(node_.op, no, node_.attrs);
    if (!made || !other) return {};
    return IndexChoice{*at, *std::move(made), *std::move(other)};
  }

  KnownValue sum_op() const {
    std::vector<IndexSum> sums;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (!is_counter(graph_.type(node_.inputs[i]).dtype)) return {};
      if (const auto* sum = std::get_if<IndexSum>(&in_[i])) {
        sums.push_back(*sum);
      } else if (is_one_element(in_[i])) {
        const auto& one = std::get<Tensor>(in_[i]);
        sums.push_back({ir::load_int(one.dtype(), one.data()), Extents(shape_.size(), 0)});
        if (!is_small(sums.back())) return {};
      } else {
        return {};
      }
    }
    const auto small = [](IndexSum sum) { return is_small(sum) ? KnownValue(std::move(sum)) : KnownValue{}; };
    switch (node_.op.scalar()) {
      case ScalarOp::add:
        return small(plus(sums[0], sums[1], 1));
      case ScalarOp::sub:
        return small(plus(sums[0], sums[1], -1));
      case ScalarOp::neg:
        return small(plus({0, Extents(shape_.size(), 0)}, sums[0], -1));
      case ScalarOp::cast:
        return is_counter(graph_.type(node_.output).dtype) ? small(sums[0]) : KnownValue{};
      case ScalarOp::ge:
        return where_not_negative(plus(sums[0], sums[1], -1));
      case ScalarOp::le:
        return where_not_negative(plus(sums[1], sums[0], -1));
      case ScalarOp::gt:
        return where_not_negative(plus(plus(sums[0], sums[1], -1), {1, Extents(shape_.size(), 0)}, -1));
      case ScalarOp::lt:
        return where_not_negative(plus(plus(sums[1], sums[0], -1), {1, Extents(shape_.size(), 0)}, -1));
      default:
        return {};
    }
  }

  // One element where the sum has one sign at every index.
  KnownValue where_not_negative(IndexSum at) const {
    Result<Tensor> yes = Tensor::make(DType::bool_, {}), no = Tensor::make(DType::bool_, {});
    if (!yes.ok() || !no.ok() || !is_small(at)) return {};
    *yes->as<uint8_t>() = 1;
    const std::vector<bool> least(shape_.size(), false);
    for (const bool is_yes : {true, false}) {
      if (!is_not_negative(is_yes ? at : negated(at), shape_, least)) continue;
      if (auto one = reshaped(is_yes ? *yes : *no, Extents(shape_.size(), 1))) return *std::move(one);
    }
    return IndexChoice{std::move(at), std::move(yes).value(), std::move(no).value()};
  }

  // Operand i as a tensor, if the extents on which it depends are known.
  std::optional<Tensor> tensor(std::size_t i) const {
    if (const auto* known = std::get_if<Tensor>(&in_[i])) return *known;
    const auto* choice = std::get_if<IndexChoice>(&in_[i]);
    const auto* sum = choice != nullptr ? &choice->at : std::get_if<IndexSum>(&in_[i]);
    if (sum == nullptr || !sum->offset.is_const()) return std::nullopt;
    const Shape& shape = in_shape(i);
    const std::size_t missing = sum->steps.size() - shape.size();  // after with_rank
    Extents extents(sum->steps.size(), 1);
    Dim count(1);
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      if (sum->steps[axis] == 0) continue;
      const Dim& extent = shape[axis - missing];
      if (!extent.is_const()) return std::nullopt;
      extents[axis] = extent.value();
      count = count * extent;
      if (count.value() > kMaxElements) return std::nullopt;
    }
    const DType dtype = graph_.type(node_.inputs[i]).dtype;
    Result<Tensor> made = Tensor::make(dtype, extents);
    if (!made.ok()) return std::nullopt;
    const std::size_t size = size_of(dtype);
    Extents at(extents.size(), 0);
    for (int64_t n = 0; n < made->num_elements(); ++n) {
      int64_t value = sum->offset.value();
      for (std::size_t axis = 0; axis < at.size(); ++axis) value += at[axis] * sum->steps[axis];
      char* const to = made->as<char>() + static_cast<std::size_t>(n) * size;
      if (choice != nullptr) {
        std::memcpy(to, (value >= 0 ? choice->yes : choice->no).data(), size);
      } else {
        ir::store_int(dtype, to, value);
      }
      for (std::size_t axis = at.size(); axis-- > 0 && ++at[axis] == extents[axis];) at[axis] = 0;
    }
    return std::move(made).value();
  }

  const Graph& graph_;
  const Node& node_;
  std::vector<KnownValue> in_;
  const Shape& shape_;
};

}  // namespace

IndexSum negated(IndexSum sum) {
  sum.offset = -sum.offset - 1;
  for (int64_t& step : sum.steps) step = -step;
  return sum;
}

const KnownValue& KnownValues::find(ValueId v, int depth) {
  const auto at = found_.find(v);
  if (at != found_.end()) return at->second;
  return found_[v] = derive(v, depth);
}

KnownValue KnownValues::derive(ValueId v, int depth) {
  if (const Tensor* data = graph_.constant(v)) {
    if (!data->is_contiguous() || data->num_elements() > kMaxElements) return {};
    return shrunk(*data);
  }
  const Node* const node = graph_.producer(v);
  if (node == nullptr || depth == kMaxDepth) return {};
  const bool reads_indices =
      node->op == TensorOp::gather || node->op == TensorOp::gather_elements || node->op == TensorOp::gather_nd;
  std::vector<KnownValue> operands;
  for (std::size_t i = 0; i < (reads_indices ? 1 : node->inputs.size()); ++i) {
    operands.push_back(find(node->inputs[i], depth + 1));
    if (is_unknown(operands.back())) return {};
  }
  return Derivation(graph_, *node, std::move(operands)).run();
}

}  // namespace fusec::compiler
