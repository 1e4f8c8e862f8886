// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/variant.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "tests/fuzz/random.h"
#include "tests/fuzz/shrink.h"

namespace fusec::fuzz {
namespace {

using ir::Graph;
using ir::ValueId;

constexpr std::array<const char*, 7> kNames = {"nothing",  "unfused", "narrow",     "shuffled",
                                               "permuted", "fixed",   "specialized"};

// The optimizer's passes, each once in any order; the pipeline follows when the case is compiled.
Status shuffle_passes(Case& c, Random& random) {
  FUSEC_ASSIGN(const Target target, named_target(c.setting.target.empty() ? "x86-64-v3" : c.setting.target));
  Options options;
  options.numerics = c.setting.numerics;
  options.use_library = c.setting.use_library;
  options.verify_each_pass = true;
  std::vector<const compiler::Pass*> passes;
  for (const compiler::Pass& pass : compiler::pipeline()) {
    const auto& disabled = c.setting.disabled_passes;
    if (std::find(disabled.begin(), disabled.end(), pass.name) == disabled.end()) passes.push_back(&pass);
  }
  random.shuffle(passes);
  for (const compiler::Pass* pass : passes)
    FUSEC_TRY(compiler::run_pass(*pass, c.graph, {target, options, nullptr}).status());
  c.graph = compact(c.graph);
  return {};
}

// Every input comes with its axes in another order and is turned back by a transpose.
Status permute_inputs(Case& c, Random& random) {
  const std::vector<ValueId> inputs = c.graph.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Type type = c.graph.type(inputs[i]);
    std::vector<int64_t> there(type.shape.size()), back(type.shape.size());
    std::iota(there.begin(), there.end(), 0);
    random.shuffle(there);
    Shape shape;
    for (std::size_t axis = 0; axis < there.size(); ++axis) {
      back[static_cast<std::size_t>(there[axis])] = static_cast<int64_t>(axis);
      shape.push_back(type.shape[static_cast<std::size_t>(there[axis])]);
    }
    const std::string name = c.graph.values[inputs[i]].name;
    const ValueId turned = add_input(c.graph, name, {type.dtype, shape});
    c.graph.inputs.pop_back();
    const ValueId value = add_node(c.graph, ir::TensorOp::transpose, {turned}, {{"perm", back}});
    replace_uses(c.graph, inputs[i], value);
    c.graph.inputs[i] = turned;
    for (Run& run : c.runs) {
      Tensor view = run.inputs[i];
      std::vector<int64_t> extents, strides;
      for (const int64_t axis : there) {
        extents.push_back(view.shape()[static_cast<std::size_t>(axis)]);
        strides.push_back(view.strides()[static_cast<std::size_t>(axis)]);
      }
      FUSEC_ASSIGN(run.inputs[i], ir::contiguous(Tensor::borrow(view.dtype(), extents, view.data(), strides)));
    }
  }
  return rebuild_order(c.graph) ? Status() : Status(StatusCode::internal, "transposed inputs made a cycle");
}

// Symbols become the numbers of a run: a case for each.
Result<std::vector<Case>> with_numbers(const Case& c) {
  std::vector<Case> out;
  for (const Run& run : c.runs) {
    FUSEC_ASSIGN(const ir::SymbolBindings symbols, ir::bind_symbols(c.graph, run.inputs));
    std::optional<Case> numbers = with_dims(c, [&](const Dim& d) { return Dim(d.eval(symbols).value_or(0)); });
    if (!numbers) return Status(StatusCode::internal, "the graph does not take the numbers of its symbols");
    numbers->runs = {run};
    out.push_back(std::move(*numbers));
  }
  return out;
}

}  // namespace

std::optional<Beside> find_beside(const std::string& name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Beside>(found - kNames.begin());
}

Result<std::vector<Case>> variants(const Case& c, Beside beside) {
  Random random(c.seed ^ 0x5eed);
  Case other = c;
  other.setting.beside = Beside::nothing;
  if (beside == Beside::fixed) return with_numbers(other);
  Status status;
  if (beside == Beside::unfused) other.setting.fuse = false;
  if (beside == Beside::narrow) other.setting.narrow = true;
  if (beside == Beside::specialized) other.setting.specialize = true;
  if (beside == Beside::shuffled) status = shuffle_passes(other, random);
  if (beside == Beside::permuted) status = permute_inputs(other, random);
  if (!status.ok()) return status;
  return std::vector<Case>{std::move(other)};
}

bool same_bits(const Case& c, Beside beside) {
  if (beside == Beside::unfused) return c.setting.numerics == Numerics::exact;
  if (beside == Beside::specialized) return true;
  // A library chooses its sums by the machine; without machine code there is none.
  return beside == Beside::narrow && (c.setting.kernel_evaluator || !c.setting.use_library);
}

const char* to_string(Beside beside) { return kNames[static_cast<std::size_t>(beside)]; }

}  // namespace fusec::fuzz
