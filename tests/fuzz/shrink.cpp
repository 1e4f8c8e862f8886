// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/shrink.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>

#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/support/check.h"
#include "ir/text/graph_text.h"
#include "ir/text/lexer.h"

namespace fusec::fuzz {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;
using MaybeCase = std::optional<Case>;

constexpr int kMaxTries = 1500;
constexpr std::chrono::minutes kMaxTime{2};  // a try on a GPU may take seconds

Tensor make_copy(const Tensor& t) {
  Tensor out = *Tensor::make(t.dtype(), t.shape());
  std::copy_n(t.as<char>(), t.bytes(), out.as<char>());
  return out;
}

// Inputs that nothing reads go, with their tensors; the list of symbols is made again.
void drop_unread_inputs(Case& c) {
  std::vector<bool> read(c.graph.values.size());
  for (const NodeId n : c.graph.order)
    for (const ValueId v : c.graph.nodes[n].inputs) read[v.index] = true;
  for (const ValueId v : c.graph.outputs) read[v.index] = true;
  for (std::size_t i = c.graph.inputs.size(); i-- > 0;) {
    if (read[c.graph.inputs[i].index]) continue;
    c.graph.inputs.erase(c.graph.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    for (Run& run : c.runs) run.inputs.erase(run.inputs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  Graph inputs;
  for (const ValueId v : c.graph.inputs) ir::add_input(inputs, c.graph.values[v].name, c.graph.type(v));
  c.graph.symbols = inputs.symbols;
}

// The message without its numbers.
std::string find_kind(const std::string& message) {
  std::string out;
  for (const char ch : message.substr(0, 60))
    if (std::isalpha(static_cast<unsigned char>(ch))) out += ch;
  return out;
}

// Inputs cut to the extents that the graph now has.
bool cut_inputs(Case& c, const ir::SymbolBindings& symbols) {
  for (Run& run : c.runs) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      std::vector<int64_t> shape;
      for (const Dim& d : c.graph.type(c.graph.inputs[i]).shape) {
        const auto value = d.eval(symbols);
        if (!value || *value < 0) return false;
        shape.push_back(*value);
      }
      Tensor data = *Tensor::make(run.inputs[i].dtype(), shape);
      if (data.bytes() > run.inputs[i].bytes()) return false;
      std::copy_n(run.inputs[i].as<char>(), data.bytes(), data.as<char>());
      run.inputs[i] = data;
    }
  }
  return true;
}

}  // namespace

std::optional<Case> with_dims(const Case& c, const std::function<Dim(const Dim&)>& map) {
  Case out = c;
  Graph& g = out.graph;
  const auto mapped = [&](const Shape& shape) {
    Shape s;
    for (const Dim& d : shape) s.push_back(map(d));
    return s;
  };
  for (const ValueId v : g.inputs) g.values[v].type.shape = mapped(g.type(v).shape);
  for (const NodeId n : g.order) {
    ir::Node& node = g.nodes[n];
    if (auto it = g.constants.find(n); it != g.constants.end()) {
      std::vector<int64_t> shape;
      for (const Dim& d : mapped(g.type(node.output).shape)) shape.push_back(d.value());
      Tensor data = *Tensor::make(it->second.dtype(), shape);
      if (data.bytes() > it->second.bytes()) return std::nullopt;
      std::copy_n(it->second.as<char>(), data.bytes(), data.as<char>());
      it->second = data;
      g.values[node.output].type.shape = {shape.begin(), shape.end()};
      continue;
    }
    ir::Attrs attrs = node.attrs;
    for (const auto& [name, value] : node.attrs.items())
      if (const Shape* dims = std::get_if<Shape>(&value)) attrs.set(name, mapped(*dims));
    node.attrs = attrs;
    std::vector<ir::Type> types;
    for (const ValueId v : node.inputs) types.push_back(g.type(v));
    Result<ir::Type> type = ir::infer_type(node.op, types, node.attrs);
    if (!type.ok()) return std::nullopt;
    g.values[node.output].type = *type;
  }
  g.symbols.clear();
  return out;
}

namespace {

class Shrinker {
 public:
  Shrinker(Case c, const Outcome& outcome)
      : best_(std::move(c)), fault_(outcome.fault), error_(find_kind(outcome.message)) {}

  Case run() {
    for (bool changed = true; changed && !is_over();) {
      changed = keep_one_run();
      changed |= simplify_setting();
      changed |= fewer_outputs();
      changed |= outputs_earlier();
      changed |= nodes_become_leaves();
      changed |= nodes_become_operands();
      changed |= concrete();
      changed |= smaller_extents();
      changed |= inline_constants();
      changed |= simpler_values();
    }
    return best_;
  }

