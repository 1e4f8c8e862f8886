// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/maker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/pipeline.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/support/check.h"

namespace fusec::fuzz {

using ir::TensorOp;

namespace {

constexpr double kHuge = 1e5;  // magnitudes past this soon overflow in halves and hide mistakes

std::vector<Dim> choose_extents(Random& random, bool symbolic) {
  std::vector<Dim> out;
  const std::vector<int64_t> few = {1, 2, 3, 4, 5, 6, 7, 8}, more = {12, 15, 16, 17, 31, 32, 33, 40, 64, 65, 96};
  for (int64_t n = random.between(2, 4); n > 0; --n) out.push_back(random.pick(few));
  for (int64_t n = random.between(0, 2); n > 0; --n) out.push_back(random.pick(more));
  if (random.chance(0.05)) out.push_back(0);
  // Names that kernels use for their own.
  const std::vector<std::string> names = {"N", "N", "N", "seq", "seq", "batch", "lane", "v1", "n0", "i0"};
  const std::string first = random.pick(names), second = random.pick(names);
  if (symbolic) {
    out.insert(out.end(), 2, Dim::symbol(first));
    if (random.chance(0.5)) out.push_back(Dim::symbol(second));
    if (random.chance(0.2)) out.push_back(2 * Dim::symbol(first));
    if (random.chance(0.1)) out.push_back(Dim::symbol(first) + 1);
  }
  return out;
}

std::vector<ir::SymbolBindings> choose_symbols(Random& random, const std::vector<Dim>& extents, std::size_t runs) {
  std::set<std::string> names;
  for (const Dim& d : extents) d.collect_symbols(names);
  std::vector<ir::SymbolBindings> out(runs);
  for (ir::SymbolBindings& values : out)
    for (const std::string& name : names) {
      values[name] = random.chance(0.06)   ? 0
                     : random.chance(0.15) ? 1
                     : random.chance(0.7)  ? random.between(2, 9)
                                           : random.between(10, 70);
    }
  return out;
}

}  // namespace

Maker::Maker(uint64_t seed) : random(seed), seed_(seed) {
  graph_.name = "fuzz";
  const bool symbolic = random.chance(0.4);
  extents_ = choose_extents(random, symbolic);
  const std::size_t runs = symbolic ? 2 : 1;
  symbols_ = choose_symbols(random, extents_, runs);
  runs_.resize(runs);
  max_elements_ = random.pick({60, 300, 300, 300, 1500, 4000});
  dtypes_ = {DType::f32, DType::f32, DType::f32, DType::f32};
  const std::vector<DType> others = {DType::f64, DType::f16, DType::f16, DType::bf16, DType::bf16,
                                     DType::i32, DType::i64, DType::i8,  DType::u8,   DType::i16,
                                     DType::u16, DType::u32, DType::u64};
  for (int64_t n = random.between(0, 3); n > 0; --n) dtypes_.insert(dtypes_.end(), 2, random.pick(others));
}

int64_t Maker::least(const Dim& d) const {
  int64_t out = std::numeric_limits<int64_t>::max();
  for (const ir::SymbolBindings& s : symbols_) out = std::min(out, d.eval(s).value_or(-1));
  return out;
}

int64_t Maker::most(const Dim& d) const {
  int64_t out = -1;
  for (const ir::SymbolBindings& s : symbols_)
    out = std::max(out, d.eval(s).value_or(std::numeric_limits<int32_t>::max()));
  return out;
}

int64_t Maker::elements(const Shape& shape) const { return most(num_elements(shape)); }

Dim Maker::extent() { return random.pick(extents_); }

Shape Maker::new_shape(int rank) {
  Shape out;
  for (int i = 0; i < rank; ++i) {
    Dim d = extent();
    out.push_back(d);
    if (elements(out) > max_elements_) out.back() = random.chance(0.5) ? 1 : 2;
    if (elements(out) > max_elements_) out.back() = 1;
  }
  random.shuffle(out);
  return out;
}

DType Maker::number_type() { return random.pick(dtypes_); }

std::vector<int64_t> Maker::at_run(const Shape& shape, std::size_t run) const {
  std::vector<int64_t> out;
  for (const Dim& d : shape) out.push_back(*d.eval(symbols_[run]));
  return out;
}

bool Maker::usable(const Values& values, const ir::Type& type) const {
  for (const Bounded& b : values) {
    if (!is_float(type.dtype)) {
      if (count_undecided(b, type.dtype) * 50 > b.at.num_elements()) return false;
      continue;
    }
    int64_t bad = 0;
    const int64_t n = b.at.num_elements();
    for (int64_t i = 0; i < n; ++i) bad += !(std::fabs(b.at.as<double>()[i]) < kHuge);
    if (bad * 10 > n || count_undecided(b, type.dtype) * 50 > n) return false;
  }
  return true;
}

void Maker::keep(ValueId v, Values values) {
  values_.resize(graph_.values.size());
  values_[v] = std::move(values);
}

ValueId Maker::node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs) {
  std::vector<ir::Type> types;
  for (const ValueId v : inputs) {
    if (!v.valid()) return {};
    types.push_back(type(v));
  }
  const Result<ir::Type> result = ir::infer_type(op, types, attrs);
  if (!result.ok() || result->rank() > 8 || elements(result->shape) > max_elements_) return {};
  for (const Dim& d : result->shape)
    if (least(d) < 0) return {};
  const ValueId out = ir::add_node(graph_, op, inputs, std::move(attrs));
  Values values;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    std::vector<Bounded> operands;
    for (const ValueId v : inputs) operands.push_back(values_[v][run]);
    Result<Bounded> value = evaluate_bounds(graph_, *graph_.producer(out), operands, symbols_[run]);
    if (value.ok()) values.push_back(std::move(*value));
  }
  if (values.size() < runs_.size() || !usable(values, *result)) {
    graph_.order.pop_back();  // dead, and so no longer part of the graph
    values_.resize(graph_.values.size());
    return {};
  }
  keep(out, std::move(values));
  pool_.push_back(out);
  ++nodes_;
  return out;
}

