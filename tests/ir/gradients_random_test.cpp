// SPDX-License-Identifier: Apache-2.0
// Gradients of ops with random shapes and attributes against finite differences.
#include <random>

#include "tests/ir/differences.h"

namespace fusec::differences {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t in(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool coin() { return in(0, 1) == 1; }
  std::vector<int64_t> list(std::size_t n, int64_t least, int64_t most) {
    std::vector<int64_t> out(n);
    for (int64_t& v : out) v = in(least, most);
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

Shape shape_of(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end()}; }

// A shape that broadcasts to `full`: without some first axes, and with some extents of 1.
Shape narrowed(Random& r, const std::vector<int64_t>& full) {
  Shape out;
  for (auto i = static_cast<std::size_t>(r.in(0, static_cast<int64_t>(full.size()))); i < full.size(); ++i)
    out.push_back(r.coin() ? full[i] : 1);
  return out;
}

void check_broadcast(Random& r, const std::string& name) {
  const auto full = r.list(static_cast<std::size_t>(r.in(1, 4)), 1, 3);
  check(name, {{narrowed(r, full)}, {narrowed(r, full)}, {shape_of(full)}},
        [](GraphBuilder& b, const Vars& x) { return b.where(b.lt(x[2], 0), b.tanh(x[0] * x[1]), x[1] - x[0] * x[2]); });
}

void check_slice(Random& r, const std::string& name) {
  const auto extents = r.list(2, 1, 8);
  Shape starts, sizes;
  std::vector<int64_t> steps;
  for (int64_t extent : extents) {
    const int64_t step = r.in(1, 3), size = r.in(1, (extent - 1) / step + 1), reach = (size - 1) * step;
    const int64_t start = r.in(0, extent - 1 - reach);
    const bool back = r.coin();
    starts.push_back(back ? start + reach : start);
    sizes.push_back(size);
    steps.push_back(back ? -step : step);
  }
  check(name, {{shape_of(extents)}},
        [&](GraphBuilder& b, const Vars& x) { return b.slice(x[0], starts, sizes, steps); });
}

void check_reduction(Random& r, const std::string& name) {
  const auto extents = r.list(static_cast<std::size_t>(r.in(1, 4)), 1, 4);
  std::vector<int64_t> axes;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (r.coin()) axes.push_back(static_cast<int64_t>(i));
  const int64_t op = r.in(0, 4);
  const bool keep = r.coin();
  check(name, {{shape_of(extents)}}, [&](GraphBuilder& b, const Vars& x) {
    if (op == 0) return b.reduce_sum(x[0], axes, keep);
    if (op == 1) return b.reduce_mean(x[0], axes, keep);
    if (op == 2) return b.reduce_max(x[0], axes, keep);
    if (op == 3) return b.reduce_min(x[0], axes, keep);
    return b.reduce_prod(x[0], axes, keep);
  });
}

void check_matmul(Random& r, const std::string& name) {
  const auto batch = r.list(static_cast<std::size_t>(r.in(0, 2)), 1, 3), mkn = r.list(3, 1, 4);
  const bool ta = r.coin(), tb = r.coin();
  // One operand in four is a vector.
  const auto operand = [&](int64_t rows, int64_t columns, bool turned) {
    Shape out = narrowed(r, batch);
    const bool is_vector = r.in(0, 3) == 0;
    out.push_back(turned ? columns : rows);
    out.push_back(turned ? rows : columns);
    return is_vector ? Shape{mkn[1]} : out;
  };
  const Shape a = operand(mkn[0], mkn[1], ta), c = operand(mkn[1], mkn[2], tb);
  check(name, {{a}, {c}}, [&](GraphBuilder& b, const Vars& x) { return b.matmul(x[0], x[1], ta, tb); });
}

// The window fits: extents are at least its reach.
void check_window(Random& r, const std::string& name) {
  const auto axes = static_cast<std::size_t>(r.in(1, 2));
  const auto kernel = r.list(axes, 1, 3);
  WindowOptions w{r.list(axes, 1, 3), r.list(2 * axes, 0, 2), r.list(axes, 1, 2), r.coin()};
  const int64_t groups = r.in(1, 2), each = r.in(1, 2);
  std::vector<int64_t> spatial;
  for (std::size_t i = 0; i < axes; ++i) spatial.push_back(w.dilations[i] * (kernel[i] - 1) + r.in(1, 4));
  Shape x{r.in(1, 2)}, filter{groups * r.in(1, 2), each};
  if (!w.channels_last) x.push_back(groups * each);
  x.insert(x.end(), spatial.begin(), spatial.end());
  if (w.channels_last) x.push_back(groups * each);
  filter.insert(filter.end(), kernel.begin(), kernel.end());
  check(name, {{x}, {filter}}, [&](GraphBuilder& b, const Vars& v) { return b.conv(v[0], v[1], w, groups); });
  const bool ceil = r.coin(), counts = r.coin();
  check(name, {{x}}, [&](GraphBuilder& b, const Vars& v) { return b.avg_pool(v[0], kernel, w, ceil, counts); });
  // A window of padding alone has no maximum.
  for (int64_t& pad : w.pads) pad = 0;
  check(name, {{x}}, [&](GraphBuilder& b, const Vars& v) { return b.max_pool(v[0], kernel, w); });
}

TEST(Gradients, OfRandomShapes) {
  struct Kind {
    const char* name;
    void (*check)(Random&, const std::string&);
  };
  const Kind kinds[] = {{"broadcast", check_broadcast},
                        {"slice", check_slice},
                        {"reduction", check_reduction},
                        {"matmul", check_matmul},
                        {"window", check_window}};
  for (unsigned seed = 0; seed < 60; ++seed) {
    for (const Kind& kind : kinds) {
      Random r(seed);
      kind.check(r, std::string(kind.name) + ", seed " + std::to_string(seed));
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace fusec::differences
