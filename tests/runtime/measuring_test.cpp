// SPDX-License-Identifier: Apache-2.0
// The measuring step with algorithms whose times are given here.
#include "runtime/plan/measuring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace fusec::runtime {
namespace {

// Microseconds of algorithm i: `alone[i]` when it is timed by itself (0: it fails), `in_turn[i]` beside the default
// one, which is 0. Of `listed_twice` the last ones, the library lists each a second time.
struct Times {
  std::vector<double> alone, in_turn;
  std::size_t listed_twice = 0;
};

class GivenTimes final : public Algorithms {
 public:
  explicit GivenTimes(const Times& times) : times_(times) {}
  std::size_t count() const override { return times_.alone.size() + times_.listed_twice; }
  void name(std::size_t number, TuningRow& row) const override {
    row.library = "given",
    row.algorithm = std::to_string(number < times_.alone.size() ? number : number - times_.listed_twice);
  }
  bool may_be_default(std::size_t number) const override { return number == 0; }
  Result<std::vector<double>> time(std::size_t number, bool, bool, double, TuningRow&) override {
    if (times_.alone[number] == 0) return Status(StatusCode::unsupported, "it does not run");
    return std::vector<double>{times_.alone[number]};
  }
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(std::size_t by_default, std::size_t other,
                                                                           bool) override {
    return std::pair(std::vector<double>{times_.in_turn[by_default]}, std::vector<double>{times_.in_turn[other]});
  }
  Status alive() const override { return {}; }

 private:
  const Times& times_;
};

class Measuring : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(dir_.data()), nullptr);
    options_.tuning_db = dir_ + "/t.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Result<TuneReport> measure(const Times& times, std::vector<TuningRow> known = {}) {
    Target target;
    Tuning tuning(options_, target, [] { return std::string("a scope"); });
    MeasuredWork work;
    work.layer.call = "a call", work.layer.rows = std::move(known);
    work.list = [&]() -> Result<std::unique_ptr<Algorithms>> {
      return std::unique_ptr<Algorithms>(std::make_unique<GivenTimes>(times));
    };
    std::vector<MeasuredWork> works;
    works.push_back(std::move(work));
    return measure_all(std::move(works), tuning, {}, {});
  }

  std::vector<TuningRow> rows() {
    Target target;
    return Tuning(options_, target, [] { return std::string("a scope"); }).rows("a call");
  }

  // The algorithm that is the fastest by the rows.
  std::string best(const Times& times) {
    const Result<TuneReport> report = measure(times);
    if (!report.ok()) return report.status().str();
    return best_row(report->layers.at(0).rows)->algorithm;
  }

  std::string dir_ = (std::filesystem::temp_directory_path() / "fusec-measuring-XXXXXX").string();
  Options options_;
};

TEST_F(Measuring, TheFastestIsTakenWhereItStaysSo) { EXPECT_EQ(best({{10, 7, 8}, {10, 7, 8}}), "1"); }

// The lowest of noisy times is taken alone by chance: each that it makes the fastest is timed beside the default one.
TEST_F(Measuring, EachThatSeemsFastestIsTimedInTurn) {
  EXPECT_EQ(best({{10, 7, 8, 9}, {10, 10, 10, 10}}), "0");
  EXPECT_EQ(best({{10, 7, 8, 9}, {10, 10, 8.5, 10}}), "2");
}

// cuBLASLt lists some algorithms of f32 several times.
TEST_F(Measuring, AnAlgorithmThatIsListedTwiceHasOneRow) {
  const Times times{{10, 0, 8}, {10, 0, 8}, 2};
  const Result<TuneReport> first = measure(times);
  ASSERT_TRUE(first.ok()) << first.status().str();
  EXPECT_EQ(first->measured, 2);
  EXPECT_EQ(first->failed, 1);  // one that fails is measured
  EXPECT_EQ(rows().size(), 3U);
  EXPECT_TRUE(is_complete(rows()));
  const Result<TuneReport> second = measure(times, rows());
  ASSERT_TRUE(second.ok()) << second.status().str();
  EXPECT_EQ(second->measured + second->failed, 0);
  EXPECT_EQ(second->reused, 3);
}

TEST_F(Measuring, RowsThatCountAnAlgorithmTwiceAreMended) {
  const Times times{{10, 7, 8}, {10, 7, 8}, 1};
  ASSERT_TRUE(measure(times).ok());
  std::vector<TuningRow> old = rows();
  for (TuningRow& row : old) row.listed = 4;
  TuningRow model = old[0];
  model.library = kWholeModel, model.algorithm = "given 1", model.listed = 0;
  old.push_back(model);
  Target target;
  Tuning(options_, target, [] { return std::string("a scope"); }).add(old);
  EXPECT_FALSE(is_complete(rows()));
  const Result<TuneReport> again = measure(times, rows());
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_EQ(again->measured + again->failed, 0);
  EXPECT_TRUE(is_complete(rows()));
}

}  // namespace
}  // namespace fusec::runtime
