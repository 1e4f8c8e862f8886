// SPDX-License-Identifier: Apache-2.0
// Matches and applies algebraic rules in the optimize stage, and defines the passes apply_rules and
// recognize_activations with their rules. Neither pass does anything in exact numerics.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/library/capabilities.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {

using ir::DefNode;

namespace {

bool mentions(const DefNode& node, ScalarOp op) {
  if (node.kind == DefNode::Kind::op && node.op == op) return true;
  return std::any_of(node.args.begin(), node.args.end(), [op](const DefNode& arg) { return mentions(arg, op); });
}

class Matcher {
 public:
  Matcher(const Graph& graph, const ir::IdVector<ValueId, int>& uses) : graph_(graph), uses_(uses) {}

  std::optional<Binding> match(const DefNode& pattern, ValueId value) {
    binding_ = {};
    return visit(pattern, value, true) ? std::optional(binding_) : std::nullopt;
  }

 private:
  bool visit(const DefNode& p, ValueId value, bool root) {
    if (p.kind == DefNode::Kind::number) return is_number(value, p.number);
    if (p.kind == DefNode::Kind::operand) {
      auto& bound = binding_[static_cast<size_t>(p.operand)];
      if (!bound) bound = value;
      return *bound == value;
    }
    const Node* node = graph_.producer(value);
    if (node == nullptr || !(node->op == ir::Op(p.op))) return false;
    if (!root && uses_[value] != 1) return false;  // an inner result with other users must stay
    const Binding saved = binding_;
    if (arguments(p, *node, false)) return true;
    binding_ = saved;
    if (has(p.op, ir::OpFlag::commutative) && arguments(p, *node, true)) return true;
    binding_ = saved;
    return false;
  }

  bool arguments(const DefNode& p, const Node& node, bool swapped) {
    for (size_t i = 0; i < p.args.size(); ++i)
      if (!visit(p.args[i], node.inputs[swapped ? 1 - i : i], false)) return false;
    return true;
  }

  // Whether the constant is this number, up to the precision of its dtype and including its sign: x - -0 turns -0 into
  // 0.
  bool is_number(ValueId value, double number) const {
    const Tensor* data = graph_.constant(value);
    if (data == nullptr || data->num_elements() != 1) return false;
    const double actual = ir::load_double(data->dtype(), data->data());
    const double step = data->dtype() == DType::f16 ? 0x1p-10 : data->dtype() == DType::bf16 ? 0x1p-7 : 0x1p-23;
    if (actual == number) return std::signbit(actual) == std::signbit(number);
    const bool is_rounded = std::ldexp(number, 4) != std::floor(std::ldexp(number, 4));  // in any dtype, unlike 0.5
    return is_float(data->dtype()) && std::abs(actual - number) <= step * std::abs(number) && is_rounded;
  }

  const Graph& graph_;
  const ir::IdVector<ValueId, int>& uses_;
  Binding binding_;
};

ValueId build(Graph& graph, const DefNode& result, const Binding& binding, DType dtype, const std::string& origin) {
  if (result.kind == DefNode::Kind::operand) return *binding[static_cast<size_t>(result.operand)];
  if (result.kind == DefNode::Kind::number) return add_scalar_constant(graph, dtype, result.number);
  std::vector<ValueId> inputs;
  for (const DefNode& arg : result.args) inputs.push_back(build(graph, arg, binding, dtype, origin));
  return add_node(graph, result.op, std::move(inputs), {}, origin);
}

}  // namespace

Rule parse_rule(std::string_view text) {
  const size_t arrow = text.find("->");
  return {ir::parse_definition(text.substr(0, arrow)), ir::parse_definition(text.substr(arrow + 2))};
}

