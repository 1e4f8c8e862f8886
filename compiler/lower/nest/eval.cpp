// SPDX-License-Identifier: Apache-2.0
// Lower: emits the statements that compute graph values at given coordinates. It decides where f16 and bf16 values are
// rounded, and guards or clamps loads whose index may be out of range.

#include "compiler/lower/nest/eval.h"

#include <algorithm>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "ir/ops/cast.h"
#include "ir/ops/op.h"
#include "ir/support/check.h"

namespace fusec::compiler {

using ir::Constant;

namespace {

// Whether an op needs operands that are rounded to their own type, because its result depends on their last bit.
bool needs_rounded(ScalarOp op) { return has(op, ir::OpFlag::discontinuous); }

// Whether f32 represents every number of the type.
bool fits_f32(DType dtype) { return size_of(dtype) <= 2 || dtype == DType::f32; }

Operand number(DType dtype, double value) {
  return is_float(dtype) ? ir::float_constant(dtype, value) : ir::int_constant(dtype, static_cast<int64_t>(value));
}

}  // namespace

void RegionEval::open(ir::Block& block) {
  blocks_.push_back(&block);
  known_.emplace_back();
}

void RegionEval::close() {
  blocks_.pop_back();
  known_.pop_back();
}

Dim RegionEval::clean(const Dim& d) const { return simplify(d, ranges_); }

Coords RegionEval::clean(const Coords& coords) const {
  Coords result;
  for (const Dim& c : coords) result.push_back(clean(c));
  return result;
}

void RegionEval::define(ValueId value, const Coords& coords, Lowered lowered) {
  known_.back()[guard_].insert_or_assign({value, clean(coords)}, std::move(lowered));
}

const Lowered* RegionEval::find_known(const Key& key) const {
  for (auto scope = known_.rbegin(); scope != known_.rend(); ++scope) {
    for (Conditions guard = guard_;; guard.pop_back()) {
      if (const auto values = scope->find(guard); values != scope->end())
        if (const auto it = values->second.find(key); it != values->second.end()) return &it->second;
      if (guard.empty()) break;
    }
  }
  return nullptr;
}

void RegionEval::stage(ValueId value, const Coords& coords, BufferId buffer, const std::vector<IndexExpr>& index) {
  staged_.insert_or_assign({value, clean(coords)}, Staged{buffer, index});
}

std::vector<IndexExpr> RegionEval::indices(const std::vector<Dim>& list) const {
  std::vector<IndexExpr> result;
  for (const Dim& d : list) result.push_back(index(d));
  return result;
}

// A symbol for a register in coordinates. Names of the model do not contain a question mark.
Dim RegionEval::symbol(RegId reg) {
  const std::string name = "?" + ir::reg_name(reg);
  nest_.symbols.emplace(name, reg);
  return Dim::symbol(name);
}

RegId RegionEval::emit(ScalarOp op, DType dtype, std::vector<Operand> args) {
  const RegId dst = add_reg(nest_.kernel, dtype);
  append({ir::Let{dst, op, std::move(args)}});
  return dst;
}

Lowered RegionEval::eval(ValueId value, const Coords& coords) {
  const Coords at = clean(coords);
  const Key key{value, at};
  if (const Lowered* known = find_known(key)) return *known;
  Lowered result;
  if (auto it = staged_.find(key); it != staged_.end()) {
    const ir::Buffer& buffer = nest_.kernel.buffers[it->second.buffer];
    const RegId dst = add_reg(nest_.kernel, buffer.dtype);
    append({ir::Load{dst, it->second.buffer, it->second.index, {}, Constant{buffer.dtype}, 0}});
    result = {dst, !is_16_bit_float(graph_.type(value).dtype)};
  } else {
    result = make(value, at);
  }
  define(value, at, result);
  return result;
}

Lowered RegionEval::make(ValueId value, const Coords& coords) {
  const ir::Type& type = graph_.type(value);
  if (const Tensor* data = graph_.constant(value); data != nullptr && data->num_elements() == 1) {
    const DType t = compute_type(type.dtype);
    if (is_float(t)) return {ir::float_constant(t, ir::load_double(type.dtype, data->data()))};
    return {ir::int_constant(t, ir::load_int(type.dtype, data->data()))};
  }
  const bool here = computed_in(graph_, nodes_, value);
  if (!here) {
    if (auto view = find_view(graph_, storage_, value)) return load(*view, coords, type.dtype);
  }
  const Node* node = graph_.producer(value);
  FUSEC_CHECK(node != nullptr) << "value " << value.index << " is neither materialized nor computed";
  if (node->op.is_scalar()) return scalar(*node, coords);
  if (is_plain_map(node->op)) return eval(node->inputs[0], input_coords(graph_, *node, 0, coords, ranges_));
  switch (node->op.tensor()) {
    case TensorOp::iota:
      return index_value(coords[static_cast<size_t>(node->attrs.i("axis"))], type.dtype);
    case TensorOp::dim:
      return index_value(node->attrs.dims("value").at(0), type.dtype);
    case TensorOp::concat:
      return concat(*node, coords);
    case TensorOp::pad:
      return pad(*node, coords);
    case TensorOp::gather:
    case TensorOp::gather_elements:
    case TensorOp::gather_nd:
      return gather(*node, coords);
    case TensorOp::max_pool:
      return largest(*node, coords);
    default:
      FUSEC_CHECK(false) << "no lowering for " << node->op.name() << " at these coordinates";
      return {};
  }
}

Lowered RegionEval::index_value(const Dim& value, DType dtype) {
  const DType t = compute_type(dtype);
  if (value.is_const()) return {number(t, static_cast<double>(value.value()))};
  const RegId dst = add_reg(nest_.kernel, t);
  append({ir::IndexValue{dst, index(value)}});
  return finish(dst, dtype);
}

Lowered RegionEval::finish(Operand operand, DType dtype) {
  if (!is_16_bit_float(dtype)) return {operand, true};
  if (options_.numerics == Numerics::exact) return {rounded({operand, false}, dtype), true};
  return {operand, false};
}

Operand RegionEval::rounded(const Lowered& value, DType dtype) {
  if (!is_16_bit_float(dtype) || value.exact) return value.operand;
  const RegId narrow = emit(ScalarOp::cast, dtype, {value.operand});
  return emit(ScalarOp::cast, DType::f32, {narrow});
}

namespace {

// Emits a definition's expression tree; operands are the node's arguments.
Operand expand(RegionEval& eval, const ir::DefNode& def, const std::vector<Operand>& args, DType dtype) {
  if (def.kind == ir::DefNode::Kind::operand) return args[static_cast<size_t>(def.operand)];
  if (def.kind == ir::DefNode::Kind::number) return number(dtype, def.number);
  std::vector<Operand> inner;
  for (const ir::DefNode& arg : def.args) inner.push_back(expand(eval, arg, args, dtype));
  if (info(def.op).is_definition) return expand(eval, ir::definition(def.op), inner, dtype);
  return eval.emit(def.op, result_type(def.op, dtype, dtype), inner);
}

}  // namespace

Lowered RegionEval::scalar(const Node& node, const Coords& coords) {
  const ScalarOp op = node.op.scalar();
  const DType result = graph_.type(node.output).dtype;
  const size_t value_arg = op == ScalarOp::where ? 1 : 0;
  const DType in = graph_.type(node.inputs[value_arg]).dtype;
  std::vector<Operand> args(node.inputs.size());
  bool all_exact = true;
  for (size_t k = 0; k < args.size(); ++k) {
    // The sum of an fma first: a chain of them then takes its products one after another.
    const size_t i = op == ScalarOp::fma ? (k + 2) % 3 : k;
    const DType t = graph_.type(node.inputs[i]).dtype;
    Lowered arg = eval(node.inputs[i], input_coords(graph_, node, static_cast<int>(i), coords, ranges_));
    if (needs_rounded(op)) arg = {rounded(arg, t), true};
    all_exact = all_exact && arg.exact;
    args[i] = arg.operand;
  }
  if (op == ScalarOp::cast) {
    if (compute_type(result) == compute_type(in)) {  // between f32, f16 and bf16: only rounding
      return is_16_bit_float(result) ? Lowered{rounded({args[0], false}, result), true} : Lowered{args[0], true};
    }
    if (is_16_bit_float(result) && !fits_f32(in)) {  // rounded once
      const RegId narrow = emit(op, result, args);
      return {emit(op, DType::f32, {narrow}), true};
    }
    const RegId dst = emit(op, compute_type(result), args);
    return is_16_bit_float(result) ? Lowered{rounded({dst, false}, result), true} : Lowered{dst, true};
  }
  const DType t = compute_type(in);
  const Operand dst = info(op).is_definition ? expand(*this, ir::definition(op), args, t)
                                             : Operand(emit(op, result_type(op, t, t), args));
  if (is_16_bit_float(result) && has(op, ir::OpFlag::exact_on_halves) && all_exact) return {dst, true};
  return finish(dst, result);
}

namespace {

Dim spanned_elements(const StridedView& view) {
  Dim elements = 1;
  for (size_t i = 0; i < view.shape.size(); ++i) elements += (view.shape[i] - 1) * view.strides[i];
  return elements;
}

// The constant strides of a value that lies row-major in memory.
std::set<int64_t> row_major_strides(const Shape& shape) {
  std::set<int64_t> strides{1};
  for (size_t i = shape.size(); i-- > 1 && shape[i].is_const() && shape[i].value() > 0;)
    strides.insert(*strides.rbegin() * shape[i].value());
  return strides;
}

// How far `shift` elements go along the axes of a view: iterations, and elements between an iteration and the next one,
// where the view has steps. `pitches` are the strides of the value that is viewed.
struct Shift {
  struct Axis {
    int64_t stride, iterations;
    Dim extent;
  };
  std::vector<Axis> axes;
  int64_t between = 0, rest = 0;
};
Shift take_apart(const StridedView& view, int64_t shift, const std::set<int64_t>& pitches) {
  std::vector<std::pair<int64_t, Dim>> axes;  // stride, extent
  for (size_t i = 0; i < view.shape.size(); ++i)
    if (view.strides[i].is_const() && view.strides[i].value() > 0)
      axes.emplace_back(view.strides[i].value(), view.shape[i]);
  std::sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Shift result;
  for (const auto& [stride, extent] : axes) {
    result.axes.push_back({stride, shift / stride, extent});
    shift %= stride;
    const int64_t pitch = *std::prev(pitches.upper_bound(stride));
    if (stride % pitch != 0) continue;
    result.between += shift - shift % pitch;
    shift %= pitch;
  }
  result.rest = shift;
  return result;
}

// Whether a view that begins `shift` elements behind a parameter has some of the indices that were read through it
// along every axis, or would have them without the view's steps. `read` has the number of these indices by strides, and
// that of the view is added to it.
bool overlaps(const Shift& shift, std::map<int64_t, int64_t>& read) {
  if (shift.rest != 0) return false;
  for (const Shift::Axis& axis : shift.axes)
    if (axis.extent.is_const() && axis.iterations >= std::max(axis.extent.value(), read[axis.stride])) return false;
  for (const Shift::Axis& axis : shift.axes)
    if (axis.extent.is_const()) read[axis.stride] = std::max(read[axis.stride], axis.iterations + axis.extent.value());
  return true;
}

}  // namespace

// The parameter that the view shares with others, and how far behind that one's first element the view begins. Other
// parameters have sizes or places that are not known well enough.
std::optional<std::pair<BufferId, Dim>> RegionEval::find_shared(const StridedView& view,
                                                                const std::set<int64_t>& pitches) {
  const Dim elements = spanned_elements(view);
  const bool is_constant = graph_.constant(view.base) != nullptr;
  for (size_t i = 0; i < nest_.params.size(); ++i) {
    ParamSource& source = nest_.params[i];
    ir::Buffer& buffer = nest_.kernel.buffers[nest_.kernel.params[i]];
    if (source.base != view.base || buffer.space != ir::Space::in || buffer.shape.size() != 1 ||
        !buffer.strides.empty())
      continue;
    const Dim shift = view.offset - source.offset;
    if (!shift.is_const() || shift.value() <= 0) continue;
    const Dim end = shift + elements;
    const bool holds = proves_nonneg(source.elements - end, {});
    if (!holds && !proves_nonneg(end - source.elements, {})) continue;
    if (!is_constant && !overlaps(take_apart(view, shift.value(), pitches), read_[i])) continue;
    if (!holds) {
      source.elements = end;
      buffer.shape = {index(end)};
    }
    return std::pair(nest_.kernel.params[i], shift);
  }
  return std::nullopt;
}

// Windows read one value at many offsets. Through one parameter, loads of the same element have the same index. Parts
// of one constant share a parameter, too: a kernel then computes one address for all of them. The parameter of a view
// with steps begins where one of its neighbours does that skip nothing.
std::optional<std::pair<BufferId, Dim>> RegionEval::shared_parameter(const StridedView& view) {
  const std::set<int64_t> pitches = row_major_strides(graph_.type(view.base).shape);
  if (const auto known = find_shared(view, pitches)) return known;
  const Shift parts = take_apart(view, view.offset.is_const() ? view.offset.value() : 0, pitches);
  if (parts.between == 0 || parts.rest != 0) return std::nullopt;
  StridedView first = view;
  first.offset = view.offset - parts.between;
  parameter(first, ir::Space::in, true);
  return find_shared(view, pitches);
}

BufferId RegionEval::parameter(const StridedView& view, ir::Space space, bool flat) {
  const Dim elements = spanned_elements(view);
  std::string key = std::to_string(view.base.index) + "+" + view.offset.str() + (flat ? "f" : "n") +
                    (space == ir::Space::out ? "o" : "i");
  if (!flat) key += to_string(view.shape) + to_string(view.strides);
  // A part of a value and the whole share one parameter if it is known which of them is larger.
  for (; parameters_.contains(key); key += "'") {
    const BufferId known = parameters_.at(key);
    const auto at =
        std::find(nest_.kernel.params.begin(), nest_.kernel.params.end(), known) - nest_.kernel.params.begin();
    ParamSource& source = nest_.params[static_cast<size_t>(at)];
    if (!flat || proves_nonneg(source.elements - elements, {})) return known;
    if (!proves_nonneg(elements - source.elements, {})) continue;
    source.elements = elements;
    nest_.kernel.buffers[known].shape = {index(elements)};
    return known;
  }
  ir::Buffer buffer;
  buffer.name = (space == ir::Space::out ? "y" : "x") + std::to_string(nest_.kernel.params.size());
  buffer.space = space;
  buffer.dtype = graph_.type(view.base).dtype;
  buffer.shape = indices(flat ? Shape{elements} : view.shape);
  if (!flat) buffer.strides = indices(view.strides);
  const BufferId id = add_buffer(nest_.kernel, buffer);
  nest_.params.push_back({view.base, view.offset, elements});
  parameters_[key] = id;
  return id;
}

bool RegionEval::reads_register(const Dim& d) const {
  std::set<std::string> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) {
    const auto it = nest_.symbols.find(s);
    return it != nest_.symbols.end() && it->second.reg();
  });
}

