// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules nests that interleave a few planes into the innermost axis, such as an image that
// becomes channels-last. Elements are reordered in a register tile.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxPlanes = 8;  // planes whose vectors stay in registers together

enum class Walk { planes, dense, fixed, other };

// Classifies how an access moves with the two innermost loops: `along` runs over the elements of a plane, and `plane`
// has a constant extent.
Walk find_walk(const std::vector<IndexExpr>& index, VarId along, const LoopHead& plane) {
  if (index.size() != 1) return Walk::other;
  const auto affine = affine_in(index[0], {along, plane.var});
  if (!affine) return Walk::other;
  const IndexExpr a = affine->coefficient(along), p = affine->coefficient(plane.var);
  if (a.is(0) && p.is(0)) return Walk::fixed;
  if (a == plane.extent && p.is(1)) return Walk::dense;
  return a.is(1) && !p.is(0) ? Walk::planes : Walk::other;
}

bool fits(const PerfectNest& nest) {
  if (nest.heads.size() < 2) return false;
  const LoopHead &plane = nest.heads.back(), &along = nest.heads[nest.heads.size() - 2];
  if (!plane.extent.is_const() || plane.extent.value() < 2 || plane.extent.value() > kMaxPlanes) return false;
  bool planes = false;
  for (const Stmt& stmt : nest.body) {
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) {
      const Walk walk = find_walk(load->index, along.var, plane);
      if (walk == Walk::other || !load->guard.empty() || load->clamp != 0) return false;
      planes |= walk == Walk::planes;
    } else if (const auto* store = std::get_if<ir::Store>(&stmt.v)) {
      if (find_walk(store->index, along.var, plane) != Walk::dense || !store->guard.empty()) return false;
    } else if (!std::holds_alternative<ir::Let>(stmt.v)) {
      return false;
    }
  }
  return planes;
}

// Loads one vector of each plane at `at` into a tile [planes, lanes], and reads the tile in the order of the stores.
class Mixer {
 public:
  Mixer(const Scheduling& s, const PerfectNest& nest, int lanes)
      : s_(s), nest_(nest), plane_(nest.heads.back()), along_(nest.heads[nest.heads.size() - 2].var), lanes_(lanes) {}

  Block body(const IndexExpr& at) {
    Block result;
    const VarId flat = add_var(s_.kernel), vector = add_var(s_.kernel);
    Block work = clone(s_.kernel, nest_.body);
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && find_walk(load->index, along_, plane_) == Walk::planes) {
        const BufferId tile = stage(*load, at, result);
        const IndexExpr in_tile = IndexExpr::symbol(flat) - plane_.extent * at;
        *load = ir::Load{load->dst,       tile, {mod(in_tile, plane_.extent), floordiv(in_tile, plane_.extent)}, {},
                         load->otherwise, 0};
      } else if (load != nullptr) {
        flatten(load->index, flat);
      } else if (auto* store = std::get_if<ir::Store>(&stmt.v)) {
        flatten(store->index, flat);
      }
    }
    vectorize(s_.kernel, work, flat, lanes_, plane_.extent * at + IndexExpr(lanes_) * IndexExpr::symbol(vector));
    result.push_back(
        {ir::Loop{{LoopTag::unroll, vector, plane_.extent}, std::move(work), ir::PhaseBoundary::launches}});
    return result;
  }

 private:
  void flatten(std::vector<IndexExpr>& index, VarId flat) const {
    if (find_walk(index, along_, plane_) == Walk::dense) {
      index[0] = index[0].substitute({{along_, 0}, {plane_.var, 0}}) + IndexExpr::symbol(flat);
    }
  }

  BufferId stage(const ir::Load& load, const IndexExpr& at, Block& out) {
    const DType dtype = s_.kernel.regs[load.dst].dtype;
    const std::string name = "tile" + std::to_string(s_.kernel.buffers.size());
    const BufferId tile = add_buffer(s_.kernel, {name, ir::Space::reg, dtype, {plane_.extent, lanes_}, {}, 0, ""});
    out.push_back({ir::Alloc{tile}});
    const VarId u = add_var(s_.kernel);
    ir::Load wide = load;
    wide.dst = add_reg(s_.kernel, dtype, lanes_);
    wide.index[0] =
        wide.index[0].substitute({{along_, at + IndexExpr::symbol(ir::kLane)}, {plane_.var, IndexExpr::symbol(u)}});
    Block rows;
    rows.push_back({wide});
    rows.push_back(
        {ir::Store{tile, {IndexExpr::symbol(u), IndexExpr::symbol(ir::kLane)}, wide.dst, {}, ir::StoreHint::none}});
    out.push_back({ir::Loop{{LoopTag::unroll, u, plane_.extent}, std::move(rows), ir::PhaseBoundary::launches}});
    return tile;
  }

  const Scheduling& s_;
  const PerfectNest& nest_;
  LoopHead plane_;
  VarId along_;
  int lanes_;
};

}  // namespace

std::optional<Block> schedule_interleave(const Scheduling& s, const PerfectNest& nest) {
  if (!fits(nest)) return std::nullopt;
  const int lanes = lanes_for(s.kernel, nest.body, s.target);
  if (lanes == 1) return std::nullopt;
  const LoopHead &plane = nest.heads.back(), &along = nest.heads[nest.heads.size() - 2];
  const IndexExpr vectors = floordiv(along.extent, lanes);
  const int64_t in_task = std::max<int64_t>(1, kTaskElements / (lanes * plane.extent.value()));
  Block result;
  if (!vectors.is(0)) {
    std::vector<LoopHead> heads(nest.heads.begin(), nest.heads.end() - 2);
    for (LoopHead& head : heads) head.tag = LoopTag::grid;
    const VarId g = add_var(s.kernel), r = add_var(s.kernel);
    heads.push_back({LoopTag::grid, g, ceildiv(vectors, in_task)});
    heads.push_back({LoopTag::seq, r, min(in_task, vectors - IndexExpr(in_task) * IndexExpr::symbol(g))});
    const IndexExpr at = IndexExpr(lanes) * (IndexExpr(in_task) * IndexExpr::symbol(g) + IndexExpr::symbol(r));
    result.push_back(rebuild_loops(heads, Mixer(s, nest, lanes).body(at)));
  }
  if (divisible_by(s.kernel, along.extent, lanes)) return result;
  PerfectNest rest{nest.heads, clone(s.kernel, nest.body)};
  rest.heads[rest.heads.size() - 2].extent = along.extent - IndexExpr(lanes) * vectors;
  substitute(rest.body, along.var, IndexExpr(lanes) * vectors + IndexExpr::symbol(along.var));
  for (Stmt& stmt : schedule_pointwise(s, std::move(rest))) result.push_back(std::move(stmt));
  return result;
}

}  // namespace fusec::compiler
