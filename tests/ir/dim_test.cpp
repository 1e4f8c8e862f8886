// SPDX-License-Identifier: Apache-2.0
#include "fusec/dim.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "ir/base/dim_range.h"
#include "tests/sanitized.h"

namespace fusec {
namespace {

Dim d(const char* text) {
  Result<Dim> r = Dim::parse(text);
  EXPECT_TRUE(r.ok()) << r.status().str();
  return r.ok() ? *r : Dim(-777);
}

// "i in [0, 15]" per entry; an empty text leaves that side open.
struct RangeText {
  const char *symbol, *lo, *hi;
};
DimRanges ranges(std::initializer_list<RangeText> items) {
  DimRanges out;
  for (const RangeText& r : items) {
    if (*r.lo) out[r.symbol].lo = d(r.lo);
    if (*r.hi) out[r.symbol].hi = d(r.hi);
  }
  return out;
}

TEST(Dim, TheLowestNumberIsReadAsItIsPrinted) {
  const Dim lowest = Dim::symbol("n") * 8 + Dim(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(lowest.str(), "8*n + -9223372036854775808");
  EXPECT_EQ(*Dim::parse(lowest.str()), lowest);
}

TEST(Dim, CanonicalText) {
  const std::pair<const char*, const char*> cases[] = {
      {"seq*N*2 + floordiv(1 + H, 2)", "2*N*seq + floordiv(H + 1, 2)"},
      {"(n + 1)*(n - 1)", "n*n - 1"},
      {"n - n", "0"},
      {"-(n - 3)", "-n + 3"},
      {"floordiv(16*i + j + 35, 16)", "i + floordiv(j + 3, 16) + 2"},
      {"mod(16*i + j + 35, 16)", "mod(j + 3, 16)"},
      {"floordiv(i - 1, 4)", "floordiv(i + 3, 4) - 1"},
      {"floordiv(4*i + 6, 8)", "floordiv(i + 1, 2)"},
      {"floordiv(4*i + 2, 8)", "floordiv(i, 2)"},
      {"mod(4*i + 2, 8)", "4*mod(i, 2) + 2"},
      {"floordiv(floordiv(x, 4) + 3, 8)", "floordiv(x + 12, 32)"},
      {"floordiv(mod(x, 32), 4)", "mod(floordiv(x, 4), 8)"},
      {"mod(mod(x, 32) + y, 4)", "mod(x + y, 4)"},
      {"floordiv(x, 1)", "x"},
      {"mod(x, 1)", "0"},
      {"floordiv(n*i + j, n)", "i + floordiv(j, n)"},
      {"mod(n*i + j, n)", "mod(j, n)"},
      {"floordiv(2*n*i, 4*n*m)", "floordiv(i, 2*m)"},
      {"mod(2*n*i, 4*n)", "2*n*mod(i, 2)"},
      {"floordiv(-1, n)", "-1"},
      {"mod(-1, n)", "n - 1"},
      {"floordiv(x, 0 - 4)", "floordiv(-x, 4)"},
      {"floordiv(-7, 2)", "-4"},
      {"mod(-7, 2)", "1"},
      {"min(n, n + 2)", "n"},
      {"max(n, min(3, 5))", "max(3, n)"},
      {"min(min(x, 3), 5)", "min(3, x)"},
      {"min(b, min(c, a))", "min(a, min(b, c))"},
      {"max(max(a, b), a + 1)", "max(a + 1, b)"},
  };
  for (const auto& [from, to] : cases) EXPECT_EQ(d(from).str(), to) << from;
}

TEST(Dim, ParseErrors) {
  for (const char* text :
       {"", "1 +", "(n", "n)", "floordiv(n)", "foo(n, 2)", "mod(n, 0)", "9223372036854775808", "n $"}) {
    EXPECT_EQ(Dim::parse(text).status().code(), StatusCode::invalid_argument) << text;
  }
  EXPECT_FALSE(Dim::parse(std::string(100000, '(')).ok());
  EXPECT_FALSE(Dim::parse("9223372036854775807*n*2").ok());
}

TEST(Dim, Overflow) {
  const Dim big = INT64_MAX, n = Dim::symbol("n");
  EXPECT_THROW(big + 1, DimOverflow);
  EXPECT_THROW(big * n * 2, DimOverflow);
  EXPECT_THROW(Dim(INT64_MIN) - 1, DimOverflow);
  EXPECT_THROW(floordiv(Dim(INT64_MIN), -1), DimOverflow);
  EXPECT_THROW(mod(n, 0), DimOverflow);
  EXPECT_THROW((big * n).eval({{"n", 2}}), DimOverflow);
}

TEST(Dim, ExactDivAndDivisor) {
  EXPECT_EQ(d("6*n*m + 4*n").exact_div(d("2*n"))->str(), "3*m + 2");
  EXPECT_EQ(d("n*n - 1").exact_div(d("n + 1"))->str(), "n - 1");
  EXPECT_EQ(d("a*b + a + b + 1").exact_div(d("a + 1"))->str(), "b + 1");
  EXPECT_FALSE(d("6*n + 3").exact_div(2).has_value());
  EXPECT_FALSE(d("n*n + 1").exact_div(d("n + 1")).has_value());
  EXPECT_FALSE(d("n").exact_div(0).has_value());
  EXPECT_EQ(d("12*n + 18*m").known_divisor(), 6);
  EXPECT_EQ(d("6*min(4*a, 8)").known_divisor(), 24);
  EXPECT_EQ(Dim(0).known_divisor(), 0);
  EXPECT_EQ(Dim(-8).known_divisor(), 8);
}

TEST(Dim, SubstituteEvalSymbols) {
  const Dim x = d("n*floordiv(m + 3, 4) + k");
  EXPECT_EQ(x.substitute({{"m", d("4*q - 3")}, {"k", 5}}).str(), "n*q + 5");
  EXPECT_EQ(x.eval({{"n", 2}, {"m", 6}, {"k", 1}}), 5);
  EXPECT_EQ(x.eval({{"n", 2}}), std::nullopt);
  EXPECT_EQ(d("floordiv(n, m)").eval({{"n", 2}, {"m", 0}}), std::nullopt);
  std::set<std::string> symbols;
  x.collect_symbols(symbols);
  EXPECT_EQ(symbols, (std::set<std::string>{"k", "m", "n"}));
  EXPECT_TRUE(x.uses("m"));
  EXPECT_FALSE(x.uses("q"));
  EXPECT_EQ(Dim::symbol("n").as_symbol(), "n");
  EXPECT_FALSE(d("2*n").as_symbol().has_value());
}

TEST(DimSimplify, Table) {
  struct Case {
    const char *from, *to;
    DimRanges in;
  };
  const DimRanges ij = ranges({{"i", "0", "n - 1"}, {"j", "0", "15"}});
  const DimRanges rows = ranges({{"i", "0", "m - 1"}, {"j", "0", "n - 1"}});
  const Case cases[] = {
      {"floordiv(16*i + j, 16)", "i", ij},
      {"mod(16*i + j, 16)", "j", ij},
      {"mod(16*i + j, 32)", "j + 16*mod(i, 2)", ij},
      {"floordiv(16*i + j, 64)", "floordiv(i, 4)", ij},
      {"floordiv(n*i + j, n)", "i", rows},
      {"mod(n*i + j, n)", "j", rows},
      {"floordiv(n*i + j, m*n)", "0", rows},
      {"mod(n*i + j, m*n)", "i*n + j", rows},
      {"floordiv(n*i + j, n*p)", "floordiv(i, p)", rows},
      {"min(i, n - 1)", "i", ij},
      {"max(i, 0)", "i", ij},
      {"min(i, j)", "min(i, j)", ij},
      {"min(n, min(i, 20))", "min(20, i)", ij},
      {"4*floordiv(x, 4) + mod(x, 4)", "x", {}},
      {"n*(3*floordiv(x, 3)) + n*mod(x, 3)", "n*x", {}},
      {"32*floordiv(x, 32) + 4*floordiv(mod(x, 32), 4) + mod(x, 4)", "x", {}},
      {"x - 16*floordiv(x, 16)", "mod(x, 16)", {}},
      {"n*floordiv(x, n) + mod(x, n)", "x", {}},
      {"floordiv((n + 1)*i + j, n + 1)", "i", ranges({{"i", "0", "m - 1"}, {"j", "0", "n"}})},
      {"mod((n + 1)*i + j, n + 1)", "j", ranges({{"i", "0", "m - 1"}, {"j", "0", "n"}})},
      {"floordiv(j + 16, 32)", "0", ij},
      {"mod(j - 1, 16)", "j - 1", ranges({{"j", "1", "16"}})},
      {"floordiv(j + 5, 4)", "floordiv(j + 1, 4) + 1", ranges({{"j", "0", "3"}})},
      {"mod(mod(x, 8), 16)", "mod(x, 8)", {}},
      {"min(floordiv(j, 4), 3)", "floordiv(j, 4)", ij},
      {"floordiv(c*hw + p, hw)", "c", ranges({{"p", "0", "hw - 1"}, {"c", "0", "3"}})},
  };
  for (const Case& c : cases) EXPECT_EQ(simplify(d(c.from), c.in).str(), c.to) << c.from;
}

TEST(DimRange, Proofs) {
  const DimRanges in =
      ranges({{"i", "0", "m - 1"}, {"j", "0", "n - 1"}, {"t", "0", "255"}, {"b", "0", "floordiv(n + 255, 256) - 1"}});
  for (const char* text : {"n", "i*j", "n*m - 1 - (i*n + j)", "n - 16*floordiv(n, 16)", "m - 1 - min(i, 5)", "255 - t",
                           "max(i, 3) - 3", "n - 1 - floordiv(j, 2)", "7 - mod(x, 8)", "n*m*4 - 4*i*n - 4*j - 1",
                           "floordiv(n + 255, 256)*256 - 1 - (b*256 + t)", "m - 1 - floordiv(n*i + j, n)"}) {
    EXPECT_TRUE(proves_nonneg(d(text), in)) << text;
  }
  for (const char* text : {"-n", "n - 1", "i - 1", "n - i", "254 - t", "6 - mod(x, 8)", "n - 1 - (b*256 + t)",
                           "max(i, 3) - 4", "i*n + j - n*m"}) {
    EXPECT_FALSE(proves_nonneg(d(text), in)) << text;
  }
  EXPECT_EQ(lower_bound(d("3*t - 2"), in), -2);
  EXPECT_EQ(upper_bound(d("3*t - 2"), in), 763);
  EXPECT_EQ(upper_bound(d("floordiv(t, 10)"), in), 25);
  EXPECT_EQ(upper_bound(d("min(n, 7)"), in), 7);
  EXPECT_EQ(upper_bound(d("n"), in), std::nullopt);
  EXPECT_EQ(upper_bound(d("mod(n, 8) + t"), in), 262);
  EXPECT_EQ(lower_bound(d("t*(0 - 1)"), in), -255);
  EXPECT_EQ(lower_bound(d("u"), ranges({{"u", "", "3"}})), std::nullopt);
}

// Random expressions: text round trip, and the same value before and after simplification for all bindings in range.
class RandomDims {
 public:
  explicit RandomDims(uint32_t seed) : random_(seed) {}
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Dim divisor() {
    const Dim choices[] = {2,
                           3,
                           4,
                           8,
                           16,
                           Dim::symbol("n"),
                           Dim::symbol("m"),
                           4 * Dim::symbol("n"),
                           Dim::symbol("n") * Dim::symbol("m"),
                           Dim::symbol("n") + 1};
    return choices[pick(10)];
  }
  Dim make(int depth) {
    if (depth == 0) {
      static const char* const kNames[] = {"i", "j", "k", "n", "m"};
      return pick(4) == 0 ? Dim(pick(41) - 20) : Dim::symbol(kNames[pick(5)]);
    }
    const Dim a = make(depth - 1);
    switch (pick(8)) {
      case 0:
      case 1:
        return a + make(depth - 1);
      case 2:
        return a - make(depth - 1);
      case 3:
        return a * divisor() + make(depth - 1);
      case 4:
        return floordiv(a, divisor());
      case 5:
        return mod(a, divisor());
      case 6:
        return min(a, make(depth - 1));
      default:
        return max(a, make(depth - 1));
    }
  }

 private:
  std::mt19937 random_;
};

// What a Simplifier remembers of one Dim does not change what it says of the next.
TEST(DimProperty, ASimplifierAnswersAsIfAskedOnce) {
  RandomDims random(11);
  const DimRanges in =
      ranges({{"i", "0", "n - 1"}, {"j", "0", "15"}, {"k", "-3", "i + m"}, {"n", "1", ""}, {"m", "1", "6"}});
  base::Simplifier<Dim> simplifier(in);
  for (int round = 0; round < testing_support::many_or(2000, 400); ++round) {
    const Dim x = random.make(1 + random.pick(4));
    for (int again = 0; again < 2; ++again) {
      ASSERT_EQ(simplifier.simplify(x), simplify(x, in)) << x.str();
      ASSERT_EQ(simplifier.nonneg(x), proves_nonneg(x, in)) << x.str();
    }
  }
}

TEST(DimProperty, SimplifyKeepsValues) {
  RandomDims random(7);
  const DimRanges in =
      ranges({{"i", "0", "n - 1"}, {"j", "0", "15"}, {"k", "-3", "i + m"}, {"n", "1", ""}, {"m", "1", "6"}});
  for (int round = 0; round < testing_support::many_or(3000, 500); ++round) {
    const Dim x = random.make(1 + random.pick(4));
    ASSERT_EQ(d(x.str().c_str()), x) << x.str();
    const Dim s = simplify(x, in);
    const std::optional<int64_t> lo = lower_bound(x, in), hi = upper_bound(x, in);
    for (int trial = 0; trial < 12; ++trial) {
      const int64_t n = 1 + random.pick(9), m = 1 + random.pick(6), i = random.pick(static_cast<int>(n));
      const int64_t j = random.pick(16), k = -3 + random.pick(static_cast<int>(i + m + 4));
      const std::map<std::string, int64_t> at = {{"i", i}, {"j", j}, {"k", k}, {"n", n}, {"m", m}};
      const std::optional<int64_t> value = x.eval(at);
      ASSERT_TRUE(value.has_value()) << x.str();
      ASSERT_EQ(s.eval(at), value) << x.str() << " became " << s.str() << " n " << n << " m " << m << " i " << i
                                   << " j " << j << " k " << k;
      if (lo) {
        ASSERT_LE(*lo, *value) << x.str();
      }
      if (hi) {
        ASSERT_GE(*hi, *value) << x.str();
      }
      if (proves_nonneg(x, in)) {
        ASSERT_GE(*value, 0) << x.str();
      }
    }
  }
}

// The canonical forms against C++ arithmetic.
TEST(DimProperty, FunctionsMatchArithmetic) {
  RandomDims random(11);
  const std::vector<std::string> names = {"i", "j", "k", "n", "m"};
  for (int round = 0; round < testing_support::many_or(4000, 1000); ++round) {
    const Dim a = random.make(random.pick(4)), b = random.divisor(), c = random.make(random.pick(3));
    std::map<std::string, int64_t> at;
    for (const std::string& name : names) at[name] = 1 + random.pick(12);
    const int64_t x = *a.eval(at), y = *b.eval(at), z = *c.eval(at);
    const int64_t quotient = (x - (x % y + y) % y) / y;
    const std::string text = a.str() + " ; " + b.str() + " ; " + c.str();
    ASSERT_EQ(floordiv(a, b).eval(at), quotient) << text;
    ASSERT_EQ(mod(a, b).eval(at), x - y * quotient) << text;
    ASSERT_EQ(min(a, c).eval(at), std::min(x, z)) << text;
    ASSERT_EQ(max(a, c).eval(at), std::max(x, z)) << text;
    ASSERT_EQ((a * c + b).eval(at), x * z + y) << text;
    ASSERT_EQ((a - c).eval(at), x - z) << text;
    ASSERT_EQ((a * b).exact_div(b), std::optional(a)) << text;
    ASSERT_EQ(x % std::max<int64_t>(a.known_divisor(), 1), 0) << text;
    ASSERT_EQ(a.substitute({{"i", c}, {"n", b}}).eval(at),
              a.eval({{"i", z}, {"j", at["j"]}, {"k", at["k"]}, {"m", at["m"]}, {"n", y}}))
        << text;
  }
}

}  // namespace
}  // namespace fusec