// Mirrors an index. A negative index from data counts from the end, and its mirrored index does so too. An index out of
// range stays out of range.
Dim RegionEval::mirrored(const Dim& index, const Dim& extent) {
  if (!reads_register(index)) return extent - 1 - index;
  const auto value = [&](const Dim& d) {
    const RegId r = add_reg(nest_.kernel, DType::i64);
    append({ir::IndexValue{r, this->index(d)}});
    return r;
  };
  const auto where_negative = [&](RegId r, const Dim& then, const Dim& otherwise) {
    const RegId negative = emit(ScalarOp::lt, DType::bool_, {r, ir::int_constant(DType::i64, 0)});
    return emit(ScalarOp::where, DType::i64, {negative, value(then), value(otherwise)});
  };
  const RegId from_end = where_negative(value(index), -index - 1, extent - 1 - index);
  return symbol(where_negative(from_end, symbol(from_end) - extent, symbol(from_end)));
}

// Changes view and coordinates so that no stride is negative.
void RegionEval::flip_negative(StridedView& view, Coords& coords) {
  for (size_t i = 0; i < coords.size(); ++i) {
    if (!view.backwards[i]) continue;
    Dim& stride = view.strides[i];
    view.offset += (view.shape[i] - 1) * stride;
    coords[i] = mirrored(coords[i], view.shape[i]);
    stride = -stride;
    view.backwards[i] = false;
  }
}

