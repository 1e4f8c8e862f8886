// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules nests that interleave a few planes or take them apart: images that become channels-last and
// back, pixel shuffles. A thread takes 16 bytes of every plane. Where an operand has the planes interleaved, the thread
// reorders its elements in registers, so that it accesses whole vectors there, too.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxPlanes = 8;
constexpr int64_t kPlaneBytes = 128;  // of all operands that a thread reorders
constexpr int64_t kPlaneThreads = 256;

// How an access moves along a plane and from plane to plane.
enum class PlaneForm { planar, interleaved, fixed, other };

class PlaneSchedule {
 public:
  PlaneSchedule(const Scheduling& s, const PerfectNest& nest, const LoopHead& along, const LoopHead& plane)
      : s_(s), k_(s.kernel), nest_(nest), along_(along), plane_(plane), planes_(plane.extent.value()) {}

  bool suits() {
    if (!fits_forms()) return false;
    lanes_ = lanes_of_access(k_, nest_.body, along_.var);
    while (lanes_ > 1 && !aligned(lanes_)) lanes_ /= 2;
    return lanes_ > 1 && reordered_bytes() <= kPlaneBytes && !along_.extent.is(0);
  }

  // The threads of a block go along the planes, then along the longest other loop.
  Block run() {
    const IndexExpr vectors = floordiv(along_.extent, lanes_);
    width_ = std::clamp<int64_t>(known_value(s_, vectors).value_or(kPlaneThreads), 1, kPlaneThreads);
    const LoopHead* rows = longest_other();
    height_ = rows == nullptr ? 1 : std::max<int64_t>(1, std::min(kPlaneThreads / width_, count(*rows)));
    g_ = add_var(k_);
    std::vector<LoopHead> grid;
    for (const LoopHead& head : nest_.heads)
      if (head.var != along_.var && head.var != plane_.var) grid.push_back({LoopTag::grid, head.var, head.extent});
    if (height_ > 1)
      for (LoopHead& head : grid)
        if (head.var == rows->var) head.extent = ceildiv(head.extent, height_);
    grid.push_back({LoopTag::grid, g_, ceildiv(vectors, width_)});
    Block block, result;
    std::vector<Staging> stagings;
    Stmt work = over_threads(rows, [&](const IndexExpr& t, const IndexExpr& r) {
      Block body;
      const IndexExpr at = (IndexExpr::symbol(g_) * width_ + t) * lanes_;
      body.push_back(only_if(k_, along_.extent - at - (lanes_ - 1), vector_of_planes(at, t, r, stagings)));
      return body;
    });
    for (const Staging& staging : stagings) block.push_back({ir::Alloc{staging.shared}});
    block.push_back(std::move(work));
    for (const Staging& staging : stagings)
      block.push_back(
          over_threads(rows, [&](const IndexExpr& t, const IndexExpr& r) { return write_out(staging, t, r); }));
    result.push_back(rebuild_loops(grid, std::move(block)));
    return result;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  PlaneForm form(const std::vector<IndexExpr>& index) const {
    if (index.size() != 1) return PlaneForm::other;
    const auto affine = affine_in(index[0], {along_.var, plane_.var});
    if (!affine) return PlaneForm::other;
    const IndexExpr step = affine->coefficient(along_.var);
    if (step.is(0)) return PlaneForm::fixed;
    if (step.is(planes_) && affine->coefficient(plane_.var).is(1)) return PlaneForm::interleaved;
    return step.is(1) ? PlaneForm::planar : PlaneForm::other;
  }

  int64_t count(const LoopHead& head) const { return known_value(s_, head.extent).value_or(kPlaneThreads); }

  const LoopHead* longest_other() const {
    const LoopHead* longest = nullptr;
    for (const LoopHead& head : nest_.heads)
      if (head.var != along_.var && head.var != plane_.var && (longest == nullptr || count(head) > count(*longest)))
        longest = &head;
    return longest;
  }

  // Interleaved elements of a block on their way to a store: each thread brings its own, and all store side by side.
  struct Staging {
    ir::Store store;
    BufferId shared;
  };

  template <class Body>
  Stmt over_threads(const LoopHead* rows, const Body& make) {
    const VarId t = add_var(k_), r = add_var(k_);
    Block body = make(IndexExpr::symbol(t), height_ > 1 ? IndexExpr::symbol(r) : IndexExpr(0));
    std::vector<LoopHead> threads{{LoopTag::block, t, width_}};
    if (height_ > 1) {
      const IndexExpr row = IndexExpr::symbol(rows->var) * height_ + IndexExpr::symbol(r);
      substitute(body, rows->var, row);
      Block inside;
      inside.push_back(only_if(k_, rows->extent - row, std::move(body)));
      body = std::move(inside);
      threads.insert(threads.begin(), {LoopTag::block, r, height_});
    }
    return rebuild_loops(threads, std::move(body));
  }

  // Whether every access has a form, some loads or stores are interleaved, and no store repeats an element.
  bool fits_forms() const {
    bool interleaved = false, fits = true;
    for (const Stmt& stmt : nest_.body) {
      if (const auto* load = std::get_if<ir::Load>(&stmt.v)) {
        const PlaneForm f = form(load->index);
        fits = fits && f != PlaneForm::other && load->guard.empty() && load->clamp == 0;
        interleaved |= f == PlaneForm::interleaved;
      } else if (const auto* store = std::get_if<ir::Store>(&stmt.v)) {
        const PlaneForm f = form(store->index);
        fits = fits && (f == PlaneForm::planar || f == PlaneForm::interleaved) && store->guard.empty();
        interleaved |= f == PlaneForm::interleaved;
      } else {
        fits = fits && std::holds_alternative<ir::Let>(stmt.v);
      }
    }
    return fits && interleaved;
  }

  bool aligned(int lanes) const {
    bool fits = divisible_by(k_, along_.extent, lanes);
    for (const Stmt& stmt : nest_.body)
      for_each_index(stmt, [&](const IndexExpr& d) {
        const auto affine = affine_in(d, {along_.var, plane_.var});
        if (!affine || form({d}) == PlaneForm::fixed) return;
        const bool strided = form({d}) == PlaneForm::planar;
        fits = fits && divisible_by(k_, affine->rest, lanes) &&
               (!strided || divisible_by(k_, affine->coefficient(plane_.var), lanes));
      });
    return fits;
  }

  int64_t reordered_bytes() const {
    int64_t bytes = 0;
    for (const Stmt& stmt : nest_.body) {
      const auto add = [&](const auto& access) {
        if (form(access.index) == PlaneForm::interleaved)
          bytes += planes_ * lanes_ * static_cast<int64_t>(size_of(k_.buffers[access.buffer].dtype));
      };
      if (const auto* load = std::get_if<ir::Load>(&stmt.v)) add(*load);
      if (const auto* store = std::get_if<ir::Store>(&stmt.v)) add(*store);
    }
    return bytes;
  }

  // --- the code of a thread ----------------------------------------------------------------------------------------

  // The body for `lanes` elements of every plane from `at` on: loads that take planes apart, the work plane by plane,
  // and stores that interleave them.
  Block vector_of_planes(const IndexExpr& at, const IndexExpr& t, const IndexExpr& r, std::vector<Staging>& stagings) {
    Block result, stores, work = clone(k_, nest_.body);
    const VarId p = add_var(k_);
    for (Stmt& stmt : work) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && is_interleaved(*load)) {
        const BufferId parts = load_all(*load, at, result);
        *load = ir::Load{
            load->dst, parts,           {(IndexExpr::symbol(along_.var) - at) * planes_ + IndexExpr::symbol(p)},
            {},        load->otherwise, 0};
      } else if (auto* store = std::get_if<ir::Store>(&stmt.v); store != nullptr && is_interleaved(*store)) {
        const BufferId parts = bring(*store, t, r, result, stores, stagings);
        *store = ir::Store{
            parts, {IndexExpr::symbol(p), IndexExpr::symbol(along_.var) - at}, store->value, {}, ir::StoreHint::none};
      }
    }
    substitute(work, plane_.var, IndexExpr::symbol(p));
    vectorize(k_, work, along_.var, lanes_, at);
    result.push_back({ir::Loop{{LoopTag::unroll, p, planes_}, std::move(work), ir::PhaseBoundary::launches}});
    append(result, std::move(stores));
    return result;
  }

  template <class Access>
  bool is_interleaved(const Access& access) const {
    return k_.buffers[access.buffer].space != ir::Space::reg && form(access.index) == PlaneForm::interleaved;
  }

  BufferId add_parts(DType dtype, ir::IndexShape shape, Block& out) {
    const BufferId parts = add_buffer(
        k_, {"parts" + std::to_string(k_.buffers.size()), ir::Space::reg, dtype, std::move(shape), {}, 0, ""});
    out.push_back({ir::Alloc{parts}});
    return parts;
  }

  // The place of vector v of the thread's elements.
  IndexExpr place(const IndexExpr& index, const IndexExpr& at, VarId v) const {
    return index.substitute({{along_.var, at}, {plane_.var, IndexExpr::symbol(v) * lanes_ + lane()}});
  }

  BufferId load_all(const ir::Load& load, const IndexExpr& at, Block& out) {
    const DType dtype = k_.regs[load.dst].dtype;
    const BufferId parts = add_parts(dtype, {planes_ * lanes_}, out);
    const VarId v = add_var(k_);
    ir::Load wide = load;
    wide.dst = add_reg(k_, dtype, lanes_);
    wide.index[0] = place(load.index[0], at, v);
    Block vectors;
    vectors.push_back({wide});
    vectors.push_back({ir::Store{parts, {IndexExpr::symbol(v) * lanes_ + lane()}, wide.dst, {}, ir::StoreHint::none}});
    out.push_back({ir::Loop{{LoopTag::unroll, v, planes_}, std::move(vectors), ir::PhaseBoundary::launches}});
    return parts;
  }

  // Puts a thread's elements into shared memory, interleaved.
  BufferId bring(const ir::Store& store, const IndexExpr& t, const IndexExpr& r, Block& allocs, Block& out,
                 std::vector<Staging>& stagings) {
    const DType dtype = k_.buffers[store.buffer].dtype;
    const BufferId parts = add_parts(dtype, {planes_, lanes_}, allocs);
    const BufferId shared = add_buffer(k_, {"line" + std::to_string(k_.buffers.size()),
                                            ir::Space::shared,
                                            dtype,
                                            {height_, width_ * planes_ * lanes_},
                                            {},
                                            0,
                                            ""});
    const VarId v = add_var(k_);
    const IndexExpr flat = IndexExpr::symbol(v) * lanes_ + lane();
    const RegId wide = add_reg(k_, dtype, lanes_);
    Block vectors;
    vectors.push_back(
        {ir::Load{wide, parts, {mod(flat, planes_), floordiv(flat, planes_)}, {}, ir::Constant{dtype}, 0}});
    vectors.push_back({ir::Store{shared, {r, t * planes_ * lanes_ + flat}, wide, {}, ir::StoreHint::none}});
    out.push_back({ir::Loop{{LoopTag::unroll, v, planes_}, std::move(vectors), ir::PhaseBoundary::launches}});
    stagings.push_back({store, shared});
    return parts;
  }

  // Stores what the block has brought: threads that follow each other store vectors that do.
  Block write_out(const Staging& staging, const IndexExpr& t, const IndexExpr& r) {
    const DType dtype = k_.buffers[staging.store.buffer].dtype;
    const VarId v = add_var(k_);
    const IndexExpr first = (IndexExpr::symbol(v) * width_ + t) * lanes_,
                    start = IndexExpr::symbol(g_) * width_ * lanes_;
    const RegId wide = add_reg(k_, dtype, lanes_);
    ir::Store store = staging.store;
    store.value = wide;
    store.index[0] = store.index[0].substitute({{along_.var, start}, {plane_.var, first + lane()}});
    store.guard.push_back((along_.extent - start) * planes_ - lanes_ - first);
    Block vectors;
    vectors.push_back({ir::Load{wide, staging.shared, {r, first + lane()}, {}, ir::Constant{dtype}, 0}});
    vectors.push_back({std::move(store)});
    Block result;
    result.push_back({ir::Loop{{LoopTag::unroll, v, planes_}, std::move(vectors), ir::PhaseBoundary::launches}});
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  LoopHead along_, plane_;
  int64_t planes_;
  int lanes_ = 1;
  int64_t width_ = 1, height_ = 1;  // threads of a block along the planes, and along another loop
  VarId g_;
};

}  // namespace

std::optional<Block> cuda_planes(const Scheduling& s, const PerfectNest& nest) {
  for (const LoopHead& plane : nest.heads) {
    if (!plane.extent.is_const() || plane.extent.value() < 2 || plane.extent.value() > kMaxPlanes) continue;
    for (const LoopHead& along : nest.heads) {
      if (along.var == plane.var) continue;
      PlaneSchedule planes(s, nest, along, plane);
      if (!planes.suits()) continue;
      decide(s, &ScheduleChoice::tiles, true);
      return planes.run();
    }
  }
  return std::nullopt;
}

}  // namespace fusec::compiler
