// SPDX-License-Identifier: Apache-2.0
// Lower: builds the semantic loop nest of a region over its domain. A region without reductions becomes pointwise
// loops, split at concats; a region with reductions becomes rows of several phases.

#include "compiler/lower/nest/nest.h"

#include <algorithm>
#include <numeric>

#include "compiler/lower/nest/eval.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/partition/graph_names.h"
#include "ir/support/check.h"

namespace fusec::compiler {

using ir::Combiner;
using ir::Constant;

int64_t known_divisor(const LoopNest& nest, const Dim& d) {
  int64_t known = d.known_divisor();
  for (const Dim& extent : nest.multiples)
    if (const auto quotient = d.exact_div(extent)) known = std::lcm(known, nest.multiple_of);
  return known;
}

IndexExpr index_expr(const LoopNest& nest, const Dim& d) {
  return ir::index_expr(d, [&](const std::string& name) {
    const auto it = nest.symbols.find(name);
    FUSEC_CHECK(it != nest.symbols.end()) << "'" << name << "' is no symbol of the model or the nest";
    return IndexExpr::symbol(it->second);
  });
}

namespace {

Combiner combiner_of(const Node& node) {
  switch (node.op.tensor()) {
    case TensorOp::reduce_prod:
      return Combiner::mul;
    case TensorOp::reduce_max:
      return Combiner::max;
    case TensorOp::reduce_min:
      return Combiner::min;
    case TensorOp::argmax:
      return node.attrs.i("last") ? Combiner::argmax_last : Combiner::argmax;
    case TensorOp::argmin:
      return node.attrs.i("last") ? Combiner::argmin_last : Combiner::argmin;
    default:
      return Combiner::add;
  }
}

bool is_arg(Combiner c) { return ir::tuple_size(c) == 2 && c != Combiner::max_sum; }

class NestBuilder {
 public:
  NestBuilder(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region,
              const LoopNestOptions& options, Domain domain)
      : graph_(graph), region_(region), options_(options), nodes_(region.nodes.begin(), region.nodes.end()) {
    nest_.domain = std::move(domain);
    name_symbols();
    eval_.emplace(graph, storage, nodes_, nest_.domain, options, nest_);
  }

  LoopNest build() {
    if (!domain().has_reduced()) {
      pointwise();
    } else {
      rows();
    }
    return std::move(nest_);
  }

 private:
  Domain& domain() { return nest_.domain; }

  void name_symbols() {
    const std::set<std::string> symbols(graph_.symbols.begin(), graph_.symbols.end());
    for (const std::string& name : symbols) nest_.symbols.emplace(name, nest_.kernel.extents.push_back(name));
    const size_t phases = domain().reductions.size() + 1;
    for (size_t i = 0; i < domain().vars.size(); ++i) {
      std::vector<VarId>& vars = nest_.axis_vars.emplace_back();
      for (size_t p = 0; p < (domain().reduced[i] ? phases : 1); ++p) {
        vars.push_back(add_var(nest_.kernel));
        nest_.symbols[domain().reduced[i] ? var_name(i, p) : domain().vars[i]] = vars.back();
      }
    }
  }

  // Every phase has loop variables of its own.
  std::string var_name(size_t axis, size_t phase) const {
    return nest_.domain.vars[axis] + "p" + std::to_string(phase);
  }

  IndexExpr index(const Dim& d) const { return index_expr(nest_, d); }

  std::vector<LoopHead> loops(bool reduced, size_t phase = 0) const {
    std::vector<LoopHead> heads;
    for (size_t i = 0; i < nest_.domain.extents.size(); ++i) {
      if (nest_.domain.reduced[i] != reduced) continue;
      heads.push_back({LoopTag::seq, nest_.axis_vars[i][reduced ? phase : 0], index(nest_.domain.extents[i])});
    }
    return heads;
  }

  // Opens nested loops at the end of `block` and returns the innermost body.
  Block* nest_loops(Block& block, std::vector<LoopHead> heads) {
    if (heads.empty()) heads.push_back({LoopTag::seq, add_var(nest_.kernel), 1});
    Block* body = &block;
    for (const LoopHead& head : heads) {
      body->push_back({ir::Loop{head, {}, ir::PhaseBoundary::launches}});
      body = &std::get<ir::Loop>(body->back().v).body;
    }
    return body;
  }

  // --- pointwise -----------------------------------------------------------------------------------------------

