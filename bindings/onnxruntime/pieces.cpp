// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/pieces.h"

#include <algorithm>
#include <limits>
#include <map>

namespace fusec::ort {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Every node has a level. No edge goes to a lower level, and an edge from a wanted node to another one goes to a higher
// one. So all that leads from a wanted node of a level to a wanted node of the same level is wanted and of that level,
// which makes the wanted nodes of a level a convex piece, and the levels an order in which pieces can run.
class Levels {
 public:
  Levels(const Graph& graph, const std::vector<bool>& wanted)
      : graph_(graph), wanted_(wanted), level_(graph.nodes.size()), users_(graph.nodes.size()) {
    std::vector<int> producer(graph.values.size(), -1);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (const auto* list : {&node.inputs, &node.outer_inputs}) {
        for (const int value : *list) {
          if (value == kAbsent || producer[at(value)] < 0) continue;
          const std::size_t from = at(producer[at(value)]);
          users_[from].push_back(static_cast<int>(n));
          level_[n] = std::max(level_[n], level_[from] + steps(from, n));
        }
      }
      for (const int value : node.outputs) {
        if (value != kAbsent) producer[at(value)] = static_cast<int>(n);
      }
    }
  }

  // Shape arithmetic goes to the level that uses it: a shape that came in from another piece would be numbers that are
  // known when the model runs, and what is shaped by it could not be compiled.
  void move_shapes_to_users() {
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!wanted_[n] || users_[n].empty() || !is_shape_arithmetic(graph_.nodes[n])) continue;
      int latest = std::numeric_limits<int>::max();
      for (const int user : users_[n]) latest = std::min(latest, level_[at(user)] - steps(n, at(user)));
      level_[n] = std::max(level_[n], latest);
    }
  }

  std::vector<std::vector<int>> pieces() const {
    std::map<int, std::vector<int>> pieces;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (wanted_[n]) pieces[level_[n]].push_back(static_cast<int>(n));
    }
    std::vector<std::vector<int>> out;
    for (auto& [level, nodes] : pieces) out.push_back(std::move(nodes));
    return out;
  }

 private:
  int steps(std::size_t from, std::size_t to) const { return wanted_[from] && !wanted_[to] ? 1 : 0; }

  bool is_shape_arithmetic(const Node& node) const {
    constexpr int kInt32 = 6, kInt64 = 7;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](int value) {
      if (value == kAbsent) return true;
      const Value& output = graph_.values[at(value)];
      const bool is_integer = output.type.element == kInt64 || output.type.element == kInt32;
      return is_integer && output.type.dims.size() <= 1 && !output.is_graph_output;
    });
  }

  const Graph& graph_;
  const std::vector<bool>& wanted_;
  std::vector<int> level_;
  std::vector<std::vector<int>> users_;
};

}  // namespace

std::vector<std::vector<int>> find_pieces(const Graph& graph, const std::vector<bool>& wanted) {
  Levels levels(graph, wanted);
  levels.move_shapes_to_users();
  return levels.pieces();
}

}  // namespace fusec::ort
