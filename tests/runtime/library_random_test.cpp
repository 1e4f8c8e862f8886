// SPDX-License-Identifier: Apache-2.0
// Calls of random shapes, by every choice of every library of a host, against double loops.
#include "tests/runtime/library_random.h"

#include <gtest/gtest.h>

#include "tests/sanitized.h"

namespace fusec::runtime {
namespace {

using testing::Case;

void check_by_every_choice(Case c) {
  for (const auto& library : host_libraries(Options())) {
    if (library->get_unsupported_reason(*c.step)) continue;
    std::vector<Algorithm> algorithms = library->algorithms(c.call);
    algorithms.insert(algorithms.begin(), Algorithm{});
    for (const Algorithm& algorithm : algorithms) {
      SCOPED_TRACE(testing::describe_case(c) + " by " + library->name() + " " + algorithm.id);
      c.call.algorithm = algorithm.id;
      testing::check(*library, c, testing::tolerance_of(c.call.args[0].dtype));
    }
  }
}

constexpr uint64_t kCases = testing_support::many_or(60, 15);

TEST(LibraryRandom, Convolutions) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    fuzz::Random random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    check_by_every_choice(testing::random_conv(random));
  }
}

TEST(LibraryRandom, Products) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    fuzz::Random random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    check_by_every_choice(testing::random_product(random));
  }
}

}  // namespace
}  // namespace fusec::runtime