 private:
  bool is_over() const { return tries_ > kMaxTries || std::chrono::steady_clock::now() > end_; }

  bool attempt(MaybeCase c) {
    if (!c || is_over() || !ir::rebuild_order(c->graph)) return false;
    ++tries_;
    drop_unread_inputs(*c);
    c->graph = ir::compact(c->graph);
    const Outcome outcome = check_apart(*c);
    if (outcome.fault != fault_ || (fault_ == Fault::error && find_kind(outcome.message) != error_)) return false;
    best_ = std::move(*c);
    return true;
  }

  // Whether the change could be made at some i; it is made as often as it can.
  bool each(const std::function<std::size_t()>& count, const std::function<MaybeCase(std::size_t)>& change) {
    bool changed = false;
    for (std::size_t i = count(); i-- > 0;) {
      if (i >= count()) continue;
      changed |= attempt(change(i));
    }
    return changed;
  }

  bool keep_one_run() {
    return best_.runs.size() > 1 && each([&] { return best_.runs.size(); },
                                         [&](std::size_t i) -> MaybeCase {
                                           if (best_.runs.size() < 2) return std::nullopt;
                                           Case c = best_;
                                           c.runs = {best_.runs[i]};
                                           return c;
                                         });
  }

  bool simplify_setting() {
    bool changed = false;
    const auto with = [&](const std::function<bool(Setting&)>& edit) {
      Case c = best_;
      if (edit(c.setting)) changed |= attempt(c);
    };
    with([](Setting& s) { return std::exchange(s.call, Call::session) != Call::session; });
    with([](Setting& s) { return std::exchange(s.threads, 1) != 1; });
    with([](Setting& s) { return !std::exchange(s.target, "").empty(); });
    with([](Setting& s) { return std::exchange(s.numerics, Numerics::precise) != Numerics::precise; });
    with([](Setting& s) { return !std::exchange(s.use_library, true); });
    with([](Setting& s) { return !std::exchange(s.disabled_passes, {}).empty(); });
    return changed;
  }

