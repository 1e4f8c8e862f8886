// SPDX-License-Identifier: Apache-2.0
// What reads the result of a library's product: for passes that change where the result lies, or what follows it.
#pragma once

#include <optional>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "ir/library/capabilities.h"

namespace fusec::compiler {

class ProductReaders {
 public:
  // `users`: of the graph as it is when the questions are asked.
  ProductReaders(const Graph& graph, const PassContext& context,
                 const ir::IdVector<ValueId, std::vector<NodeId>>& users);

  // Whether the readers of the product take it as a part of longer rows without a further kernel.
  bool take_parts(ValueId product) const;
  // Whether generated kernels read the product, even if its call computes what it can of the ops behind it.
  bool are_kernels(ValueId product) const { return read_by_kernels(behind_epilogues(product)); }
  // Whether operand `i` of the call may lie like this.
  bool reads(const Node& call, std::size_t i, const StridedView& view) const;

 private:
  // How a value would lie in memory, as a product of its own and as a part; nullopt: no strides express it.
  struct Views {
    std::optional<StridedView> whole, part;
  };

  bool is_output(ValueId v) const;
  ValueId behind_epilogues(ValueId v) const;
  bool read_by_kernels(ValueId v) const;
  bool takes_part(ValueId v, const Views& views, std::size_t& seen) const;

  const Graph& graph_;
  const ir::IdVector<ValueId, std::vector<NodeId>>& users_;
  const ir::StrideLimits limits_;
  std::vector<const ir::LibraryCapabilities*> libraries_;  // that multiply matrices
};

}  // namespace fusec::compiler