Lowered RegionEval::load(const StridedView& full, const Coords& coords, DType dtype) {
  StridedView view = full;
  Coords at = coords;
  flip_negative(view, at);
  uint32_t clamp = 0;
  for (size_t i = 0; i < at.size(); ++i)
    if (reads_register(at[i])) clamp |= 1U << i;
  ir::Load load;
  Dim shift = 0;
  if (const auto known = clamp == 0 ? shared_parameter(view) : std::nullopt) {
    load.buffer = known->first;
    shift = known->second;
  } else {
    load.buffer = parameter(view, ir::Space::in, clamp == 0);
  }
  load.guard = indices(guard_);
  load.clamp = clamp;
  load.otherwise = Constant{dtype};
  if (clamp != 0) {
    load.index = indices(at);
  } else {
    Dim linear = shift;
    for (size_t i = 0; i < at.size(); ++i) linear += at[i] * view.strides[i];
    load.index = {index(clean(linear))};
  }
  load.dst = add_reg(nest_.kernel, dtype);
  append({load});
  if (!is_16_bit_float(dtype)) return {load.dst, true};
  return {emit(ScalarOp::cast, DType::f32, {load.dst}), true};
}

void RegionEval::store(ValueId value, const Coords& coords) {
  const DType dtype = graph_.type(value).dtype;
  const auto view = find_view(graph_, storage_, value);
  FUSEC_CHECK(view.has_value()) << "an output without storage";
  Operand result = eval(value, coords).operand;
  if (is_16_bit_float(dtype)) result = emit(ScalarOp::cast, dtype, {result});
  Dim linear = 0;
  for (size_t i = 0; i < coords.size(); ++i) linear += coords[i] * view->strides[i];
  const BufferId buffer = parameter(*view, ir::Space::out, true);
  append({ir::Store{buffer, {index(clean(linear))}, result, {}, ir::StoreHint::none}});
}