  bool fewer_outputs() {
    return each([&] { return best_.graph.outputs.size(); },
                [&](std::size_t i) -> MaybeCase {
                  if (best_.graph.outputs.size() < 2) return std::nullopt;
                  Case c = best_;
                  c.graph.outputs.erase(c.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
                  c.graph.output_names.erase(c.graph.output_names.begin() + static_cast<std::ptrdiff_t>(i));
                  return c;
                });
  }

  // An operand of the node that makes the last output is the output instead.
  bool outputs_earlier() {
    bool changed = false;
    for (std::size_t slot = 0; slot < best_.graph.outputs.size(); ++slot)
      for (bool again = true; again;) {
        again = false;
        const ir::Node* node = best_.graph.producer(best_.graph.outputs[slot]);
        const std::size_t operands = node == nullptr ? 0 : node->inputs.size();
        for (std::size_t k = 0; k < operands && !again; ++k) {
          Case c = best_;
          c.graph.outputs[slot] = node->inputs[k];
          again = attempt(c);
        }
        changed |= again;
      }
    return changed;
  }

  // A node's result, as the evaluator computes it, as an input.
  bool nodes_become_leaves() {
    return each([&] { return best_.graph.order.size(); },
                [&](std::size_t i) -> MaybeCase {
                  Case c = best_;
                  const ir::Node node = c.graph.nodes[c.graph.order[i]];
                  if (node.inputs.empty()) return std::nullopt;
                  Case probe = c;
                  probe.graph.outputs = {node.output};
                  probe.graph.output_names = {"probe"};
                  std::vector<Tensor> values;
                  for (const Run& run : c.runs) {
                    auto value = ir::evaluate(probe.graph, run.inputs);
                    if (!value.ok()) return std::nullopt;
                    values.push_back((*value)[0]);
                  }
                  std::string name = "t" + std::to_string(++fresh_);
                  const ValueId leaf = ir::add_input(c.graph, name, c.graph.type(node.output));
                  for (std::size_t r = 0; r < c.runs.size(); ++r) c.runs[r].inputs.push_back(values[r]);
                  ir::replace_uses(c.graph, node.output, leaf);
                  // Symbols must still be found in a lone extent of an input; the check says.
                  return c;
                });
  }

  bool nodes_become_operands() {
    return each([&] { return best_.graph.order.size(); },
                [&](std::size_t i) -> MaybeCase {
                  Case c = best_;
                  const ir::Node node = c.graph.nodes[c.graph.order[i]];
                  for (const ValueId v : node.inputs) {
                    if (!(c.graph.type(v) == c.graph.type(node.output))) continue;
                    ir::replace_uses(c.graph, node.output, v);
                    return c;
                  }
                  return std::nullopt;
                });
  }

  // Symbols take the values of the only run.
  bool concrete() {
    if (best_.graph.symbols.empty() || best_.runs.size() > 1) return false;
    const auto symbols = ir::bind_symbols(best_.graph, best_.runs[0].inputs);
    if (!symbols.ok()) return false;
    return attempt(with_dims(best_, [&](const Dim& d) { return Dim(d.eval(*symbols).value_or(0)); }));
  }

  std::set<int64_t> extents() const {
    std::set<int64_t> out;
    for (const ir::Value& v : best_.graph.values)
      for (const Dim& d : v.type.shape)
        if (d.is_const() && d.value() > 1) out.insert(d.value());
    return out;
  }

  // One extent becomes smaller wherever it, or a multiple of it, stands.
  bool smaller_extents() {
    if (!best_.graph.symbols.empty()) return false;
    bool changed = false;
    const std::set<int64_t> all = extents();
    for (const int64_t from : all) {
      for (const int64_t to : {int64_t{1}, int64_t{2}, from / 2, from - 1}) {
        if (to >= from || to < 1) continue;
        const auto alone = [&](const Dim& d) { return d.is(from) ? Dim(to) : d; };
        const auto multiples = [&](const Dim& d) {
          return d.is_const() && d.value() > 0 && d.value() % from == 0 ? Dim(d.value() / from * to) : d;
        };
        if (attempt(resized(alone)) || attempt(resized(multiples))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  MaybeCase resized(const std::function<Dim(const Dim&)>& map) const {
    MaybeCase c = with_dims(best_, map);
    if (!c || !cut_inputs(*c, {})) return std::nullopt;
    return c;
  }

  // Constants that the text would only name become inputs.
  bool inline_constants() {
    return each([&] { return best_.graph.order.size(); },
                [&](std::size_t i) -> MaybeCase {
                  Case c = best_;
                  const ValueId v = c.graph.nodes[c.graph.order[i]].output;
                  const Tensor* data = c.graph.constant(v);
                  if (data == nullptr || data->num_elements() <= ir::kInlineElements) return std::nullopt;
                  const Tensor value = *data;
                  const ValueId leaf = ir::add_input(c.graph, "c" + std::to_string(++fresh_), c.graph.type(v));
                  for (Run& run : c.runs) run.inputs.push_back(value);
                  ir::replace_uses(c.graph, v, leaf);
                  return c;
                });
  }

  bool simpler_values() {
    bool changed = false;
    for (std::size_t i = 0; i < best_.graph.inputs.size(); ++i) {
      for (int kind = 0; kind < 4; ++kind) {
        Case c = best_;
        bool differs = false;
        for (Run& run : c.runs) differs |= simplify_tensor(run.inputs[i], kind);
        if (!differs || !attempt(c)) continue;
        changed = true;
        break;
      }
    }
    return changed;
  }

  // 0: zeros, 1: ones, 2: small counting numbers, 3: rounded to eighths.
  static bool simplify_tensor(Tensor& t, int kind) {
    const Tensor old = t;
    t = make_copy(t);
    const auto size = static_cast<int64_t>(size_of(t.dtype()));
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      char* at = t.as<char>() + i * size;
      const double x = ir::load_double(t.dtype(), at);
      if (kind == 3 && !is_float(t.dtype())) continue;
      const double value = kind == 0   ? 0
                           : kind == 1 ? 1
                           : kind == 2 ? static_cast<double>(i % 4)
                                       : std::nearbyint(x * 8) / 8;
      ir::store_double(t.dtype(), at, value);
    }
    return !std::equal(t.as<char>(), t.as<char>() + t.bytes(), old.as<char>());
  }

  Case best_;
  Fault fault_;
  std::string error_;
  int tries_ = 0, fresh_ = 0;
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kMaxTime;
};

std::string tensor_text(const Tensor& t) {
  std::string out = "{";
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out += (i == 0 ? "" : ", ") + ir::literal(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())));
  return out + "} " + to_string(Shape(t.shape().begin(), t.shape().end()));
}

}  // namespace

Case shrink(const Case& c, const Outcome& outcome) { return Shrinker(c, outcome).run(); }

std::string as_text(const Case& c) {
  std::string out;
  for (std::size_t i = 0; i < c.graph.inputs.size(); ++i)
    out += "// input " + c.graph.values[c.graph.inputs[i]].name + " = " + tensor_text(c.runs[0].inputs[i]) + "\n";
  return out + ir::print(c.graph);
}

std::string as_test(const Case& c) { return "test run\n" + as_text(c) + "====\n"; }

}  // namespace fusec::fuzz