  void pointwise() {
    for (const Segment& segment : segments()) {
      if (!nest_.kernel.body.empty()) give_own_vars();
      auto heads = loops(false);
      DimRanges saved = eval_->ranges();
      std::map<std::string, Dim> shift;
      for (size_t i = 0; i < heads.size(); ++i) {
        const std::string& var = domain().vars[i];
        if (var != segment.var) continue;
        heads[i].extent = index(segment.extent);
        shift[var] = segment.start + Dim::symbol(var);
        eval_->ranges()[var] = {Dim(0), segment.extent - 1};
      }
      Block top;
      Block* body = nest_loops(top, heads);
      eval_->open(*body);
      std::vector<std::pair<ValueId, Coords>> results;
      for (const AccessPoint& site : domain().outputs) {
        Coords coords = site.coords;
        for (Dim& c : coords) c = c.substitute(shift);
        results.emplace_back(site.value, coords);
      }
      store_all(results);
      eval_->close();
      eval_->ranges() = saved;
      nest_.kernel.body.push_back(std::move(top[0]));
    }
  }

  // The next segment has loop variables of its own.
  void give_own_vars() {
    for (size_t i = 0; i < domain().vars.size(); ++i) {
      nest_.axis_vars[i] = {add_var(nest_.kernel)};
      nest_.symbols[domain().vars[i]] = nest_.axis_vars[i][0];
    }
  }

  // Computes all results before it stores the first, because an output may alias any input that is read at the same
  // element.
  void store_all(const std::vector<std::pair<ValueId, Coords>>& results) {
    for (const auto& [value, coords] : results) eval_->eval(value, coords);
    for (const auto& [value, coords] : results) eval_->store(value, coords);
  }

  // A part of the domain: start <= var < start + extent. An empty var means the whole domain.
  struct Segment {
    std::string var;
    Dim start, extent;
  };

  // Returns one segment per operand of a concat whose axis is one loop of the domain, so that no element has to select
  // its operand.
  std::vector<Segment> segments() const {
    const std::vector<Segment> whole{{"", 0, 0}};
    if (nest_.domain.outputs.size() != 1) return whole;
    ValueId value = nest_.domain.outputs[0].value;
    Coords coords = nest_.domain.outputs[0].coords;
    for (;;) {
      const NodeId id = graph_.values[value].producer;
      if (!id.valid()) return whole;
      const Node& node = graph_.nodes[id];
      if (node.op == TensorOp::concat && nodes_.contains(id)) return split_at(node, coords, whole);
      if (node.op == TensorOp::max_pool) return find_channels(node, coords, whole);
      if (!is_plain_map(node.op)) return whole;
      int next = -1;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (computed_in(graph_, nodes_, node.inputs[i])) next = static_cast<int>(i);
      if (next < 0) return whole;
      coords = input_coords(graph_, node, next, coords, nest_.domain.ranges);
      value = node.inputs[static_cast<size_t>(next)];
    }
  }

  // A window does not extend along the last axis, so a concat along that axis of its input can split the domain.
  std::vector<Segment> find_channels(const Node& window, const Coords& coords,
                                     const std::vector<Segment>& whole) const {
    const NodeId id = graph_.values[window.inputs[0]].producer;
    if (!id.valid() || !nodes_.contains(id)) return whole;
    const Node& node = graph_.nodes[id];
    if (!(node.op == TensorOp::concat) || node.attrs.i("axis") + 1 != static_cast<int64_t>(coords.size())) return whole;
    return split_at(node, coords, whole);
  }

  std::vector<Segment> split_at(const Node& concat, const Coords& coords, const std::vector<Segment>& whole) const {
    const auto axis = static_cast<size_t>(concat.attrs.i("axis"));
    const auto var = coords[axis].as_symbol();
    if (!var) return whole;
    std::vector<Segment> parts;
    Dim start = 0;
    for (ValueId input : concat.inputs) {
      const Dim extent = graph_.type(input).shape[axis];
      if (!extent.is(0)) parts.push_back({*var, start, extent});
      start += extent;
    }
    const auto loop = std::find(nest_.domain.vars.begin(), nest_.domain.vars.end(), *var) - nest_.domain.vars.begin();
    if (!(start == nest_.domain.extents[static_cast<size_t>(loop)])) return whole;  // a slice leaves some out
    return parts;
  }

  // --- rows ----------------------------------------------------------------------------------------------------

