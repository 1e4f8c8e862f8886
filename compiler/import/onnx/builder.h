// SPDX-License-Identifier: Apache-2.0
// Builder: a Graph under construction. Values known at import are kept outside the graph: constants as Tensors, shape
// arithmetic as Dims. Such a value becomes a node only when a node of the graph needs it as data.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/fold.h"
#include "fusec/onnx.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

// A handle to a value of the Builder.
struct Val {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  bool operator==(const Val&) const = default;
};

class Builder {
 public:
  explicit Builder(const ImportOptions& options) : options_(&options) {}
  // Before the first node.
  void set_limits(ir::Limits limits);

  Val input(const std::string& name, ir::Type type);
  Val constant(Tensor data, std::string name = {});  // the name of an initializer
  Val scalar(DType dtype, double value);             // rank 0
  // Makes an integer or bool tensor of constant shape from its row-major elements.
  Val integers(DType dtype, const std::vector<int64_t>& shape, std::vector<Dim> elements);

  // Throws ImportError when the op does not take these operands. If all operands are known and small, the result is
  // computed and no node is added.
  Val emit(ir::Op op, const std::vector<Val>& inputs, ir::Attrs attrs = {});

  const ir::Type& type(Val v) const { return at(v).type; }
  const Shape& shape(Val v) const { return at(v).type.shape; }
  DType dtype(Val v) const { return at(v).type.dtype; }
  int64_t rank(Val v) const { return at(v).type.rank(); }
  const Tensor* data(Val v) const {
    at(v).is_used = true;
    return at(v).data ? &*at(v).data : nullptr;
  }
  // The elements of a short integer or bool value that is known at import, else nullopt.
  std::optional<std::vector<Dim>> known_integers(Val v) const;

  // Throws ImportError for a type whose rank or size exceeds a limit.
  void check_size(const ir::Type& type) const;

  ir::ValueId in_graph(Val v);
  // Attributes the nodes emitted from here on to one op of the file. Each call starts another op.
  void begin_op(std::string origin);

  // Returns the graph with only live nodes and with imported_ops set.
  ir::Graph finish(const std::vector<std::pair<std::string, Val>>& outputs);
  const ImportOptions& options() const { return *options_; }
  Decider decider() const { return Decider(ranges_); }
  const std::vector<std::string>& symbols() const { return graph_.symbols; }  // in order of first use

 private:
  struct Operand {
    ir::Type type;
    ir::ValueId value;                     // invalid until it enters the graph
    std::optional<Tensor> data;            // contents of a constant
    std::optional<std::vector<Dim>> dims;  // contents of integers over symbols
    std::string name = {};                 // of an initializer
    mutable bool is_used = false;          // its contents decided what was imported
  };
  Operand& at(Val v);
  const Operand& at(Val v) const;
  Val push(Operand operand);
  // The extents in the short form that the limits allow.
  std::vector<Dim> assumed(std::vector<Dim> dims) const;
  ir::Type checked_type(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs) const;
  std::optional<Val> fold_data(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs, const ir::Type& type);
  std::optional<Val> fold_dims(ir::Op op, const std::vector<Val>& inputs, const ir::Attrs& attrs, const ir::Type& type);
  ir::ValueId add_node(ir::Op op, std::vector<ir::ValueId> inputs, ir::Attrs attrs, uint32_t owner);
  ir::ValueId spell_out(const Operand& operand);
  int64_t count_ops() const;

  const ImportOptions* options_;
  ir::Limits limits_;
  DimRanges ranges_;  // what they say
  ir::Graph graph_;
  std::deque<Operand> operands_;
  std::vector<uint32_t> owners_;  // by node: the op of the file it came from, 0 for none
  uint32_t op_ = 0;
  std::string origin_;
  int64_t folded_bytes_ = 0;
};

}  // namespace fusec::importer
