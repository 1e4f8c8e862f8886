// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph the provider runs. The answer is exact, because it is made by compiling.
#pragma once

#include <string>
#include <vector>

#include "bindings/onnxruntime/piece.h"

namespace fusec::ort {

struct Capability {
  std::vector<Piece> pieces;
  std::vector<int> contexts;         // EPContext nodes that hold packages of fusec
  std::vector<std::string> reasons;  // for each node of the graph, why it is left to others; "" where it is not
};

// Where `refused` is a reason, it holds for all nodes.
Capability find_capability(const Api& api, const Graph& graph, const Settings& settings, const std::string& refused);

// What a session is told: how many nodes were taken, and why others were not.
class Report {
 public:
  // ONNX Runtime asks for all graphs again: what was left to others may be taken now.
  void begin_again();
  void add(const Graph& graph, const Capability& capability);
  void add_compiled_kernels(int64_t count) { compiled_kernels_ += count; }
  bool is_complete() const { return left_.empty(); }
  // "12 of 14 nodes run in 2 pieces, 3 kernels were compiled; left to others: 2 x Sin (no rule for it), first 'a'".
  std::string text() const;
  // Of the nodes that are left to others: "'a' (Sin): no rule for it".
  std::string first_left() const { return first_left_; }

 private:
  struct Left {
    std::string op, reason, first;
    int64_t count = 0;
  };
  int64_t taken_ = 0, pieces_ = 0, compiled_kernels_ = 0;
  std::vector<Left> left_;
  std::string first_left_;
};

}  // namespace fusec::ort
