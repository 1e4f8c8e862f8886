// SPDX-License-Identifier: Apache-2.0
// Makes the operands of an attention node: reshapes are moved in front of transposes, so that heads are strided views
// of what the projections wrote.

#include "compiler/passes/attention_operands.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/partition/domain.h"
#include "compiler/passes/causal_mask.h"
#include "compiler/passes/map_order.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

constexpr int kMaxMaps = 16;
constexpr double kMinHalf = -65504;
constexpr double kSmall = 1e4;  // of a mask that is no sign of a dropped score

bool is_map(const Node& node) {
  if (node.op.is_scalar()) return false;
  const TensorOp op = node.op.tensor();
  return op == TensorOp::broadcast || op == TensorOp::reshape || op == TensorOp::transpose || op == TensorOp::slice;
}

std::vector<int64_t> swapped_perm(std::size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

Shape swapped(Shape shape, bool swap) {
  if (swap) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

Shape front_of(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

// With axes of extent 1 in front.
Shape padded(Shape shape, std::size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), Dim(1));
  return shape;
}

Dim count(Shape::const_iterator begin, Shape::const_iterator end) {
  Dim n(1);
  for (; begin != end; ++begin) n = n * *begin;
  return n;
}

bool is_zero_everywhere(const Tensor& tensor) {
  const auto size = static_cast<int64_t>(size_of(tensor.dtype()));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    if (ir::load_double(tensor.dtype(), tensor.as<char>() + i * size) != 0) return false;
  return true;
}
}  // namespace

ValueId AttentionOperands::node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs) {
  return add_node(graph_, op, std::move(inputs), std::move(attrs), origin_);
}

std::optional<double> AttentionOperands::number(ValueId v) const {
  const Tensor* data = graph_.constant(v);
  if (data == nullptr || data->num_elements() != 1 || !is_float(data->dtype())) return std::nullopt;
  return ir::load_double(data->dtype(), data->data());
}

AttentionOperands::Peeled AttentionOperands::peeled(ValueId v) const {
  Peeled found{v, {}, 1};
  std::vector<NodeId> maps;
  double factor = 1;
  for (int step = 0; step < kMaxMaps; ++step) {
    const Node* node = graph_.producer(v);
    if (node == nullptr) break;
    if (is_map(*node)) {
      maps.push_back(graph_.values[v].producer);
      v = node->inputs[0];
      continue;
    }
    if (node->op == ScalarOp::mul || node->op == ScalarOp::div) {
      const bool first = shape(node->inputs[0]) == shape(node->output);
      const std::optional<double> by = number(node->inputs[first ? 1 : 0]);
      const bool divides = node->op == ScalarOp::div;
      if (!by || !(shape(node->inputs[first ? 0 : 1]) == shape(node->output)) || (divides && (!first || *by == 0)))
        break;
      factor *= divides ? 1 / *by : *by;
      v = node->inputs[first ? 0 : 1];
    } else {
      break;
    }
    found = {v, maps, factor};
  }
  return found;
}

std::optional<AttentionOperands::Heads> AttentionOperands::find_heads(const AttentionParts& parts, const Shape& key,
                                                                      const Shape& value) const {
  const Shape front = front_of(parts.scores);
  const std::size_t rank = front.size();
  if (key.size() > rank || value.size() > rank) return std::nullopt;
  const Shape k = padded(key, rank), v = padded(value, rank);
  if (!(k == v)) return std::nullopt;
  if (k == front) {
    Shape split = front;
    const auto use = [&](const Shape& other) {
      if (split.size() != 2 && other.size() == 2) split = other;
    };
    use(front_of(parts.out.shape));
    for (const AttentionMask& mask : parts.masks) use(front_of(mask.at));
    if (const Node* made = graph_.producer(parts.query); made != nullptr && made->op == TensorOp::reshape) {
      const Shape& from = shape(made->inputs[0]);
      const Shape& to = shape(made->output);
      if (from.size() == 4 && from[2] == to[to.size() - 2] && from[3] == to.back()) use(front_of(from));
    }
    if (split.empty()) return Heads{1, 1, 1};
    if (split.size() == 1) return Heads{split[0], 1, 1};
    return Heads{count(split.begin(), split.end() - 1), split.back(), split.back()};
  }
  // One head of k and v for all of the last axis.
  if (!k.back().is(1) || !std::equal(k.begin(), k.end() - 1, front.begin())) return std::nullopt;
  if (!front.back().is_const()) return std::nullopt;
  if (rank <= 2 || !front[rank - 2].is_const()) return Heads{count(front.begin(), front.end() - 1), front.back(), 1};
  return Heads{count(front.begin(), front.end() - 2), front[rank - 2] * front[rank - 1], front[rank - 2]};
}

