// SPDX-License-Identifier: Apache-2.0
// The table of ONNX ops, and the view of a node that its import handler gets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/proto.h"

namespace fusec::importer {

struct OpRow;

// One node under import. All members throw ImportError on a model that breaks the rules.
class NodeContext {
 public:
  NodeContext(Builder& builder, const proto::NodeProto& node, const OpRow& row, int64_t opset,
              const TensorSource& source, std::vector<Val> inputs)
      : b(builder),
        node_(&node),
        row_(&row),
        opset_(opset),
        source_(&source),
        inputs_(std::move(inputs)),
        outputs_(static_cast<std::size_t>(node.output_size())) {}

  Builder& b;

  const OpRow& row() const { return *row_; }
  int64_t opset() const { return opset_; }

  std::size_t num_inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  Val in(std::size_t i) const;
  const std::vector<Val>& inputs() const { return inputs_; }

  bool wants(std::size_t output) const;  // whether the node names it
  std::size_t num_outputs() const { return outputs_.size(); }
  void out(Val value) { out(0, value); }
  void out(std::size_t i, Val value);
  const std::vector<Val>& outputs() const { return outputs_; }

  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  int64_t i(std::string_view name, int64_t otherwise) const;
  double f(std::string_view name, double otherwise) const;
  std::string s(std::string_view name, std::string otherwise) const;
  std::optional<std::vector<int64_t>> ints(std::string_view name) const;
  std::optional<std::vector<double>> floats(std::string_view name) const;
  std::optional<Tensor> tensor(std::string_view name) const;

  // Contents of an input that must be known at import; `what` names it in the error.
  std::vector<int64_t> const_ints(std::size_t i, const char* what) const;
  std::vector<Dim> dims(std::size_t i, const char* what) const;
  double const_float(std::size_t i, const char* what) const;

  // Reads attribute `name` or, if there is none, input i. Later versions of ONNX ops take axes and the like as inputs.
  std::optional<std::vector<int64_t>> attr_or_input(std::string_view name, std::size_t i) const;

 private:
  const proto::AttributeProto* find(std::string_view name) const;
  const proto::AttributeProto* find(std::string_view name, proto::AttributeProto::AttributeType type) const;

  const proto::NodeProto* node_;
  const OpRow* row_;
  int64_t opset_;
  const TensorSource* source_;
  std::vector<Val> inputs_, outputs_;
};

using Handler = void (*)(NodeContext&);

// A row of ops.def.
struct OpRow {
  std::string_view name;
  std::string_view since;  // versions of its definition that the handler knows, from opset 6 on: "6 7 13 14"
  Handler handler;
  std::optional<ir::Op> op;  // set for rows that map to one op of ours
};

std::span<const OpRow> all_onnx_ops();             // sorted by name
const OpRow* find_onnx_op(std::string_view name);  // of the default domain
bool knows_version(const OpRow& row, int64_t since);

// A model of an opset below kWholeOpset is read if all its ops already had the definitions that kWholeOpset has.
inline constexpr int64_t kMinOpset = 1, kWholeOpset = 6, kMaxOpset = 28;

// Handlers. Each row of ops.def names one.
#define ONNX_OP(name, since, handler) void handler(NodeContext&);
#define ONNX_MAP(name, since, handler, op) void handler(NodeContext&);
#include "compiler/import/onnx/ops.def"

// Normalizes an axis to 0 <= axis < rank; negative axes count from the end.
int64_t normal_axis(int64_t axis, int64_t rank);
std::vector<int64_t> normal_axes(const std::vector<int64_t>& axes, int64_t rank);  // sorted and distinct

}  // namespace fusec::importer
