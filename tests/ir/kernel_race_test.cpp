// SPDX-License-Identifier: Apache-2.0
// The verifier's proofs against enumeration: what it accepts has no race and stays in range at any size tried.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "ir/eval/index_code.h"
#include "ir/support/hash.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/sanitized.h"

namespace fusec::ir {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) {
    state_ = mix64(state_);
    return static_cast<int64_t>((state_ >> 16) % static_cast<uint64_t>(n));
  }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(below(static_cast<int64_t>(items.size())))];
  }

 private:
  uint64_t state_;
};

// grid g, block t, seq s over a vector store; sizes and indices that are often, but not always, right.
struct StoreNest {
  std::string text;
  int64_t t_size, s_size, width;
};

std::string index_text(Random& r, const StoreNest& nest) {
  const std::vector<std::string> coefficients = {"1", "2", "3", "4", "8", "12", "16", "24", "n"};
  std::string sum = nest.width > 1 ? "lane" : "0";
  for (const char* var : {"g", "t", "s"}) {
    if (r.below(5) > 0) sum += fmt::format(" + {}*{}", r.pick(coefficients), var);
  }
  const int64_t d = r.below(6) + 1;
  switch (r.below(5)) {
    case 0:
      return fmt::format("floordiv({}, {})", sum, d);
    case 1:
      return fmt::format("mod({}, {})", sum, d);
    case 2:
      return fmt::format("{} - ({})", 20 + d, sum);
    default:
      return sum;
  }
}

StoreNest random_nest(Random& r) {
  StoreNest nest;
  nest.t_size = r.below(5) + 1;
  nest.s_size = r.below(3) + 1;
  nest.width = r.pick(std::vector<int64_t>{1, 2, 4});
  std::string first = index_text(r, nest), second = index_text(r, nest);
  if (r.below(3) == 0) {
    // One counter taken apart, often with the sizes that fit.
    const int64_t d = r.below(4) == 0 ? 5 : nest.t_size * nest.s_size;
    const std::string counter = fmt::format("{}*g + {}*t + s", nest.t_size * nest.s_size, nest.s_size);
    first = fmt::format("floordiv({}, {})", counter, d);
    second = fmt::format("{}*mod({}, {}) + {}", nest.width, counter, d, nest.width > 1 ? "lane" : "0");
  }
  const std::string guards = fmt::format("{0}, n - 1 - ({0}), {1}, m - 1 - ({1})", first, second);
  nest.text = fmt::format(
      "kernel @k(%y: out f32[n, m]) {{\n  grid g in n {{\n    block t in {} {{\n      seq s in {} {{\n"
      "        v0: f32{} = index s\n        store y[{}, {}], v0 guard({})\n      }}\n    }}\n  }}\n}}\n",
      nest.t_size, nest.s_size, nest.width == 1 ? "" : fmt::format(".{}", nest.width), first, second, guards);
  return nest;
}

// "" or what goes wrong with these sizes.
std::string enumerate(const Kernel& kernel, const StoreNest& nest, int64_t n, int64_t m) {
  const Store* store = nullptr;
  for_each_stmt(kernel.body, [&](const Stmt& s) {
    if (const auto* found = std::get_if<Store>(&s.v)) store = found;
  });
  const std::vector<std::string> names = {"n", "m", "g", "t", "s", "lane"};
  const auto slot = [&](SymbolId symbol) {
    return static_cast<int>(std::find(names.begin(), names.end(), name_of(kernel, symbol)) - names.begin());
  };
  std::vector<IndexCode> guard, index;
  for (const IndexExpr& d : store->guard) guard.emplace_back(d, slot);
  for (const IndexExpr& d : store->index) index.emplace_back(d, slot);
  std::map<std::array<int64_t, 2>, std::array<int64_t, 4>> writer;
  std::vector<int64_t> at(names.size());
  for (int64_t i = 0; i < n * nest.t_size * nest.s_size * nest.width; ++i) {
    const int64_t lane = i % nest.width, s = i / nest.width % nest.s_size;
    const int64_t t = i / nest.width / nest.s_size % nest.t_size, g = i / nest.width / nest.s_size / nest.t_size;
    std::ranges::copy(std::array{n, m, g, t, s, lane}, at.begin());
    if (!std::all_of(guard.begin(), guard.end(), [&](const IndexCode& c) { return c.eval(at) >= 0; })) continue;
    const std::array element = {index[0].eval(at), index[1].eval(at)};
    const auto [it, fresh] = writer.emplace(element, std::array{g, t, s, lane});
    if (fresh) continue;
    const std::array<int64_t, 4>& other = it->second;
    const bool same_thread = other[0] == g && other[1] == t;
    if (!same_thread || (other[2] == s && other[3] != lane)) {
      return fmt::format("n {} m {}: [{}, {}] by g {} t {} s {} lane {} and g {} t {} s {} lane {}", n, m, element[0],
                         element[1], g, t, s, lane, other[0], other[1], other[2], other[3]);
    }
  }
  return "";
}

constexpr int kNests = testing_support::many_or(150, 24);

TEST(KernelRace, AcceptedNestsHaveNoRaceByEnumeration) {
  int accepted = 0, sound = 0;
  for (int seed = 0; seed < kNests; ++seed) {
    Random r(mix64(static_cast<uint64_t>(seed)));
    const StoreNest nest = random_nest(r);
    const auto kernel = parse_kernel(nest.text);
    ASSERT_TRUE(kernel.ok()) << kernel.status().str() << nest.text;
    const std::vector<std::string> found = findings(*kernel);
    std::string race;
    for (const auto& [n, m] : {std::pair{1, 7}, {2, 40}, {3, 5}, {5, 13}, {9, 64}, {24, 24}, {40, 11}}) {
      if (race.empty()) race = enumerate(*kernel, nest, n, m);
    }
    sound += race.empty();
    accepted += found.empty();
    if (found.empty()) {
      ASSERT_EQ(race, "") << "seed " << seed << "\n" << nest.text;
    }
  }
  // Both kinds are met often, and most of what is free of races is seen to be.
  EXPECT_GT(kNests - sound, kNests / 6);
  EXPECT_GT(accepted, sound / 2) << sound << " are free of races";
  RecordProperty("accepted", accepted);
  RecordProperty("sound", sound);
}

}  // namespace
}  // namespace fusec::ir