  // A phase of a row is one pass over the reduced axes. Phase p < reductions is reduction p; the last phase stores full
  // outputs.
  void rows() {
    plan_staging();
    Block top;
    Block* row = nest_loops(top, loops(false));
    eval_->open(*row);
    for (const auto& [value, first] : staged_) allocate(value);
    for (size_t p = 0; p < domain().reductions.size(); ++p) reduction(p);
    for (const AccessPoint& site : domain().outputs)
      if (!site.full) eval_->store(site.value, site.coords);
    full_outputs();
    eval_->close();
    nest_.kernel.body = std::move(top);
  }

  Coords phase_coords(const Coords& coords, size_t phase) const {
    std::map<std::string, Dim> phased;
    for (size_t i = 0; i < nest_.domain.vars.size(); ++i)
      if (nest_.domain.reduced[i]) phased[nest_.domain.vars[i]] = Dim::symbol(var_name(i, phase));
    Coords result;
    for (const Dim& c : coords) result.push_back(c.substitute(phased));
    return result;
  }

  void enter_phase(size_t phase) {
    for (size_t i = 0; i < domain().vars.size(); ++i)
      if (domain().reduced[i]) eval_->ranges()[var_name(i, phase)] = {Dim(0), domain().extents[i] - 1};
    for (const auto& [value, first] : staged_)
      if (first < phase)
        eval_->stage(value, phase_coords(staged_coords_.at(value), phase), buffers_.at(value), row_index(phase));
  }

  // Stores the staged values that are first computed in this phase to their buffers.
  void keep_staged(size_t phase) {
    for (const auto& [value, first] : staged_) {
      if (first != phase || is_reduction(graph_, graph_.values[value].producer)) continue;
      Operand operand = eval_->compute(value, phase_coords(staged_coords_.at(value), phase));
      eval_->append({ir::Store{buffers_.at(value), row_index(phase), operand, {}, ir::StoreHint::none}});
    }
  }

  std::vector<IndexExpr> row_index(size_t phase) const {
    IndexExpr linear = 0;
    for (size_t i = 0; i < nest_.domain.vars.size(); ++i)
      if (nest_.domain.reduced[i])
        linear = linear * index(nest_.domain.extents[i]) + IndexExpr::symbol(nest_.axis_vars[i][phase]);
    return {linear};
  }

  Dim row_length() const {
    Dim n = 1;
    for (size_t i = 0; i < nest_.domain.extents.size(); ++i)
      if (nest_.domain.reduced[i]) n *= nest_.domain.extents[i];
    return n;
  }

  void allocate(ValueId value) {
    ir::Buffer buffer;
    buffer.name = "t" + std::to_string(buffers_.size());
    buffer.space = ir::Space::reg;
    buffer.dtype = compute_type(graph_.type(value).dtype);
    buffer.shape = {index(row_length())};
    buffers_[value] = add_buffer(nest_.kernel, buffer);
    eval_->append({ir::Alloc{buffers_[value]}});
  }

  void reduction(size_t p) {
    const Node& node = graph_.nodes[domain().reductions[p]];
    if (node.op == TensorOp::cumsum) return scan(p, node);
    const DType given = compute_type(graph_.type(node.inputs[0]).dtype), type = combined_type(node);
    ir::Reduce reduce;
    reduce.combiner = combiner_of(node);
    reduce.loops = loops(true, p);
    enter_phase(p);
    eval_->open(reduce.body);
    keep_staged(p);
    const Lowered element = eval_->eval(node.inputs[0], phase_coords(domain().reduction_inputs[p], p));
    reduce.yield = {element.operand};
    if (is_arg(reduce.combiner)) reduce.yield = {eval_->rounded(element, graph_.type(node.inputs[0]).dtype)};
    if (type != given) reduce.yield = {eval_->emit(ScalarOp::cast, type, reduce.yield)};
    if (is_arg(reduce.combiner)) {
      const RegId position = add_reg(nest_.kernel, DType::i64);
      eval_->append({ir::IndexValue{position, row_index(p)[0]}});
      reduce.yield.push_back(position);
    }
    eval_->close();
    reduce.dst = {add_reg(nest_.kernel, type)};
    if (is_arg(reduce.combiner)) reduce.dst.push_back(add_reg(nest_.kernel, DType::i64));
    const RegId result = reduce.dst.back();
    eval_->append({std::move(reduce)});
    Operand value = result;
    if (node.op == TensorOp::reduce_mean) value = divide_by_count(result, type);
    if (type != given) value = eval_->emit(ScalarOp::cast, given, {value});
    const DType dtype = graph_.type(node.output).dtype;
    eval_->define(node.output, domain().reduction_results[p],
                  is_exact(node, element) ? Lowered{value, true} : eval_->finish(value, dtype));
  }