ValueId Maker::slice(ValueId v, std::size_t axis, Dim start, Dim size) {
  if (!v.valid()) return {};
  Shape starts(shape(v).size(), Dim(0)), sizes = shape(v);
  starts[axis] = std::move(start);
  sizes[axis] = std::move(size);
  return node(TensorOp::slice, {v},
              {{"starts", starts}, {"sizes", sizes}, {"steps", std::vector<int64_t>(sizes.size(), 1)}});
}

ValueId Maker::reduce(TensorOp op, ValueId v, std::vector<int64_t> axes, bool keep_axes) {
  if (!v.valid()) return {};
  Shape kept = shape(v);
  for (const int64_t a : axes) kept[static_cast<std::size_t>(a)] = 1;
  const ValueId out = node(op, {v}, {{"axes", std::move(axes)}});
  return keep_axes && out.valid() ? reshape(out, kept) : out;
}

ValueId Maker::number(DType dtype, double value) {
  Tensor data = *Tensor::make(dtype, {});
  ir::store_double(dtype, data.data(), value);
  const ValueId v = ir::add_constant(graph_, data);
  keep(v, Values(runs_.size(), *input_bounds(data)));
  return v;
}

Tensor Maker::random_data(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  Tensor out = *ir::random_tensor(dtype, shape, ir::mix64(seed));
  if (!is_signed_int(dtype) || random.chance(0.4)) return out;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    char* const at = out.as<char>() + i * static_cast<int64_t>(size_of(dtype));
    if (random.chance(0.5)) ir::store_int(dtype, at, -ir::load_int(dtype, at));
  }
  return out;
}

ValueId Maker::constant(DType dtype, const std::vector<int64_t>& shape) {
  const Tensor data = random_data(dtype, shape, seed_ + ++tensors_);
  const ValueId v = ir::add_constant(graph_, data);
  keep(v, Values(runs_.size(), *input_bounds(data)));
  pool_.push_back(v);
  return v;
}

ValueId Maker::input(DType dtype, const Shape& shape) {
  const ValueId v = ir::add_input(graph_, "x" + std::to_string(graph_.inputs.size()), {dtype, shape});
  Values values;
  ++tensors_;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    runs_[run].inputs.push_back(random_data(dtype, at_run(shape, run), seed_ + tensors_ + 1000 * run));
    values.push_back(*input_bounds(runs_[run].inputs.back()));
  }
  is_index_.push_back(false);
  keep(v, std::move(values));
  pool_.push_back(v);
  return v;
}

ValueId Maker::indices(DType dtype, const Shape& shape, const Dim& extent) {
  if (least(extent) < 1 || elements(shape) > max_elements_) return {};
  const ValueId v = input(dtype, shape);
  const bool negative = random.chance(0.4);
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    Tensor& data = runs_[run].inputs.back();
    const int64_t n = *extent.eval(symbols_[run]);
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      const int64_t index = random.between(negative ? -n : 0, n - 1);
      ir::store_int(dtype, data.as<char>() + i * static_cast<int64_t>(size_of(dtype)), index);
    }
    values_[v][run] = exactly(data);
  }
  is_index_.back() = true;
  return v;
}