bool apply_rule_set(Graph& graph, const std::vector<Rule>& rules,
                    const std::function<bool(const Graph&, const Binding&)>& allowed) {
  Rewriter rewriter(graph);
  auto uses = use_counts(graph);
  rewriter.walk([&](NodeId id) {
    if (!graph.nodes[id].op.is_scalar()) return;
    const ValueId value = graph.nodes[id].output;
    for (const Rule& rule : rules) {
      if (!(graph.nodes[id].op == ir::Op(rule.from.op))) continue;
      const auto binding = Matcher(graph, uses).match(rule.from, value);
      if (!binding || !allowed(graph, *binding)) continue;
      const std::string origin = graph.nodes[id].origin;
      const DType dtype = graph.type(*(*binding)[0]).dtype;
      if (is_unsigned_int(dtype) && mentions(rule.from, ScalarOp::neg)) continue;  // neg wraps there
      ValueId to = build(graph, rule.to, *binding, dtype, origin);
      if (rule.to.kind == DefNode::Kind::number)
        to = add_node(graph, ir::TensorOp::broadcast, {to}, {{"shape", graph.type(value).shape}}, origin);
      if (!(graph.type(to) == graph.type(value))) continue;  // the removed ops broadcast an operand
      rewriter.replace(value, to);
      uses.resize(graph.values.size());
      uses[to] += uses[value];
      return;
    }
  });
  return rewriter.changed();
}

const std::vector<Rule>& exact_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> r;
    for (const char* text : {
             "a*1 -> a",
             "a/1 -> a",
             "a-0 -> a",
             "neg(neg(a)) -> a",
             "not_(not_(a)) -> a",
             "abs(abs(a)) -> abs(a)",
             "abs(neg(a)) -> abs(a)",
             "relu(relu(a)) -> relu(a)",
             "pow(a,0) -> 1",
             "pow(a,1) -> a",
             "pow(a,2) -> a*a",
             "and_(a,a) -> a",
             "or_(a,a) -> a",
             "max(a,a) -> a",
             "min(a,a) -> a",
             "min(max(a,b),c) -> clamp(a,b,c)",
             "a*sigmoid(a) -> silu(a)",
             "a*tanh(softplus(a)) -> mish(a)",
         })
      r.push_back(parse_rule(text));
    return r;
  }();
  return rules;
}

const std::vector<Rule>& power_rules() {
  static const std::vector<Rule> rules = {parse_rule("pow(a,3) -> a*a*a"), parse_rule("pow(a,4) -> (a*a)*(a*a)")};
  return rules;
}

const std::vector<Rule>& float_power_rules() {
  static const std::vector<Rule> rules = {
      parse_rule("pow(a,-1) -> recip(a)"),
      parse_rule("pow(a,-2) -> recip(a)*recip(a)"),
      parse_rule("pow(a,0.5) -> where(eq(a,-inf),neg(a),sqrt(a+0))"),
      parse_rule("pow(a,-0.5) -> where(eq(a,-inf),0,rsqrt(a+0))"),
  };
  return rules;
}

// x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2, as models write it.
const std::vector<Rule>& gelu_rules() {
  static const std::vector<Rule> rules = [] {
    const std::string scale = "0.7978845608028654";
    std::vector<std::string> args = {"(" + scale + "*a)*(1+0.044715*(a*a))", "(" + scale + "*a)*(1+0.044715*a*a)"};
    for (const char* sum : {"a+0.044715*(a*a*a)", "a+0.044715*pow(a,3)", "a+0.044715*a*a*a", "a+0.044715*(a*a)*a",
                            "a*(1+0.044715*(a*a))", "a*(1+0.044715*a*a)"})
      args.push_back(scale + "*(" + sum + ")");
    std::vector<Rule> r;
    for (const std::string& arg : args) {
      for (const char* form : {"(0.5*a)*(1+tanh(", "a*(0.5*(1+tanh(", "0.5*(a*(1+tanh("}) {
        const std::string from = form + arg, close(form[0] == '(' ? 2 : 3, ')');
        r.push_back(parse_rule(from + close + " -> gelu_tanh(a)"));
      }
    }
    return r;
  }();
  return rules;
}