  // Means of integers sum in 64 bits, where neither the sum nor the count wraps.
  DType combined_type(const Node& node) const {
    const DType t = compute_type(graph_.type(node.inputs[0]).dtype);
    if (!(node.op == TensorOp::reduce_mean) || !is_int(t)) return t;
    return is_signed_int(t) ? DType::i64 : DType::u64;
  }

  // Whether the result is representable in its type. Sums and products of 16-bit floats are not, but a min or max is as
  // exact as its elements.
  bool is_exact(const Node& node, const Lowered& element) const {
    const DType t = graph_.type(node.output).dtype;
    const bool chooses = node.op == TensorOp::reduce_max || node.op == TensorOp::reduce_min;
    return (chooses && element.exact) || (t != DType::f16 && t != DType::bf16);
  }

  Operand divide_by_count(RegId sum, DType type) {
    const Dim n = row_length();
    Operand count;
    if (n.is_const()) {
      count =
          is_float(type) ? ir::float_constant(type, static_cast<double>(n.value())) : ir::int_constant(type, n.value());
    } else {
      const RegId reg = add_reg(nest_.kernel, type);
      eval_->append({ir::IndexValue{reg, index(n)}});
      count = reg;
    }
    return eval_->emit(ScalarOp::div, type, {sum, count});
  }

  void scan(size_t p, const Node& node) {
    auto heads = loops(true, p);
    if (heads.empty()) heads.push_back({ir::LoopTag::seq, add_var(nest_.kernel), 1});  // an axis of extent 1
    FUSEC_CHECK(heads.size() == 1) << "a scan over one axis";
    const DType type = compute_type(graph_.type(node.output).dtype);
    ir::Scan scan;
    scan.loop = heads[0];
    scan.exclusive = node.attrs.i("exclusive") != 0;
    scan.reverse = node.attrs.i("reverse") != 0;
    enter_phase(p);
    eval_->open(scan.body);
    keep_staged(p);
    scan.yield = eval_->compute(node.inputs[0], phase_coords(domain().reduction_inputs[p], p));
    eval_->close();
    scan.dst = add_reg(nest_.kernel, type);
    eval_->open(scan.then);
    const Lowered sum = eval_->finish(scan.dst, graph_.type(node.output).dtype);
    if (options_.stores_in_scan) {
      eval_->define(node.output, phase_coords(domain().reduction_results[p], p), sum);
      store_all(full_results(p));
    } else {
      eval_->append({ir::Store{buffers_.at(node.output), row_index(p), sum.operand, {}, ir::StoreHint::none}});
    }
    eval_->close();
    eval_->append({std::move(scan)});
  }

  void full_outputs() {
    const size_t phase = domain().reductions.size();
    const auto results = full_results(phase);
    if (results.empty() || (options_.stores_in_scan && scans())) return;
    enter_phase(phase);
    Block loops_block;
    Block* body = nest_loops(loops_block, loops(true, phase));
    eval_->open(*body);
    store_all(results);
    eval_->close();
    for (auto& stmt : loops_block) eval_->append(std::move(stmt));
  }

  // The outputs with an element for each element of the row, and the coordinates of that element.
  std::vector<std::pair<ValueId, Coords>> full_results(size_t phase) const {
    std::vector<std::pair<ValueId, Coords>> results;
    for (const AccessPoint& site : nest_.domain.outputs)
      if (site.full) results.emplace_back(site.value, phase_coords(site.coords, phase));
    return results;
  }

  bool scans() const {
    const auto& reductions = nest_.domain.reductions;
    return std::any_of(reductions.begin(), reductions.end(),
                       [&](NodeId id) { return graph_.nodes[id].op == TensorOp::cumsum; });
  }

  // --- staging -------------------------------------------------------------------------------------------------

