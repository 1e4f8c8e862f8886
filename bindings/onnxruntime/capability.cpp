// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/capability.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "bindings/onnxruntime/attributes.h"
#include "bindings/onnxruntime/context.h"
#include "bindings/onnxruntime/onnx_model.h"
#include "bindings/onnxruntime/pieces.h"

namespace fusec::ort {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Search {
 public:
  Search(const Api& api, const Graph& graph, const Settings& settings)
      : api_(api), graph_(graph), settings_(settings), wanted_(graph.nodes.size()) {
    found_.reasons.resize(graph.nodes.size());
  }

  Capability run(const std::string& refused) {
    if (!refused.empty()) {
      for (std::size_t n = 0; n < graph_.nodes.size(); ++n) refuse(n, refused);
      return std::move(found_);
    }
    choose_readable();
    ask_fusec(wanted_nodes());
    while (compile_all()) {
    }
    return std::move(found_);
  }

 private:
  std::vector<int> wanted_nodes() const {
    std::vector<int> nodes;
    for (std::size_t n = 0; n < wanted_.size(); ++n) {
      if (wanted_[n]) nodes.push_back(static_cast<int>(n));
    }
    return nodes;
  }

  void refuse(std::size_t node, std::string reason) {
    wanted_[node] = false;
    found_.reasons[node] = std::move(reason);
  }

  // Nodes that can stand in an ONNX model whose inputs are tensors of known types and ranks.
  void choose_readable() {
    std::vector<bool> made(graph_.values.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.taken) continue;
      std::string reason = node.refused;
      if (is_context_node(node)) {
        const std::string source = string_attribute(api_, node.handle, "source");
        if (source == kProviderName) {
          found_.contexts.push_back(static_cast<int>(n));
          continue;
        }
        reason = "it holds a model that '" + source + "' compiled";
      }
      if (reason.empty()) reason = unreadable_input(node, made);
      if (!reason.empty()) {
        refuse(n, std::move(reason));
        continue;
      }
      wanted_[n] = true;
      for (const int output : node.outputs) {
        if (output != kAbsent) made[at(output)] = true;
      }
    }
  }

  std::string unreadable_input(const Node& node, const std::vector<bool>& made) const {
    for (const int input : node.inputs) {
      if (input == kAbsent || made[at(input)]) continue;
      const Value& value = graph_.values[at(input)];
      if (!has_dtype(value.type.element)) return "fusec lacks the element type of '" + value.name + "'";
      if (!value.type.ranked) return "the rank of '" + value.name + "' is not known";
    }
    return "";
  }

