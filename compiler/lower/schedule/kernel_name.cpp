// SPDX-License-Identifier: Apache-2.0
// Lower: names kernels by what their regions compute. The words come from the op table, so names need no care when ops
// are added; combinations that models spell out in several ops have their words here.

#include "compiler/lower/schedule/kernel_name.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/schedule/schedule.h"
#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "ir/support/hash.h"

namespace fusec::compiler {

namespace {

struct Word {
  std::string text;
  int weight = 0;  // the lightest words are left out first
};

constexpr int kMoveWeight = 5;
constexpr int kReductionWeight = 30;  // above every scalar op but the costliest functions
constexpr int kCombinationWeight = 1000;

// --- the family ------------------------------------------------------------------------------------------------------

bool has_scan(const Block& block) {
  bool found = false;
  for_each_stmt(block, [&](const Stmt& stmt) { found |= std::holds_alternative<ir::Scan>(stmt.v); });
  return found;
}

// By the facts that choose the schedule. Of several loop nests, the one whose family comes first here counts.
std::string find_family(const LoopNest& nest) {
  bool scans = false, columns = false, rows = false, transposes = false;
  for (const Stmt& stmt : nest.kernel.body) {
    if (!std::holds_alternative<ir::Loop>(stmt.v)) continue;
    const PerfectNest loops = peel_loops(stmt);
    const bool reduces = has_reduction(loops.body);
    scans |= has_scan(loops.body);
    columns |= reduces && columns_along(loops).has_value();
    rows |= reduces;
    transposes |= !reduces && strided_across(loops).has_value();
  }
  return scans ? "scan" : columns ? "column" : rows ? "row" : transposes ? "transpose" : "pointwise";
}

// --- the ops ---------------------------------------------------------------------------------------------------------

// The row's name as a word of a name: "and_" is "and", "reduce_sum" is "sum", "gather_nd" is "gather".
std::string spelled(std::string_view name) {
  constexpr std::string_view kReduce = "reduce_", kGather = "gather";
  if (name.starts_with(kReduce)) name.remove_prefix(kReduce.size());
  if (name.starts_with(kGather)) name = kGather;
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::string(name);
}

int count_cost(const ir::DefNode& node) {
  int cost = node.kind == ir::DefNode::Kind::op ? info(node.op).cost : 0;
  for (const ir::DefNode& arg : node.args) cost += count_cost(arg);
  return cost;
}

std::optional<Word> word_of(const Node& node) {
  static const std::set<TensorOp> silent = {TensorOp::constant, TensorOp::iota, TensorOp::dim, TensorOp::broadcast,
                                            TensorOp::reshape};
  const std::string text = spelled(node.op.name());
  if (node.op.is_scalar()) {
    const ScalarOp op = node.op.scalar();
    if (op == ScalarOp::cast) return std::nullopt;
    return Word{text, info(op).is_definition ? count_cost(ir::definition(op)) : info(op).cost};
  }
  if (silent.contains(node.op.tensor())) return std::nullopt;
  return Word{text, is_kind(node.op, ir::OpPattern::reduction) ? kReductionWeight : kMoveWeight};
}

struct Combination {
  const char* name;
  // In order; others may lie between. Each is a list of alternatives.
  std::vector<std::set<std::string>> words;
};

const std::vector<Combination>& combinations() {
  static const std::set<std::string> square = {"square", "mul", "pow"}, root = {"sqrt", "rsqrt", "pow"},
                                     divide = {"div", "mul"};
  static const std::vector<Combination> all = {
      {"log_softmax", {{"max"}, {"sub"}, {"exp"}, {"sum"}, {"log"}, {"sub"}}},
      {"softmax", {{"max"}, {"sub"}, {"exp"}, {"sum"}, divide}},
      {"norm", {{"mean"}, {"sub"}, square, {"mean"}, {"add"}, root, divide}},
      {"norm", {{"mean"}, {"sub"}, square, {"mean"}, root, divide}},
      {"rms_norm", {square, {"mean"}, {"add"}, root, divide}},
  };
  return all;
}

// The positions of a combination's words, if all of them are there in order.
std::vector<std::size_t> find(const Combination& combination, const std::vector<Word>& words) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < words.size() && at.size() < combination.words.size(); ++i)
    if (combination.words[at.size()].contains(words[i].text)) at.push_back(i);
  return at.size() == combination.words.size() ? at : std::vector<std::size_t>();
}

