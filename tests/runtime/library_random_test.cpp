// SPDX-License-Identifier: Apache-2.0
// Calls of random shapes, by every choice of every library of a host, against double loops.
#include "tests/runtime/library_random.h"

#include <gtest/gtest.h>

namespace fusec::runtime {
namespace {

using testing::Case;

void check_by_every_choice(Case c) {
  for (const auto& library : host_libraries(Options())) {
    if (library->refuses(*c.step)) continue;
    std::vector<Choice> choices = library->choices(c.call);
    choices.insert(choices.begin(), Choice{});
    for (const Choice& choice : choices) {
      SCOPED_TRACE(testing::text_of(c) + " by " + library->name() + " " + choice.id);
      c.call.choice = choice.id;
      testing::check(*library, c, testing::tolerance_of(c.call.args[0].dtype));
    }
  }
}

constexpr uint64_t kCases = 60;

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