  // Chooses the values to keep in local buffers between phases: those that several phases need and that cost more to
  // recompute than to keep, nearest to their users first. Results of scans are kept unless the scan stores the outputs.
  void plan_staging() {
    const size_t last = domain().reductions.size();
    if (options_.stores_in_scan && scans()) {
      FUSEC_CHECK(last == 1) << "a scan beside other reductions";
      return;
    }
    for (size_t p = 0; p < last; ++p) {
      const Node& node = graph_.nodes[domain().reductions[p]];
      if (node.op == TensorOp::cumsum) {
        staged_[node.output] = p;
        staged_coords_[node.output] = domain().reduction_results[p];
      }
    }
    for (bool again = true; again;) {
      again = false;
      uses_.clear();
      for (size_t p = 0; p < last; ++p)
        visit(graph_.nodes[domain().reductions[p]].inputs[0], domain().reduction_inputs[p], p);
      for (const AccessPoint& site : domain().outputs)
        if (site.full) visit(site.value, site.coords, last);
      for (auto n = region_.nodes.rbegin(); n != region_.nodes.rend() && !again; ++n) again = stage_if_costly(*n);
    }
  }

  struct Use {
    std::set<size_t> phases;
    std::set<Coords> coords;
  };

  void visit(ValueId value, const Coords& coords, size_t phase) {
    if (!computed_in(graph_, nodes_, value) || !varies(coords)) return;
    Use& use = uses_[value];
    const bool seen = use.phases.contains(phase) && use.coords.contains(coords);
    use.phases.insert(phase);
    use.coords.insert(coords);
    const auto staged = staged_.find(value);
    if (seen || (staged != staged_.end() && staged->second != phase)) return;
    const NodeId id = graph_.values[value].producer;
    if (is_reduction(graph_, id)) return;
    for (const Read& read : find_reads(graph_, graph_.nodes[id], coords, domain().ranges))
      visit(graph_.nodes[id].inputs[static_cast<size_t>(read.input)], read.coords, phase);
  }

  // Whether the coordinates vary within a row.
  bool varies(const Coords& coords) const {
    for (const Dim& c : coords)
      for (size_t i = 0; i < nest_.domain.vars.size(); ++i)
        if (nest_.domain.reduced[i] && c.uses(nest_.domain.vars[i])) return true;
    return false;
  }

  // The cycles to recompute the value from loaded or staged values.
  int cost(ValueId value, int depth = 0) const {
    if (!computed_in(graph_, nodes_, value) || staged_.contains(value)) return 1;
    const Node& node = *graph_.producer(value);
    if (is_reduction(graph_, graph_.values[value].producer) || depth > 16) return 0;
    int sum = node.op.is_scalar() ? info(node.op.scalar()).cost + conversions(node) : 0;
    for (ValueId input : node.inputs) sum += cost(input, depth + 1);
    return sum;
  }

  // The cycles to widen the operands of 16 bits and to round the result to them. Casts have them in their own cost.
  int conversions(const Node& node) const {
    const ir::ScalarOp op = node.op.scalar();
    const bool converts = op != ir::ScalarOp::cast && !has(op, ir::OpFlag::exact_on_halves);
    if (!converts || !is_16_bit_float(graph_.type(node.output).dtype)) return 0;
    return options_.conversion_cost * (static_cast<int>(node.inputs.size()) + 1);
  }

  bool stage_if_costly(NodeId id) {
    const ValueId value = graph_.nodes[id].output;
    const auto use = uses_.find(value);
    if (use == uses_.end() || staged_.contains(value) || is_reduction(graph_, id)) return false;
    if (use->second.phases.size() < 2 || use->second.coords.size() != 1) return false;
    if (cost(value) < options_.stage_cost) return false;
    staged_[value] = *use->second.phases.begin();
    staged_coords_[value] = *use->second.coords.begin();
    return true;
  }

  const Graph& graph_;
  const Region& region_;
  const LoopNestOptions& options_;
  std::set<NodeId> nodes_;
  LoopNest nest_;
  std::optional<RegionEval> eval_;
  std::map<ValueId, size_t> staged_;  // value -> the phase that first computes it
  std::map<ValueId, Coords> staged_coords_;
  std::map<ValueId, BufferId> buffers_;
  std::map<ValueId, Use> uses_;
};

}  // namespace

Result<LoopNest> build_loop_nest(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region,
                                 const LoopNestOptions& options) {
  FUSEC_ASSIGN(Domain domain, compute_domain(graph, region.nodes, region.outputs));
  return NestBuilder(graph, storage, region, options, std::move(domain)).build();
}

}  // namespace fusec::compiler