  // Drops nodes that fusec does not take. Answers whether there were any.
  bool ask_fusec(const std::vector<int>& nodes) {
    if (nodes.empty()) return false;
    bool dropped = false;
    try {
      const std::vector<std::string> reasons = unsupported_reasons(graph_, nodes, settings_);
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        // The question sees weights as inputs; what needs their contents is asked by compiling it.
        if (reasons[i].empty() || (reads_weight(nodes[i]) && compiles({nodes[i]}))) continue;
        refuse(at(nodes[i]), reasons[i]);
        dropped = true;
      }
    } catch (const Failure&) {  // what is read cannot be an input; compiling tells for which node
    }
    return dropped;
  }

  bool reads_weight(int node) const {
    const std::vector<int>& inputs = graph_.nodes[at(node)].inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](int input) { return input != kAbsent && goes_beside_model(graph_.values[at(input)]); });
  }

  // Drops nodes of a piece that read what other pieces make and what cannot be an input.
  bool drop_unreadable(const std::vector<int>& nodes) {
    bool dropped = false;
    std::vector<bool> made(graph_.values.size());
    for (const int index : nodes) {
      const Node& node = graph_.nodes[at(index)];
      std::string reason = unreadable_input(node, made);
      dropped = dropped || !reason.empty();
      if (!reason.empty()) refuse(at(index), std::move(reason));
      for (const int output : node.outputs) {
        if (output != kAbsent) made[at(output)] = true;
      }
    }
    return dropped;
  }

  // Answers whether pieces have to be formed anew, because nodes were dropped.
  bool compile_all() {
    bool dropped = false;
    std::vector<Piece> pieces;
    for (std::vector<int>& nodes : find_pieces(graph_, wanted_)) {
      if (std::optional<Piece> known = take_known(nodes)) {
        pieces.push_back(std::move(*known));
      } else if (drop_unreadable(nodes)) {
        dropped = true;
      } else {
        dropped = !compile(nodes, pieces) || dropped;
      }
    }
    found_.pieces = std::move(pieces);
    return dropped;
  }

  // Answers false where it dropped nodes instead.
  bool compile(const std::vector<int>& nodes, std::vector<Piece>& pieces) {
    try {
      pieces.push_back(compile_piece(graph_, nodes, settings_));
      return true;
    } catch (const Failure& failure) {
      if (!ask_fusec(nodes)) refuse(at(find_culprit(nodes)), failure.message);
      return false;
    }
  }

  std::optional<Piece> take_known(const std::vector<int>& nodes) {
    const auto known = std::find_if(found_.pieces.begin(), found_.pieces.end(),
                                    [&](const Piece& piece) { return piece.nodes == nodes && piece.compiled; });
    if (known == found_.pieces.end()) return std::nullopt;
    return std::move(*known);
  }

  // The node with which the piece cannot be compiled any more, as its nodes are added one by one.
  int find_culprit(const std::vector<int>& nodes) const {
    std::size_t good = 0, bad = nodes.size();
    while (good + 1 < bad) {
      const std::size_t middle = (good + bad) / 2;
      (compiles({nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(middle)}) ? good : bad) = middle;
    }
    return nodes[bad - 1];
  }

  bool compiles(const std::vector<int>& nodes) const {
    try {
      compile_piece(graph_, nodes, settings_);
      return true;
    } catch (const Failure&) {
      return false;
    }
  }

  const Api& api_;
  const Graph& graph_;
  const Settings& settings_;
  std::vector<bool> wanted_;
  Capability found_;
};

}  // namespace

Capability find_capability(const Api& api, const Graph& graph, const Settings& settings, const std::string& refused) {
  return Search(api, graph, settings).run(refused);
}

void Report::begin_again() {
  left_.clear();
  first_left_.clear();
}

void Report::add(const Graph& graph, const Capability& capability) {
  pieces_ += static_cast<int64_t>(capability.pieces.size() + capability.contexts.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.taken) continue;
    const std::string& reason = capability.reasons[n];
    if (reason.empty()) {
      ++taken_;
      continue;
    }
    if (first_left_.empty()) first_left_ = "'" + node.label() + "' (" + node.op + "): " + reason;
    const auto known = std::find_if(left_.begin(), left_.end(),
                                    [&](const Left& left) { return left.op == node.op && left.reason == reason; });
    Left& left = known != left_.end() ? *known : left_.emplace_back(Left{node.op, reason, node.label(), 0});
    ++left.count;
  }
}

std::string Report::text() const {
  constexpr std::size_t kMaxReasons = 8;
  int64_t nodes = taken_;
  for (const Left& left : left_) nodes += left.count;
  std::string text = std::to_string(taken_) + " of " + std::to_string(nodes) + " nodes run in " +
                     std::to_string(pieces_) + (pieces_ == 1 ? " piece, " : " pieces, ") +
                     std::to_string(compiled_kernels_) + " kernels were compiled";
  for (std::size_t i = 0; i < std::min(left_.size(), kMaxReasons); ++i) {
    const Left& left = left_[i];
    text += (i == 0 ? "; left to others: " : "; ") + std::to_string(left.count) + " x " + left.op + ", first '" +
            left.first + "': " + left.reason;
  }
  if (left_.size() > kMaxReasons) text += "; and " + std::to_string(left_.size() - kMaxReasons) + " more reasons";
  return text;
}

}  // namespace fusec::ort