Operand RegionEval::in_range(const Conditions& guard) {
  Operand all = ir::int_constant(DType::bool_, 1);
  bool first = true;
  for (const Dim& g : guard) {
    const RegId value = add_reg(nest_.kernel, DType::i64);
    append({ir::IndexValue{value, index(g)}});
    const RegId ok = emit(ScalarOp::ge, DType::bool_, {value, ir::int_constant(DType::i64, 0)});
    all = first ? Operand(ok) : Operand(emit(ScalarOp::and_, DType::bool_, {all, ok}));
    first = false;
  }
  return all;
}

Lowered RegionEval::select_in_range(const Conditions& guard, const Lowered& inside, const Lowered& outside,
                                    DType dtype) {
  const Operand result = emit(ScalarOp::where, compute_type(dtype), {in_range(guard), inside.operand, outside.operand});
  return {result, inside.exact && outside.exact};
}

Lowered RegionEval::concat(const Node& node, const Coords& coords) {
  const auto axis = static_cast<size_t>(node.attrs.i("axis"));
  Lowered result;
  bool first = true;
  for (const Read& read : find_reads(graph_, node, coords, ranges_)) {
    const ValueId input = node.inputs[static_cast<size_t>(read.input)];
    const Dim c = clean(read.coords[axis]);
    const Dim last = graph_.type(input).shape[axis] - 1;
    const bool above = proves_nonneg(c, ranges_), below = proves_nonneg(last - c, ranges_);
    if (above && below) return eval(input, read.coords);
    if (proves_nonneg(-c - 1, ranges_) || proves_nonneg(c - last - 1, ranges_)) continue;
    Conditions guard;
    if (!above) guard.push_back(c);
    if (!below) guard.push_back(last - c);
    const size_t depth = guard_.size();
    guard_.insert(guard_.end(), guard.begin(), guard.end());
    Lowered part = eval(input, read.coords);
    guard_.resize(depth);
    result = first ? part : select_in_range(guard, part, result, graph_.type(node.output).dtype);
    first = false;
  }
  if (first) return {number(compute_type(graph_.type(node.output).dtype), 0), true};  // in loops that never run
  return result;
}

