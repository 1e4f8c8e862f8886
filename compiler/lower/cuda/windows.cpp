// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: sliding windows, such as a depthwise convolution as a sum of moved inputs. Neighbours along one loop
// read mostly the same elements, so a thread that computes several neighbours loads each element once: if all loads of
// a window have one index and one guard for one element, elimination of common subexpressions finds them.

#include <algorithm>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxDistance = 8;  // iterations between neighbouring loads of a window

// A load that moves along the loop with a constant stride, and where it begins.
struct Moving {
  ir::Load* load;
  IndexExpr rest;  // the index without the part that moves
  int64_t stride;
};

class Windows {
 public:
  Windows(const ir::Kernel& kernel, const std::vector<LoopHead>& heads, VarId along)
      : kernel_(kernel), ranges_(ir::compute_ranges(heads)), along_(along) {}

  // Gives the loads of each window the same guards. Returns how many loads read an element that a load of a
  // neighbouring iteration reads.
  int share(Block& body) const {
    std::vector<Moving> left = moving_loads(body);
    int shared = 0;
    while (!left.empty()) {
      const std::vector<std::pair<ir::Load*, int64_t>> window = take_window(left);
      std::set<int64_t> places;
      for (const auto& [load, distance] : window) places.insert(distance);
      if (places.size() > 1 && share_guards(window)) shared += static_cast<int>(places.size()) - 1;
    }
    return shared;
  }

 private:
  // The guards that stay when the loop moves on.
  std::set<IndexExpr> fixed_guards(const ir::Load& load) const {
    std::set<IndexExpr> fixed;
    for (const IndexExpr& g : load.guard)
      if (!g.uses(along_)) fixed.insert(g);
    return fixed;
  }

  std::vector<Moving> moving_loads(Block& body) const {
    std::vector<Moving> loads;
    for (Stmt& stmt : body) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || load->clamp != 0 || load->index.size() != 1) continue;
      if (kernel_.buffers[load->buffer].space != ir::Space::in) continue;
      const auto affine = affine_in(load->index[0], {along_});
      if (!affine || !affine->coefficient(along_).is_const()) continue;
      const int64_t stride = affine->coefficient(along_).value();
      if (stride > 0) loads.push_back({load, affine->rest, stride});
    }
    return loads;
  }

  // Takes the first load and all that continue its window out of `left`; with each, how many iterations later the first
  // one reads its element.
  std::vector<std::pair<ir::Load*, int64_t>> take_window(std::vector<Moving>& left) const {
    const Moving first = left.front();
    std::vector<std::pair<ir::Load*, int64_t>> window{{first.load, 0}};
    std::vector<Moving> others;
    for (std::size_t i = 1; i < left.size(); ++i) {
      const IndexExpr distance = left[i].rest - first.rest;
      const bool continues = left[i].load->buffer == first.load->buffer && left[i].stride == first.stride &&
                             distance.is_const() && distance.value() % first.stride == 0 &&
                             std::abs(distance.value() / first.stride - window.back().second) <= kMaxDistance &&
                             first.load->otherwise == left[i].load->otherwise &&
                             fixed_guards(*first.load) == fixed_guards(*left[i].load);
      if (continues) {
        window.emplace_back(left[i].load, distance.value() / first.stride);
      } else {
        others.push_back(left[i]);
      }
    }
    left = std::move(others);
    return window;
  }

  IndexExpr moved(const IndexExpr& e, int64_t iterations) const {
    return e.substitute({{along_, IndexExpr::symbol(along_) + iterations}});
  }

  // A guard of one load, moved to where another reads the same element, must hold there anyway or be among its guards.
  bool share_guards(const std::vector<std::pair<ir::Load*, int64_t>>& window) const {
    std::set<IndexExpr> all;  // as of the first load
    for (const auto& [load, distance] : window)
      for (const IndexExpr& g : load->guard) all.insert(moved(g, -distance));
    for (const auto& [load, distance] : window) {
      for (const IndexExpr& g : all) {
        const IndexExpr here = moved(g, distance);
        const bool listed = std::find(load->guard.begin(), load->guard.end(), here) != load->guard.end();
        if (!listed && !proves_nonneg(here, ranges_)) return false;
      }
    }
    for (const auto& [load, distance] : window) {
      load->guard.clear();
      for (const IndexExpr& g : all) load->guard.push_back(moved(g, distance));
    }
    return true;
  }

  const ir::Kernel& kernel_;
  const ir::IndexRanges ranges_;
  const VarId along_;
};

}  // namespace

int share_windows(const ir::Kernel& kernel, const std::vector<LoopHead>& heads, VarId along, Block& body) {
  return Windows(kernel, heads, along).share(body);
}

}  // namespace fusec::compiler