// x * (1 + erf(x / sqrt(2))) / 2, as models write it.
const std::vector<Rule>& erf_gelu_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> r;
    for (const std::string arg : {"a/1.4142135623730951", "a*0.7071067811865476"})
      for (const std::string form : {"(0.5*a)*(1+erf(", "a*(0.5*(1+erf(", "0.5*(a*(1+erf("})
        r.push_back(parse_rule(form + arg + std::string(form[0] == '(' ? 2 : 3, ')') + " -> gelu(a)"));
    return r;
  }();
  return rules;
}

namespace {

// Rules whose sides are equal up to the op table's error bound of the right side. They yield the form of an activation
// that the library fuses.
const std::vector<Rule>& activation_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> r;
    for (const char* text : {
             "a*clamp(a+3,0,6)/6 -> hard_swish(a)",
             "a*(clamp(a+3,0,6)/6) -> hard_swish(a)",
             "a*hard_sigmoid(a,0.16666666666666666,0.5) -> hard_swish(a)",
         })
      r.push_back(parse_rule(text));
    return r;
  }();
  return rules;
}

// Whether a library of the target computes gelu_tanh behind a product of the type.
bool fuses_gelu(const PassContext& context, DType dtype) {
  return is_computed_by_library(context, [&](const ir::LibraryCapabilities& library) {
    return contains(library.ops, ir::TensorOp::matmul) && fuses(library.epilogues, ScalarOp::gelu_tanh, dtype, {});
  });
}

// Whether the value is the result of a conv or matmul, possibly after a bias, a reshape or a transpose.
bool behind_anchor(const Graph& graph, ValueId value) {
  for (int depth = 0; depth < 3; ++depth) {
    const Node* node = graph.producer(value);
    if (node == nullptr) return false;
    if (!node->op.is_scalar() && ir::is_product(node->op.tensor())) return true;
    const bool passes =
        node->op == ScalarOp::add || node->op == ir::TensorOp::reshape || node->op == ir::TensorOp::transpose;
    if (!passes) return false;
    const bool first = graph.producer(node->inputs[0]) != nullptr && !graph.is_constant(node->inputs[0]);
    value = node->inputs[first || node->inputs.size() < 2 ? 0 : 1];
  }
  return false;
}

}  // namespace

Result<bool> apply_rules(Graph& graph, const PassContext& context) {
  if (context.options.numerics == Numerics::exact) return false;
  const bool is_changed = apply_rule_set(graph, exact_rules(), [](const Graph&, const Binding&) { return true; });
  // Without fusion each op is a kernel of its own, and the square inside a 16-bit cube would be rounded to 16 bits.
  const auto stays_in_f32 = [&](const Graph& g, const Binding& b) {
    return context.options.fuse || size_of(g.type(*b[0]).dtype) > 2;
  };
  const auto is_float_in_f32 = [&](const Graph& g, const Binding& b) {
    return is_float(g.type(*b[0]).dtype) && stays_in_f32(g, b);
  };
  const bool has_powers = apply_rule_set(graph, power_rules(), stays_in_f32);
  return apply_rule_set(graph, float_power_rules(), is_float_in_f32) || has_powers || is_changed;
}

Result<bool> recognize_activations(Graph& graph, const PassContext& context) {
  if (context.options.numerics == Numerics::exact) return false;
  // To 16 bits the op takes less than half of the chain's instructions.
  const bool has_gelu = apply_rule_set(
      graph, erf_gelu_rules(), [](const Graph& g, const Binding& b) { return is_16_bit_float(g.type(*b[0]).dtype); });
  if (!context.options.use_library) return has_gelu;
  const bool is_activation = apply_rule_set(graph, activation_rules(),
                                            [](const Graph& g, const Binding& b) { return behind_anchor(g, *b[0]); });
  const auto gains = [&](const Graph& g, const Binding& b) {
    return fuses_gelu(context, g.type(*b[0]).dtype) && behind_anchor(g, *b[0]);
  };
  return apply_rule_set(graph, gelu_rules(), gains) || is_activation || has_gelu;
}

}  // namespace fusec::compiler