namespace {

bool is_plus_zero(const Operand& operand) {
  const auto* constant = std::get_if<Constant>(&operand);
  return constant != nullptr && *constant == Constant{constant->dtype};
}

}  // namespace

Lowered RegionEval::pad(const Node& node, const Coords& coords) {
  const DType dtype = graph_.type(node.output).dtype;
  const Shape& from = graph_.type(node.inputs[0]).shape;
  const Coords at = clean(find_reads(graph_, node, coords, ranges_)[0].coords);
  Conditions guard;
  for (size_t i = 0; i < at.size() && node.attrs.s("mode") == "constant"; ++i) {
    if (!proves_nonneg(at[i], ranges_)) guard.push_back(at[i]);
    const Dim left = from[i] - 1 - at[i];
    if (!proves_nonneg(left, ranges_)) guard.push_back(left);
  }
  if (guard.empty()) return eval(node.inputs[0], at);
  Lowered outside{number(compute_type(dtype), 0), true};
  if (node.inputs.size() > 1) outside = eval(node.inputs[1], Coords(graph_.type(node.inputs[1]).shape.size(), Dim(0)));
  const size_t depth = guard_.size();
  guard_.insert(guard_.end(), guard.begin(), guard.end());
  const Lowered inside = eval(node.inputs[0], at);
  const bool zero_outside = is_guarded_load(inside.operand);
  guard_.resize(depth);
  if (zero_outside && is_plus_zero(outside.operand)) return inside;
  return select_in_range(guard, inside, outside, dtype);
}

