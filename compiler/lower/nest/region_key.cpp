// SPDX-License-Identifier: Apache-2.0
// Lower: writes the key of a region, by which regions that differ only in their values share one kernel. The key must
// contain everything that lower reads of a region.

#include <algorithm>
#include <set>

#include "compiler/lower/nest/nest.h"
#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "ir/text/lexer.h"

namespace fusec::compiler {

namespace {

// Values keep their order, because lower visits some of them by rising id.
class KeyWriter {
 public:
  KeyWriter(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region)
      : graph_(graph), storage_(storage), region_(region), nodes_(region.nodes.begin(), region.nodes.end()) {}

  RegionKey write() {
    for (NodeId id : region_.nodes) reach(graph_.nodes[id].output);
    key_.values.assign(reached_.begin(), reached_.end());
    for (NodeId id : region_.nodes) number(graph_.nodes[id].output);
    key_.text += ';';
    for (ValueId v : region_.outputs) number(v);
    for (ValueId v : key_.values) describe(v);
    return std::move(key_);
  }

 private:
  // Whether the walk continues to the operands of a value. It ends at values in memory, except at index maps: these may
  // be views of what the region computes.
  bool goes_on(ValueId v, const Node& node) const {
    return nodes_.contains(graph_.values[v].producer) || !storage_.contains(v) ||
           (!node.op.is_scalar() && is_plain_map(node.op));
  }

  void reach(ValueId v) {
    if (!reached_.insert(v).second) return;
    if (const auto at = storage_.find(v); at != storage_.end()) reach(at->second.base);
    const Node* node = graph_.producer(v);
    if (node == nullptr || !goes_on(v, *node)) return;
    for (ValueId input : node->inputs) reach(input);
  }

  void number(ValueId v) {
    key_.text +=
        std::to_string(std::lower_bound(key_.values.begin(), key_.values.end(), v) - key_.values.begin()) + ",";
  }

  void describe(ValueId v) {
    const bool result = std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
    key_.text += (result ? "\n!" : "\n") + to_string(graph_.type(v));
    if (const auto at = storage_.find(v); at != storage_.end()) {
      key_.text += " at ";
      number(at->second.base);
      key_.text += at->second.offset.str() + to_string(at->second.strides);
    }
    const Node* node = graph_.producer(v);
    if (node == nullptr) return;
    key_.text += std::string(" ") + std::string(node->op.name());
    if (const Tensor* data = graph_.constant(v); data != nullptr && data->num_elements() == 1)
      key_.text += "=" + std::string(data->as<char>(), data->bytes());
    if (!goes_on(v, *node)) return;
    for (ValueId input : node->inputs) number(input);
    key_.text += print_attrs(node->op, node->attrs);
  }

  const Graph& graph_;
  const std::map<ValueId, Storage>& storage_;
  const Region& region_;
  const std::set<NodeId> nodes_;
  std::set<ValueId> reached_;
  RegionKey key_;
};

}  // namespace

RegionKey region_key(const Graph& graph, const std::map<ValueId, Storage>& storage, const Region& region) {
  return KeyWriter(graph, storage, region).write();
}

}  // namespace fusec::compiler
