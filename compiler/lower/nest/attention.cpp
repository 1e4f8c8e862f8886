// SPDX-License-Identifier: Apache-2.0
// Lower: builds the semantic loop nest of an attention. For each element of the result it has three reductions over
// keys, each of which computes the scores again: their maximum, the sum of their exponentials, and the sum of values
// that these weight. Schedules walk over keys once (compiler/lower/cuda/attention_parts.h).

#include "compiler/lower/nest/eval.h"
#include "compiler/lower/nest/nest.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/partition/graph_names.h"

namespace fusec::compiler {
namespace {

using ir::Combiner;

class AttentionNest {
 public:
  AttentionNest(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region,
                const LoopNestOptions& options)
      : graph_(graph), node_(graph.nodes[region.nodes[0]]), nodes_(region.nodes.begin(), region.nodes.end()) {
    for (const std::string& name : graph.symbols)
      if (!nest_.symbols.contains(name)) nest_.symbols.emplace(name, nest_.kernel.extents.push_back(name));
    const Shape &q = shape(0), &v = shape(2);
    for (const Dim& extent : {q[0], q[1], q[2], v[3]}) add_axis(extent);
    Coords at;
    for (const std::string& var : nest_.domain.vars) at.push_back(Dim::symbol(var));
    nest_.domain.outputs.push_back({node_.output, true, at});
    eval_.emplace(graph, storage, nodes_, nest_.domain, options, nest_);
  }

  LoopNest build() {
    Block body;
    eval_->open(body);
    const RegId max = over_keys(Combiner::max, [&](const Dim& key) { return score(key); });
    const auto exponential = [&](const Dim& key) {
      const Operand difference = eval_->emit(ScalarOp::sub, DType::f32, {score(key), max});
      return Operand(eval_->emit(ScalarOp::exp, DType::f32, {difference}));
    };
    const RegId sum = over_keys(Combiner::add, exponential);
    const RegId result = over_keys(Combiner::add, [&](const Dim& key) {
      const RegId weight = eval_->emit(ScalarOp::div, DType::f32, {exponential(key), sum});
      return Operand(eval_->emit(ScalarOp::mul, DType::f32, {weight, read(2, {at(0), shared_head(), key, at(3)})}));
    });
    const Coords& coords = nest_.domain.outputs[0].coords;
    eval_->define(node_.output, coords, eval_->finish(result, graph_.type(node_.output).dtype));
    eval_->store(node_.output, coords);
    eval_->close();
    for (std::size_t i = nest_.domain.extents.size(); i-- > 0;) {
      Block outer;
      const LoopHead head{LoopTag::seq, nest_.axis_vars[i][0], index_expr(nest_, nest_.domain.extents[i])};
      outer.push_back({ir::Loop{head, std::move(body), ir::PhaseBoundary::launches}});
      body = std::move(outer);
    }
    nest_.kernel.body = std::move(body);
    return std::move(nest_);
  }

 private:
  const Shape& shape(std::size_t input) const { return graph_.type(node_.inputs[input]).shape; }
  Dim at(std::size_t axis) const { return Dim::symbol(nest_.domain.vars[axis]); }
  // The head of keys and values that the head of queries reads.
  Dim shared_head() const {
    const Dim &heads = shape(0)[1], &shared = shape(1)[1];
    return heads == shared ? at(1) : floordiv(at(1), Dim(heads.value() / shared.value()));
  }

  void add_axis(const Dim& extent) {
    const std::string name = "d?" + std::to_string(nest_.domain.vars.size());
    nest_.axis_vars.push_back({add_loop_var(name)});
    nest_.domain.vars.push_back(name);
    nest_.domain.extents.push_back(extent);
    nest_.domain.reduced.push_back(false);
    nest_.domain.ranges[name] = {Dim(0), extent - 1};
  }
  VarId add_loop_var(const std::string& name) {
    const VarId var = add_var(nest_.kernel);
    nest_.symbols[name] = var;
    return var;
  }

  // A loop of its own over `extent`, in which make(variable) gives what is combined.
  RegId reduced(Combiner combiner, const Dim& extent, const ir::Guard& guard, const std::string& name, VarId var,
                const std::function<Operand(const Dim&)>& make) {
    ir::Reduce reduce;
    reduce.combiner = combiner;
    reduce.tree = {1, 0};
    reduce.loops = {{LoopTag::seq, var, index_expr(nest_, extent)}};
    eval_->ranges()[name] = {Dim(0), extent - 1};
    eval_->open(reduce.body);
    reduce.yield = {make(Dim::symbol(name))};
    eval_->close();
    reduce.guard = guard;
    const RegId dst = add_reg(nest_.kernel, DType::f32);
    reduce.dst = {dst};
    eval_->append({std::move(reduce)});
    return dst;
  }
  RegId over_keys(Combiner combiner, const std::function<Operand(const Dim&)>& make) {
    const std::string name = "k?" + std::to_string(loops_++);
    const VarId var = add_loop_var(name);
    const Dim &queries = shape(0)[2], &keys = shape(2)[2];
    ir::Guard seen;
    if (node_.attrs.i("causal") == 1) seen.push_back(index_expr(nest_, at(2) + keys - queries - Dim::symbol(name)));
    return reduced(combiner, keys, seen, name, var, make);
  }

  Operand read(std::size_t input, const Coords& coords) {
    const Operand value = eval_->compute(node_.inputs[input], coords);
    if (dtype_of(nest_.kernel, value) == DType::f32) return value;
    return eval_->emit(ScalarOp::cast, DType::f32, {value});
  }

  Operand score(const Dim& key) {
    const std::string name = "c?" + std::to_string(loops_++);
    Operand value = reduced(Combiner::add, shape(0)[3], {}, name, add_loop_var(name), [&](const Dim& channel) {
      const Operand q = read(0, {at(0), at(1), at(2), channel}), k = read(1, {at(0), shared_head(), key, channel});
      return Operand(eval_->emit(ScalarOp::mul, DType::f32, {q, k}));
    });
    if (const double scale = node_.attrs.f("scale"); scale != 1)
      value = eval_->emit(ScalarOp::mul, DType::f32, {value, ir::float_constant(DType::f32, scale)});
    if (node_.inputs.size() < 4) return value;
    const Operand mask = read(3, broadcast_coords({at(0), at(1), at(2), key}, shape(3)));
    return eval_->emit(ScalarOp::add, DType::f32, {value, mask});
  }

  const Graph& graph_;
  const Node& node_;
  const std::set<NodeId> nodes_;
  LoopNest nest_;
  std::optional<RegionEval> eval_;
  int loops_ = 0;  // that have a name
};

}  // namespace

LoopNest build_attention_nest(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region,
                              const LoopNestOptions& options) {
  return AttentionNest(graph, storage, region, options).build();
}

}  // namespace fusec::compiler
