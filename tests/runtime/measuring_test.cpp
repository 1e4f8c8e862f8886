// SPDX-License-Identifier: Apache-2.0
// The measuring step with algorithms whose times are given here.
#include "runtime/plan/measuring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace fusec::runtime {
namespace {

// Microseconds of algorithm i: `alone[i]` when it is timed by itself, `in_turn[i]` beside the default one, which is 0.
struct Times {
  std::vector<double> alone, in_turn;
};

class GivenTimes final : public Algorithms {
 public:
  explicit GivenTimes(const Times& times) : times_(times) {}
  std::size_t count() const override { return times_.alone.size(); }
  void name(std::size_t number, TuningRow& row) const override {
    row.library = "given", row.algorithm = std::to_string(number);
  }
  bool may_be_default(std::size_t number) const override { return number == 0; }
  Result<std::vector<double>> time(std::size_t number, bool, bool, double, TuningRow&) override {
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

  // The algorithm that is the fastest by the rows.
  std::string best(const Times& times) {
    Target target;
    Tuning tuning(options_, target, [] { return std::string("a scope"); });
    MeasuredWork work;
    work.layer.call = "a call";
    work.list = [&]() -> Result<std::unique_ptr<Algorithms>> {
      return std::unique_ptr<Algorithms>(std::make_unique<GivenTimes>(times));
    };
    std::vector<MeasuredWork> works;
    works.push_back(std::move(work));
    const Result<TuneReport> report = measure_all(std::move(works), tuning, {}, {});
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

}  // namespace
}  // namespace fusec::runtime