ValueId Maker::leaf(DType dtype, const Shape& shape) {
  if (elements(shape) > max_elements_) return {};
  if (!is_const(shape) || random.chance(0.5)) return input(dtype, shape);
  std::vector<int64_t> extents;
  for (const Dim& d : shape) extents.push_back(d.value());
  return constant(dtype, extents);
}

namespace {

std::vector<bool> read_values(const ir::Graph& graph) {
  std::vector<bool> read(graph.values.size());
  for (const ir::NodeId n : graph.order)
    for (const ValueId v : graph.nodes[n].inputs) read[v.index] = true;
  return read;
}

// Specials that a dtype can hold.
double special_float(Random& random, DType dtype) {
  const double tiny = dtype == DType::f64 ? 1e-310 : dtype == DType::f16 ? 3e-7 : 1e-40;
  const double top = dtype == DType::f64 ? 1.7e308 : dtype == DType::f16 ? 65504 : 3.38e38;
  const double inf = std::numeric_limits<double>::infinity();
  return random.pick(
      {std::numeric_limits<double>::quiet_NaN(), inf, -inf, -0.0, 0.0, tiny, -tiny, top, -top, 1e4, -1e4, 0.5, 1.5});
}

}  // namespace

Tensor Maker::special(const Tensor& from, bool index) {
  Tensor out = *Tensor::make(from.dtype(), from.shape());
  std::copy_n(from.as<char>(), from.bytes(), out.as<char>());
  if (index || from.dtype() == DType::bool_) return out;
  const double share = random.pick({0.02, 0.1, 0.5});
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if (!random.chance(share)) continue;
    char* at = out.as<char>() + i * static_cast<int64_t>(size_of(out.dtype()));
    if (is_float(out.dtype())) {
      ir::store_double(out.dtype(), at, special_float(random, out.dtype()));
    } else {
      ir::store_int(out.dtype(), at,
                    static_cast<int64_t>(random.chance(0.3) ? uint64_t{1} << random.below(64) : random.bits()));
    }
  }
  return out;
}

void Maker::add_special_run() {
  Run run{{}, true};
  for (std::size_t i = 0; i < runs_[0].inputs.size(); ++i)
    run.inputs.push_back(special(runs_[0].inputs[i], is_index_[i]));
  runs_.push_back(std::move(run));
}

// What nothing reads, and a few others; sometimes a value twice, an input, or a constant.
void Maker::add_outputs() {
  const std::vector<bool> read = read_values(graph_);
  std::vector<ValueId> chosen;
  for (const ValueId v : pool_) {
    const bool made = graph_.producer(v) != nullptr && !graph_.is_constant(v);
    if (random.chance(made ? (read[v.index] ? 0.06 : 0.85) : 0.01)) chosen.push_back(v);
  }
  if (chosen.empty()) chosen.push_back(pool_.back());
  if (random.chance(0.03)) chosen.push_back(chosen[0]);
  random.shuffle(chosen);
  for (std::size_t i = 0; i < chosen.size(); ++i) ir::add_output(graph_, chosen[i], "y" + std::to_string(i));
}

// Every symbol is an extent of some input.
void Maker::bind_symbols() {
  for (const auto& [name, value] : symbols_[0]) input(DType::f32, {Dim::symbol(name)});
}

Case Maker::finish() {
  add_outputs();
  if (random.chance(0.5) || !ir::bind_symbols(graph_, runs_[0].inputs).ok() ||
      graph_.symbols.size() < symbols_[0].size())
    bind_symbols();
  if (random.chance(0.15)) add_special_run();
  Case out;
  out.seed = seed_;
  out.setting.numerics =
      random.pick({Numerics::precise, Numerics::precise, Numerics::precise, Numerics::exact, Numerics::fast});
  out.setting.use_library = random.chance(0.8);
  out.setting.target = random.pick({"", "", "", "x86-64-v2", "x86-64-v3", "x86-64-v4"});
  out.setting.threads = random.pick({1, 1, 2, 3});
  out.setting.call = random.pick(
      {Call::session, Call::session, Call::session, Call::strided, Call::strided, Call::jit, Call::in_place});
  if (random.chance(0.2)) out.setting.disabled_passes.emplace_back(random.pick(compiler::pipeline()).name);
  // The stages behind these rely on what they do.
  std::erase(out.setting.disabled_passes, "own_outputs");
  std::erase(out.setting.disabled_passes, "fold_empty");
  FUSEC_CHECK(ir::rebuild_order(graph_)) << "the generator made a cycle";
  out.graph = ir::compact(graph_);
  out.runs = std::move(runs_);
  return out;
}

}  // namespace fusec::fuzz