ValueId AttentionOperands::rebuilt(const Peeled& from) {
  ValueId v = from.base;
  for (auto map = from.maps.rbegin(); map != from.maps.rend(); ++map) {
    const Node old = graph_.nodes[*map];
    if (old.inputs[0] == v) {
      v = old.output;
      continue;
    }
    v = node(old.op, {v}, old.attrs);
  }
  return v;
}

ValueId AttentionOperands::transposed(ValueId v, std::vector<int64_t> perm) {
  return compiler::transposed(graph_, v, std::move(perm), origin_);
}

ValueId AttentionOperands::viewed(ValueId v, const Shape& to) { return reshaped(graph_, v, to, origin_); }

// The operand with the axes `to`. `front`: those in front of its matrices before.
ValueId AttentionOperands::operand(const Peeled& from, bool transpose, const Shape& front, const Shape& to) {
  ValueId v = rebuilt(from);
  if (transpose) v = transposed(v, swapped_perm(shape(v).size()));
  Shape whole = front;
  whole.insert(whole.end(), shape(v).end() - 2, shape(v).end());
  if (!(count(whole.begin(), whole.end()) == count(shape(v).begin(), shape(v).end())))
    v = node(TensorOp::broadcast, {v}, {{"shape", whole}});
  return viewed(v, to);
}

// reshape(broadcast(x: [N, G, 1, T, D] -> [N, G, R, T, D]) -> [N, G * R, T, D]): G
std::optional<Dim> AttentionOperands::sharing(ValueId v) const {
  const Node* merge = graph_.producer(v);
  if (merge == nullptr || !(merge->op == TensorOp::reshape)) return std::nullopt;
  const Node* repeat = graph_.producer(merge->inputs[0]);
  if (repeat == nullptr || !(repeat->op == TensorOp::broadcast)) return std::nullopt;
  const Shape& to = shape(repeat->output);
  if (to.size() != 5 || !(to[1] * to[2] == shape(v)[1]) || !(to[0] == shape(v)[0])) return std::nullopt;
  Shape expected = to;
  expected[2] = Dim(1);
  if (!(padded(shape(repeat->inputs[0]), 5) == expected) || !to[1].is_const() || !to[2].is_const()) return std::nullopt;
  return to[1];
}

ValueId AttentionOperands::unshared(ValueId v, const Dim& shared) {
  const ValueId x = graph_.producer(graph_.producer(v)->inputs[0])->inputs[0];
  return viewed(x, {shape(v)[0], shared, shape(v)[2], shape(v)[3]});
}

std::optional<ValueId> AttentionOperands::build(const AttentionParts& parts,
                                                const std::function<bool(const ir::AttentionShape&)>& is_computed) {
  const Peeled query = peeled(parts.query), key = peeled(parts.key);
  const DType dtype = parts.out.dtype;
  for (const ValueId v : {query.base, key.base, parts.value})
    if (graph_.type(v).dtype != dtype) return std::nullopt;
  const Shape q = swapped(shape(parts.query), parts.transpose_query),
              k = swapped(shape(parts.key), parts.transpose_key);
  if (shape(parts.value).size() < 2) return std::nullopt;
  const Shape v = swapped(shape(parts.value), parts.transpose_value);
  const std::optional<Heads> found = find_heads(parts, front_of(k), front_of(v));
  if (!found) return std::nullopt;
  Heads heads = *found;
  const Dim keys = k[k.size() - 2], channels = q.back(), values = v.back();
  const bool causal = is_causal(parts);
  const bool masked =
      !causal && !std::all_of(parts.masks.begin(), parts.masks.end(), [&](const auto& m) { return is_zero(m); });
  for (const AttentionMask& mask : parts.masks) {
    if (masked && !is_zero(mask) &&
        (!fits(mask, heads) || (mask.value.valid() && graph_.type(mask.value).dtype != dtype)))
      return std::nullopt;
  }
  const Dim queries = q[q.size() - 2];
  if (!sums_fit(parts) || !is_computed({dtype, channels, values, keys, masked, heads.batch * heads.heads, queries}))
    return std::nullopt;

  origin_ = parts.origin;
  const Shape front = front_of(parts.scores);
  const Peeled value{parts.value, {}, 1};
  ValueId query4 = operand(query, parts.transpose_query, front, {heads.batch, heads.heads, queries, channels});
  ValueId key4 = operand(key, parts.transpose_key, front_of(k), {heads.batch, heads.shared, keys, channels});
  ValueId value4 = operand(value, parts.transpose_value, front_of(v), {heads.batch, heads.shared, keys, values});
  const std::optional<Dim> shared = sharing(key4), shared_values = sharing(value4);
  if (shared && shared_values && *shared == *shared_values && heads.shared == heads.heads) {
    key4 = unshared(key4, *shared);
    value4 = unshared(value4, *shared);
  }
  std::vector<ValueId> inputs{query4, key4, value4};
  ValueId sum;
  for (const AttentionMask& mask : parts.masks) {
    if (!masked || is_zero(mask)) continue;
    const ValueId next = addend(mask, heads, dtype);
    if (sum.valid()) {
      sum = node(ScalarOp::add, {sum, next});
      if (dtype == DType::f16) sum = node(ScalarOp::max, {sum, add_scalar_constant(graph_, dtype, kMinHalf)});
    } else {
      sum = next;
    }
  }
  if (sum.valid()) {
    Shape row = padded(shape(sum), 4);  // the library reads rows of keys
    row[3] = keys;
    if (!(row == padded(shape(sum), 4))) sum = node(TensorOp::broadcast, {sum}, {{"shape", row}});
    inputs.push_back(sum);
  }
  const double scale = parts.scale * query.factor * key.factor;
  ValueId out = node(TensorOp::attention, std::move(inputs), {{"scale", scale}, {"causal", int64_t{causal}}});
  if (!(shape(out) == parts.out.shape)) out = node(TensorOp::reshape, {out}, {{"shape", parts.out.shape}});
  if (!parts.zeroed.valid()) return out;
  return node(ScalarOp::where, {parts.zeroed, add_scalar_constant(graph_, dtype, 0), out});
}