// Puts the combination's word in the place of its last op, behind what prepares its operands.
void combine(std::vector<Word>& words) {
  for (const Combination& combination : combinations()) {
    for (auto at = find(combination, words); !at.empty(); at = find(combination, words)) {
      words[at.back()] = {combination.name, kCombinationWeight};
      for (std::size_t i = at.size() - 1; i-- > 0;) words.erase(words.begin() + static_cast<std::ptrdiff_t>(at[i]));
    }
  }
}

// The nodes of the region that make a matrix product, whose family says as much.
std::set<NodeId> find_product(const Graph& graph, const Region& region, bool any) {
  std::set<NodeId> nodes;
  for (const NodeId id : region.nodes)
    if (is_product_sum(graph, graph.nodes[id], any))
      nodes.insert({id, graph.values[graph.nodes[id].inputs[0]].producer});
  return nodes;
}

std::vector<Word> collect_words(const Graph& graph, const Region& region, std::set<std::string> known,
                                const std::set<NodeId>& silent) {
  std::vector<Word> words, distinct;
  for (const NodeId id : region.nodes)
    if (auto word = silent.contains(id) ? std::nullopt : word_of(graph.nodes[id])) words.push_back(std::move(*word));
  combine(words);
  for (Word& word : words)
    if (known.insert(word.text).second) distinct.push_back(std::move(word));
  return distinct;
}

// --- the whole -------------------------------------------------------------------------------------------------------

std::optional<DType> first_dtype(const ir::Kernel& kernel, const std::function<bool(const ir::Buffer&)>& suits) {
  for (const ir::BufferId id : kernel.params)
    if (suits(kernel.buffers[id])) return kernel.buffers[id].dtype;
  return std::nullopt;
}

std::string find_dtype(const ir::Kernel& kernel) {
  const auto first_float = first_dtype(kernel, [](const ir::Buffer& b) { return is_float(b.dtype); });
  const auto first = first_float ? first_float : first_dtype(kernel, [](const ir::Buffer&) { return true; });
  return first ? std::string(to_string(*first)) : "none";
}

// The word of a kernel that computes nothing.
std::string find_move(const ir::Kernel& kernel) {
  const auto in = first_dtype(kernel, [](const ir::Buffer& b) { return b.space == ir::Space::in; });
  const auto out = first_dtype(kernel, [](const ir::Buffer& b) { return b.space == ir::Space::out; });
  return !in ? "fill" : in == out ? "copy" : "cast";
}

std::string join(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += "_" + word.text;
  return text;
}

// Leaves out the lightest word, the last of several, until the rest fits.
std::string shortened(std::vector<Word> words, std::size_t room) {
  while (words.size() > 1 && join(words).size() > room) {
    auto lightest = words.begin();
    for (auto word = words.begin(); word != words.end(); ++word)
      if (word->weight <= lightest->weight) lightest = word;
    words.erase(lightest);
  }
  return join(words).substr(0, room);
}

}  // namespace

std::string make_name_stem(const ir::Graph& graph, const Region& region, const LoopNest& nest) {
  const std::set<NodeId> product = find_product(graph, region, nest.multiplies);
  const bool attends = graph.nodes[region.nodes[0]].op == TensorOp::attention;
  const std::string family = attends           ? "attention"
                             : product.empty() ? find_family(nest)
                                               : "product",
                    dtype = "_" + find_dtype(nest.kernel);
  std::vector<Word> words = collect_words(graph, region, {family}, product);
  if (words.empty() && family == "pointwise") words.push_back({find_move(nest.kernel), 0});
  return family + shortened(std::move(words), kMaxKernelName - family.size() - dtype.size() - 1 - kNameDigits) + dtype;
}

std::string make_kernel_name(const std::string& stem, const std::string& canonical_text, std::size_t digits) {
  return stem + "_" + ir::to_hex(ir::sha256(canonical_text)).substr(0, digits);
}

}  // namespace fusec::compiler