// Whether `operand` comes from a load of this block under all of guard_, which yields 0 where the guard fails, maybe by
// way of casts.
bool RegionEval::is_guarded_load(const Operand& operand) const {
  const auto* reg = std::get_if<RegId>(&operand);
  const ir::Block& block = *blocks_.back();
  if (reg == nullptr) return false;
  const auto find_maker = [&](RegId made, auto from) {
    return std::find_if(from, block.rend(), [&](const ir::Stmt& stmt) {
      const auto regs = defined(stmt);
      return std::find(regs.begin(), regs.end(), made) != regs.end();
    });
  };
  for (auto maker = find_maker(*reg, block.rbegin()); maker != block.rend();) {
    if (const auto* load = std::get_if<ir::Load>(&maker->v)) {
      const ir::Guard guard = indices(guard_);
      return is_plus_zero(load->otherwise) && std::all_of(guard.begin(), guard.end(), [&](const IndexExpr& e) {
               return std::find(load->guard.begin(), load->guard.end(), e) != load->guard.end();
             });
    }
    const auto* let = std::get_if<ir::Let>(&maker->v);
    const auto* from = let != nullptr && let->op == ScalarOp::cast ? std::get_if<RegId>(&let->args[0]) : nullptr;
    if (from == nullptr) return false;
    maker = find_maker(*from, maker);
  }
  return false;
}

// The max of the positions of a window, in order.
Lowered RegionEval::largest(const Node& node, const Coords& coords) {
  const DType type = compute_type(graph_.type(node.output).dtype);
  std::optional<Lowered> result;
  for (const Read& read : find_reads(graph_, node, coords, ranges_)) {
    const Lowered place = eval(node.inputs[0], read.coords);
    result = result ? Lowered{emit(ScalarOp::max, type, {result->operand, place.operand}), result->exact && place.exact}
                    : place;
  }
  return *result;
}

Lowered RegionEval::gather(const Node& node, const Coords& coords) {
  const auto reads = find_reads(graph_, node, coords, ranges_);
  std::vector<Dim> places;
  for (const Read& read : reads) {
    if (read.input != 1) continue;
    const Operand index = eval(node.inputs[1], read.coords).operand;
    if (const auto* constant = std::get_if<Constant>(&index)) {
      places.push_back(constant->i);
      continue;
    }
    RegId reg = std::get<RegId>(index);
    if (nest_.kernel.regs[reg].dtype != DType::i64) reg = emit(ScalarOp::cast, DType::i64, {reg});
    places.push_back(symbol(reg));
  }
  Coords at = reads.back().coords;
  size_t next = 0;
  for (Dim& c : at)
    if (c.uses("?")) c = places[next++];
  const Shape& from = graph_.type(node.inputs[0]).shape;
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i].is_const() && at[i].value() < 0) at[i] = at[i] + from[i];
  return eval(node.inputs[0], at);
}

}  // namespace fusec::compiler