// Whether the axes in front of the mask's matrices can be made those of the op.
bool AttentionOperands::fits(const AttentionMask& mask, const Heads& heads) const {
  const Shape front = front_of(mask.at), to{heads.batch, heads.heads};
  return front == to || factorize({front, to}).has_value();
}

ValueId AttentionOperands::addend(const AttentionMask& mask, const Heads& heads, DType dtype) {
  ValueId v = mask.value;
  if (!v.valid()) {
    // A condition that drops scores needs no more than the least number of the type.
    const double least = dtype == DType::f16 ? kMinHalf : -0x1.FEp127;
    const double low = std::isinf(mask.low) ? mask.low : std::max(mask.low, least);
    const ValueId zero = add_scalar_constant(graph_, dtype, 0), other = add_scalar_constant(graph_, dtype, low);
    v = node(ScalarOp::where, {mask.condition, mask.zero_where ? zero : other, mask.zero_where ? other : zero});
  } else if (mask.scale != 1) {
    v = node(ScalarOp::mul, {v, add_scalar_constant(graph_, dtype, mask.scale)});
  }
  return with_heads(v, mask.at, heads);
}

// Axes in front of the matrices are split and merged; those along which the mask is constant stay of extent 1.
ValueId AttentionOperands::with_heads(ValueId mask, const Shape& at, const Heads& heads) {
  const Shape front = front_of(at), to{heads.batch, heads.heads};
  if (front == to || shape(mask).size() <= 2) return mask;
  const Shape own = padded(shape(mask), at.size());
  const auto common = factorize({front, to});
  Shape fine;  // the mask's extents along the factors
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < front.size(); ++axis) {
    for (int i = 0; i < common->groups[0][axis]; ++i, ++next)
      fine.push_back(own[axis].is(1) ? Dim(1) : common->factors[next]);
  }
  Shape filled, merged;
  next = 0;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    const auto n = static_cast<std::size_t>(common->groups[1][axis]);
    const bool is_constant =
        std::all_of(fine.begin() + static_cast<std::ptrdiff_t>(next),
                    fine.begin() + static_cast<std::ptrdiff_t>(next + n), [](const Dim& d) { return d.is(1); });
    Dim extent(1);
    for (std::size_t i = next; i < next + n; ++i) {
      filled.push_back(is_constant ? Dim(1) : common->factors[i]);
      extent = extent * filled.back();
    }
    merged.push_back(extent);
    next += n;
  }
  for (Shape* s : {&fine, &filled, &merged}) s->insert(s->end(), own.end() - 2, own.end());
  ValueId v = viewed(mask, fine);
  if (!(fine == filled)) v = node(TensorOp::broadcast, {v}, {{"shape", filled}});
  return filled == merged ? v : node(TensorOp::reshape, {v}, {{"shape", merged}});
}

std::optional<bool> AttentionOperands::splat(ValueId condition) {
  if (const auto* known = std::get_if<Tensor>(&values_.of(condition)); known != nullptr && known->num_elements() == 1)
    return ir::load_double(known->dtype(), known->data()) != 0;
  for (const Node* made = graph_.producer(condition); made != nullptr && is_map(*made);
       made = graph_.producer(condition))
    condition = made->inputs[0];
  const Tensor* data = graph_.constant(condition);
  if (data == nullptr || data->dtype() != DType::bool_ || !data->is_contiguous() || data->num_elements() == 0)
    return std::nullopt;
  const auto* first = static_cast<const uint8_t*>(data->data());
  const uint8_t* const end = first + data->num_elements();
  const bool value = *first != 0;
  if (std::any_of(first, end, [=](uint8_t b) { return (b != 0) != value; })) return std::nullopt;
  return value;
}

