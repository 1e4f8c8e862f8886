// SPDX-License-Identifier: Apache-2.0
// What recognize_attention found of an attention, and the node that is made of it. Query, key and value lose their
// scales and repeated heads, and get the axes of the op; masks become one addend of the scores.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/known_values.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {

// What exporters write at least in the place of -infinity. Beside another score of its row, such a score has a weight
// of 0.
inline constexpr double kLowestScore = -1e4;

// An addend of the scores, times `scale`: a value, or 0 and `low` by a condition. It broadcasts to `at`, the shape of
// the scores where it is added: any axes in front, then queries and keys.
struct AttentionMask {
  ValueId value, condition;
  double low = 0, scale = 1;
  Shape at;
  bool zero_where = true;  // the condition's value where the addend is 0
};

struct AttentionParts {
  ValueId query, key, value;  // operands of the products, whose last two axes are positions and channels
  bool transpose_query = false, transpose_key = false, transpose_value = false;  // or the other way round
  Shape scores;                                                                  // of the product of query and key
  double scale = 1;
  std::vector<AttentionMask> masks;
  ValueId zeroed;  // a condition by rows of the result, which are 0 where it is true; invalid: none
  ir::Type out;
  std::string origin;
};

class AttentionOperands {
 public:
  explicit AttentionOperands(Graph& graph) : graph_(graph), values_(graph) {}

  // The result as a value of type parts.out; nullopt, and an unchanged graph, if the op does not express the parts or
  // `is_computed` says no.
  std::optional<ValueId> build(const AttentionParts& parts,
                               const std::function<bool(const ir::AttentionShape&)>& is_computed);

  // The value that a known condition has everywhere.
  std::optional<bool> splat(ValueId condition);
  // Whether a number or condition is known to be 0 everywhere.
  bool is_zero(ValueId v);
  // Whether the condition is known and has this value somewhere in each row along its last axis.
  bool keeps_a_score(ValueId condition, bool value);
  // Whether the condition has this value for the keys up to each query, counted from the last of both, and the other
  // for all behind it. `at`: the shape of the scores.
  bool is_causal(ValueId condition, bool value, const Shape& at);

 private:
  // A value behind index maps and products with numbers.
  struct Peeled {
    ValueId base;
    std::vector<NodeId> maps;  // that lead to the operand, the last one first
    double factor = 1;
  };
  // The axes of the op.
  struct Heads {
    Dim batch, heads, shared;
  };

  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs = {});
  Peeled peeled(ValueId v) const;
  std::optional<double> number(ValueId v) const;
  bool is_zero(const AttentionMask& mask);
  bool is_small(const AttentionMask& mask) const;
  bool sums_fit(const AttentionParts& parts);
  bool is_causal(const AttentionMask& mask);
  bool is_causal(const AttentionParts& parts);

  std::optional<Heads> find_heads(const AttentionParts& parts, const Shape& key, const Shape& value) const;
  ValueId operand(const Peeled& from, bool transposed, const Shape& front, const Shape& to);
  ValueId rebuilt(const Peeled& from);
  ValueId transposed(ValueId v, std::vector<int64_t> perm);
  ValueId viewed(ValueId v, const Shape& to);
  std::optional<Dim> sharing(ValueId v) const;
  ValueId unshared(ValueId v, const Dim& shared);

  bool fits(const AttentionMask& mask, const Heads& heads) const;
  ValueId addend(const AttentionMask& mask, const Heads& heads, DType dtype);
  ValueId with_heads(ValueId mask, const Shape& at, const Heads& heads);

  Graph& graph_;
  KnownValues values_;
  std::string origin_;
};

}  // namespace fusec::compiler
