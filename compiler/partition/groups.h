// SPDX-License-Identifier: Apache-2.0
// The working state of partition: nodes gathered in groups that become regions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/partition.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

struct Group {
  RegionKind kind = RegionKind::kernel;
  std::vector<ir::NodeId> nodes;  // in order of position; an anchor comes first
  std::vector<AnchorEpilogue> epilogues;
  ir::ValueId bias;
  ir::ValueId result;  // of anchors: the value it materializes
  bool has_reduction = false;
  bool has_scan = false;
  bool has_concat = false;
  bool is_attention = false;   // one that a kernel computes, and nothing else
  bool has_product = false;    // a sum of products that matrix instructions compute
  bool has_float_sum = false;  // a sum or product of floats, whose order affects rounding
  int cost = 0;                // cycles per 16 elements of its scalar ops
  bool alive = true;
  uint32_t first = UINT32_MAX, last = 0;  // lowest and highest position of its nodes
};

inline constexpr int kNoGroup = -1;

class Groups {
 public:
  // `multiplies`: as multiplies_by_kernels has it.
  explicit Groups(const ir::Graph& graph, bool multiplies = false);

  const ir::Graph& graph;
  std::vector<Group> all;

  // Whether the node is the sum of a matrix product that a kernel computes by tiles.
  bool sums_product(const ir::Node& node) const { return is_product_sum(graph, node, multiplies_); }

  uint32_t position(ir::NodeId node) const { return positions_[node]; }
  int group_of(ir::NodeId node) const { return groups_[node]; }
  int group_of_value(ir::ValueId value) const;  // of its producer; kNoGroup for inputs, constants and views
  int add(Group group);
  void put(ir::NodeId node, int group);
  // Moves the nodes of `from` to `to`.
  void absorb(int to, int from);

  // Whether the node is a view: it does no work, and its users read through it.
  bool is_view(ir::NodeId node) const { return views_[node]; }
  void make_view(ir::NodeId node) { views_[node] = true; }
  void make_real(ir::NodeId node) { views_[node] = false; }
  bool is_graph_output(ir::ValueId value) const { return outputs_.contains(value); }
  // The values of which `value` is a view: values whose producers do work (several for a concat), inputs or constants.
  std::vector<ir::ValueId> bases(ir::ValueId value) const;
  // Whether `value` is a view, directly or through other views, of a concat into which the producers of its operands
  // write.
  bool views_concat(ir::ValueId value) const;
  // The nodes that do work on `value`, directly or through views.
  std::vector<ir::NodeId> real_users(ir::ValueId value) const;
  const std::vector<ir::NodeId>& direct_users(ir::ValueId value) const { return users_[value]; }

  // The values of these nodes, sorted by position as those of a group are, that are graph outputs or that a node
  // outside reads.
  std::vector<ir::ValueId> find_outputs(const std::vector<ir::NodeId>& nodes) const;
  // Whether merging groups a and b would create a cycle of groups.
  bool would_cycle(int a, int b) const;
  // How many operands would_cycle has followed, and positions groups were noted to span: the work of a partition that
  // could grow faster than the graph.
  int64_t work() const { return work_; }

  // Records why a user is not in the group of the value it reads. The first reason is kept.
  void record_blocker(ir::ValueId value, ir::NodeId user, const std::string& reason) {
    reasons_.emplace(std::pair(value, user), reason);
  }
  std::string reason(ir::ValueId value, ir::NodeId user) const;

 private:
  void cover(uint32_t first, uint32_t from, uint32_t to);
  void collect_users(ir::ValueId value, std::vector<ir::NodeId>& out) const;
  bool is_used_outside(ir::ValueId value, const std::vector<ir::NodeId>& inside) const;  // sorted by position

  // Of the groups that have nodes both before a position and at or behind it, the two that begin first, named by the
  // positions of their first nodes. A group that has been absorbed by another may still be named.
  struct Spanning {
    uint32_t first = UINT32_MAX, second = UINT32_MAX;
  };

  const bool multiplies_;
  ir::IdVector<ir::NodeId, uint32_t> positions_;
  std::vector<Spanning> spanning_;  // by position
  mutable int64_t work_ = 0;
  ir::IdVector<ir::NodeId, int> groups_;
  ir::IdVector<ir::NodeId, char> views_;
  ir::IdVector<ir::ValueId, std::vector<ir::NodeId>> users_;
  std::set<ir::ValueId> outputs_;
  std::map<std::pair<ir::ValueId, ir::NodeId>, std::string> reasons_;
};

// Makes a group of every conv, matmul, attention and pool that is no small window, with the epilogues that the target's
// libraries fuse.
void form_anchors(Groups& groups, const Target& target, const Options& options);
// Makes views of concats that are long or used by libraries, where all producers can write into the concat.
void choose_concat_views(Groups& groups);
// Fuses scalar ops, reductions and index maps into groups, one kernel each.
void fuse_regions(Groups& groups, const Target& target, const Options& options);
// Assigns storage to every materialized value. An operand that a library of the target cannot read through strides is
// copied by a group of its own.
std::map<ir::ValueId, Storage> assign_buffers(Groups& groups, const Target& target);

}  // namespace fusec::compiler