bool AttentionOperands::keeps_a_score(ValueId condition, bool value) {
  if (splat(condition) == value) return true;
  const Tensor* data = graph_.constant(condition);
  for (const Node* made = graph_.producer(condition); data == nullptr && made != nullptr;
       made = graph_.producer(made->inputs[0])) {
    if (!(made->op == TensorOp::broadcast) || !(shape(made->inputs[0]).back() == shape(made->output).back())) break;
    data = graph_.constant(made->inputs[0]);
  }
  if (data == nullptr || data->dtype() != DType::bool_ || !data->is_contiguous() || data->shape().empty()) return false;
  const int64_t row = data->shape().back(), rows = row == 0 ? 0 : data->num_elements() / row;
  if (row < 2) return false;  // one value for all of a row, which is no splat
  const auto* bytes = static_cast<const uint8_t*>(data->data());
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* const first = bytes + r * row;
    if (std::none_of(first, first + row, [=](uint8_t b) { return (b != 0) == value; })) return false;
  }
  return true;
}

bool AttentionOperands::is_zero(ValueId v) {
  for (int step = 0; step < kMaxMaps; ++step) {
    const Node* made = graph_.producer(v);
    if (made == nullptr) break;
    if (is_map(*made) || made->op == ScalarOp::cast) {
      v = made->inputs[0];
    } else if (made->op == ScalarOp::where) {
      const std::optional<bool> chosen = splat(made->inputs[0]);
      if (!chosen) break;
      v = made->inputs[*chosen ? 1 : 2];
    } else {
      break;
    }
  }
  const KnownValue& known = values_.of(v);
  if (const auto* choice = std::get_if<IndexChoice>(&known))
    return is_zero_everywhere(choice->yes) && is_zero_everywhere(choice->no);
  const auto* tensor = std::get_if<Tensor>(&known);
  return tensor != nullptr && is_zero_everywhere(*tensor);
}

bool AttentionOperands::is_small(const AttentionMask& mask) const {
  if (!mask.value.valid()) return std::abs(mask.low) <= kSmall;
  ValueId v = mask.value;
  for (const Node* made = graph_.producer(v); made != nullptr && is_map(*made); made = graph_.producer(v))
    v = made->inputs[0];
  const Tensor* data = graph_.constant(v);
  if (data == nullptr || !is_float(data->dtype()) || !data->is_contiguous()) return false;
  const auto size = static_cast<int64_t>(size_of(data->dtype()));
  for (int64_t i = 0; i < data->num_elements(); ++i) {
    const double x = ir::load_double(data->dtype(), static_cast<const char*>(data->data()) + i * size);
    if (!(std::abs(x) <= kSmall)) return false;
  }
  return true;
}

// In f16, the sum of two masks of the least number would be -infinity, which is something else where it fills a row.
bool AttentionOperands::sums_fit(const AttentionParts& parts) {
  const auto large = std::count_if(parts.masks.begin(), parts.masks.end(),
                                   [&](const AttentionMask& m) { return !is_zero(m) && !is_small(m); });
  return large <= 1 || parts.out.dtype != DType::f16;
}

bool AttentionOperands::is_causal(ValueId condition, bool value, const Shape& at) {
  return compiler::is_causal(
      values_, condition, at[at.size() - 2], at.back(), [=](double x) { return (x != 0) == value; },
      [=](double x) { return (x != 0) != value; });
}

bool AttentionOperands::is_causal(const AttentionMask& mask) {
  if (!mask.value.valid()) return is_causal(mask.condition, mask.zero_where, mask.at);
  return compiler::is_causal(
      values_, mask.value, mask.at[mask.at.size() - 2], mask.at.back(), [](double x) { return x == 0; },
      [&](double x) { return x * mask.scale <= kLowestScore; });
}

// Whether one mask, which is causal, is all that is added to the scores.
bool AttentionOperands::is_causal(const AttentionParts& parts) {
  const AttentionMask* only = nullptr;
  for (const AttentionMask& mask : parts.masks) {
    if (is_zero(mask)) continue;
    if (only != nullptr) return false;
    only = &mask;
  }
  return only != nullptr && is_causal(*only);
}

bool AttentionOperands::is_zero(const AttentionMask& mask) {
  return mask.value.valid() ? is_zero(mask.value) : splat(mask.condition) == mask.zero_where;
}

}  // namespace fusec::compiler
