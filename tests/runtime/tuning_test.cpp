// SPDX-License-Identifier: Apache-2.0
// Tuning on the CPU, from algorithms to a second process that measures nothing.
#include "runtime/tuning/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "runtime/cache/server.h"
#include "runtime/plan/alternative_calls.h"
#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "tests/environment.h"
#include "tests/runtime/cuda_cases.h"
#include "tests/runtime/fake_redis.h"
#include "tests/runtime/library_case.h"
#include "tests/sanitized.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Tensor weights(std::vector<int64_t> shape) {
  Tensor t = *Tensor::make(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.as<float>()[i] = static_cast<float>(i % 17 - 8) / 16;
  return t;
}

// Two equal products, one of another size, and a convolution of window 1.
Model layers_model() {
  GraphBuilder b;
  Var x = b.input("x", DType::f32, {Dim::symbol("n"), 32});
  for (int i = 0; i < 2; ++i) x = b.apply("tanh", {b.matmul(x, b.constant(weights({32, 32})))});
  b.output("y", b.matmul(x, b.constant(weights({32, 8}))));
  const Var image = b.input("image", DType::f32, {1, 16, 9, 9});
  b.output("z", b.conv(image, b.constant(weights({24, 16, 1, 1}))));
  return *b.finish();
}

class TuningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-tune-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    options_.cache_dir = folder_ = name;
    options_.threads = 1;
    options_.quick_tuning = true;
    options_.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
  }
  void TearDown() override { fs::remove_all(folder_); }

  Engine engine(Strategy strategy) {
    options_.strategy = strategy;
    Result<Engine> made = Engine::compile(layers_model(), options_);
    if (!made.ok()) throw std::runtime_error(made.status().str());
    return std::move(made).value();
  }
  static PlanStats plan(const Engine& engine) { return *engine.plan(std::vector<TensorShape>{{5, 32}, {1, 16, 9, 9}}); }
  TuneReport tune_engine(const Engine& engine, const TuneLimits& limits = {0, true}) {
    const EngineState& state = *engine.state();
    const ResolvedProgram resolved = *resolve(state.program(), {{"n", 5}});
    Result<TuneReport> report = tune(*state.loaded, resolved, state.threads, state.tuning(), limits);
    if (!report.ok()) throw std::runtime_error(report.status().str());
    return std::move(report).value();
  }
  static std::vector<Tensor> run(const Engine& engine) {
    const std::vector<Tensor> in = {weights({5, 32}), weights({1, 16, 9, 9})};
    return *Session::create(engine)->run(in);
  }
  std::vector<TuningRow> stored() const {
    auto db = TuningDatabase::open(tuning_path(options_));
    return db.ok() ? *(*db)->rows({}) : std::vector<TuningRow>();
  }

  std::string folder_;
  Options options_;
  std::vector<std::string> warnings_;
};

TEST_F(TuningTest, MeasuresOnceAndKeepsWhatItMeasured) {
  const TuneReport first = tune_engine(engine(Strategy::heuristic));
  ASSERT_EQ(first.layers.size(), 3u);
  EXPECT_EQ(first.layers[0].count + first.layers[1].count + first.layers[2].count, 4);
  EXPECT_GE(first.measured, 6);  // loops are a choice of everything
  EXPECT_EQ(first.reused, 0);
  EXPECT_TRUE(first.finished);
  for (const TunedLayer& layer : first.layers) {
    ASSERT_NE(default_row(layer.rows), nullptr) << layer.call;
    EXPECT_LE(best_row(layer.rows)->median_us, default_row(layer.rows)->median_us);
    for (const TuningRow& row : layer.rows) EXPECT_TRUE(is_sound(row)) << row.algorithm;
  }
  const TuneTotals sums = totals(first);
  EXPECT_GT(sums.default_us, 0);
  EXPECT_LE(sums.best_us, sums.default_us);
  const std::vector<TuningRow> rows = stored();
  EXPECT_EQ(static_cast<int64_t>(rows.size()), first.measured + first.failed);
  const TuneReport second = tune_engine(engine(Strategy::heuristic));
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(second.failed, 0);
  EXPECT_EQ(second.reused, static_cast<int64_t>(rows.size()));
  EXPECT_EQ(totals(second).best_us, sums.best_us);
  EXPECT_EQ(stored(), rows);
  EXPECT_TRUE(warnings_.empty());
}

// Rows of calls one after another are of the algorithms that are not hopeless alone, and measured once.
TEST_F(TuningTest, RepeatedCallsAreTimedByTheAlgorithmsThatMayWin) {
  const Engine engine = this->engine(Strategy::heuristic);
  const TuneReport alone = tune_engine(engine);
  const EngineState& state = *engine.state();
  const ResolvedProgram resolved = *resolve(state.program(), {{"n", 5}});
  const auto repeat = [&] {
    return *tune_alternatives(*state.loaded, resolved, state.threads, state.tuning(), {0, true}, {false, false, true});
  };
  const TuneReport repeated = repeat();
  ASSERT_EQ(repeated.layers.size(), alone.layers.size());
  for (std::size_t i = 0; i < alone.layers.size(); ++i) {
    const TunedLayer &first = alone.layers[i], &second = repeated.layers[i];
    EXPECT_EQ(second.call, first.call + " repeated");
    ASSERT_FALSE(second.rows.empty());
    for (const TuningRow& row : second.rows) {
      EXPECT_GT(row.median_us, 0) << row.algorithm << ": " << row.failure;
      const auto same = std::find_if(first.rows.begin(), first.rows.end(), [&](const TuningRow& r) {
        return r.library == row.library && r.algorithm == row.algorithm;
      });
      ASSERT_NE(same, first.rows.end()) << row.algorithm;
      EXPECT_TRUE(same->is_default || same->median_us <= 1.5 * best_row(first.rows)->median_us) << row.algorithm;
    }
  }
  EXPECT_EQ(repeat().measured, 0);
}

TEST_F(TuningTest, StopsInTimeAndGoesOnLater) {
  const TuneReport none = tune_engine(engine(Strategy::heuristic), {1e-9, true});
  EXPECT_FALSE(none.finished);
  EXPECT_EQ(none.measured, 0);
  EXPECT_EQ(none.layers.size(), 3u);
  const TuneReport rest = tune_engine(engine(Strategy::heuristic));
  EXPECT_TRUE(rest.finished);
  // A process that was killed after some rows.
  fs::remove(tuning_path(options_));
  {
    const auto db = TuningDatabase::open_to_write(tuning_path(options_), [](const std::string&) {});
    ASSERT_TRUE((*db)->put(rest.layers[0].rows[0]).ok());
  }
  const TuneReport resumed = tune_engine(engine(Strategy::heuristic));
  EXPECT_EQ(resumed.reused, 1);
  EXPECT_EQ(resumed.measured + resumed.failed, rest.measured + rest.failed - 1);
}

TEST_F(TuningTest, ProfileMeasuresWhatIsMissing) {
  plan(engine(Strategy::profile));
  const std::vector<TuningRow> rows = stored();
  EXPECT_GE(rows.size(), 6u);
  plan(engine(Strategy::profile));
  plan(engine(Strategy::cached));
  EXPECT_EQ(stored(), rows);
}

// The times say that loops are the fastest; so they run, and compute the same.
TEST_F(TuningTest, TheFastestIsTaken) {
  const std::vector<Tensor> expected = run(engine(Strategy::heuristic));
  const Engine tuned = engine(Strategy::heuristic);
  if (tuned.state()->loaded->libraries.size() < 2) GTEST_SKIP() << "one library has no choices";
  std::vector<TuningRow> rows;
  for (const TunedLayer& layer : tune_engine(tuned).layers) {
    for (TuningRow row : layer.rows) {
      if (row.library == "plain") row.median_us = 1e-3;
      rows.push_back(row);
    }
  }
  {
    const auto db = TuningDatabase::open_to_write(tuning_path(options_), [](const std::string&) {});
    for (const TuningRow& row : rows) ASSERT_TRUE((*db)->put(row).ok());
  }
  const Engine cached = engine(Strategy::cached);
  const PlanStats stats = plan(cached);
  EXPECT_EQ(stats.tuned, 4);
  for (const LaunchInfo& step : stats.steps) {
    if (!step.generated) {
      EXPECT_EQ(step.implementation, "loops");
    }
  }
  EXPECT_EQ(plan(engine(Strategy::heuristic)).tuned, 0);
  EXPECT_EQ(plan(engine(Strategy::reproducible)).tuned, 0);
  const std::vector<Tensor> actual = run(cached);
  for (std::size_t o = 0; o < actual.size(); ++o) {
    for (int64_t i = 0; i < actual[o].num_elements(); ++i) {
      ASSERT_NEAR(actual[o].as<float>()[i], expected[o].as<float>()[i], 1e-4f);
    }
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TuningTest, ChoicesThatVanishedAreNotedOnce) {
  for (const TunedLayer& layer : tune_engine(engine(Strategy::heuristic)).layers) {
    const auto db = TuningDatabase::open_to_write(tuning_path(options_), [](const std::string&) {});
    TuningRow gone = layer.rows[0];
    gone.algorithm = "of another day", gone.median_us = 1e-3, gone.is_default = false;
    ASSERT_TRUE((*db)->put(gone).ok());
    gone.library = "nobody";
    ASSERT_TRUE((*db)->put(gone).ok());
  }
  run(engine(Strategy::cached));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("no longer has 'of another day'"));
}

TEST_F(TuningTest, FaultsOfTheDatabaseAreOneWarning) {
  std::ofstream(tuning_path(options_)) << std::string(5000, 'x');
  run(engine(Strategy::cached));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("running without measured times"));
  options_.tuning_db = "/dev/null";
  warnings_.clear();
  const TuneReport report = tune_engine(engine(Strategy::heuristic));
  EXPECT_GE(report.measured, 6);
  EXPECT_EQ(warnings_.size(), 1u);
}

// Another machine, whose own database lacks the rows.
TEST_F(TuningTest, ASharedDatabaseIsReadAndNotWritten) {
  (void)tune_engine(engine(Strategy::heuristic));
  const std::vector<TuningRow> rows = stored();
  const std::string first = *options_.cache_dir;
  const auto written = fs::last_write_time(tuning_path(options_));
  options_.shared_cache_dir = first;
  options_.cache_dir = first + "/second";
  const TuneReport other = tune_engine(engine(Strategy::heuristic));
  EXPECT_EQ(other.measured + other.failed, 0);
  EXPECT_EQ(other.reused, static_cast<int64_t>(rows.size()));
  EXPECT_FALSE(fs::exists(tuning_path(options_)));
  TuningRow own = rows[0];
  own.median_us = 1000;
  {
    const auto db = TuningDatabase::open_to_write(tuning_path(options_), [](const std::string&) {});
    ASSERT_TRUE((*db)->put(own).ok());
  }
  const Engine with_own = engine(Strategy::cached);
  const std::vector<TuningRow> known = with_own.state()->tuning().rows(own.call);
  EXPECT_EQ(std::count(known.begin(), known.end(), own), 1) << "its own row comes first";
  EXPECT_EQ(std::count(known.begin(), known.end(), rows[0]), 0);
  EXPECT_EQ(fs::last_write_time(shared_tuning_path(options_)), written);
  EXPECT_TRUE(warnings_.empty());
}

// Another machine of the kind, which keeps what it gets.
TEST_F(TuningTest, RowsGoThroughAServer) {
  if (!has_hiredis()) GTEST_SKIP() << "built without hiredis";
  const testing_support::Environment secret("FUSEC_CACHE_SECRET", "a secret of many bytes");
  FakeRedis server;
  options_.cache_server = server.address();
  const int64_t measured = tune_engine(engine(Strategy::heuristic)).measured;
  const std::size_t rows = stored().size();
  ASSERT_GE(measured, 6);
  options_.cache_dir = *options_.cache_dir + "/second";
  const Engine second = engine(Strategy::heuristic);
  const TuneReport other = tune_engine(second);
  EXPECT_EQ(other.measured + other.failed, 0);
  EXPECT_EQ(other.reused, static_cast<int64_t>(rows));
  const Tuning::Sources sources = second.state()->tuning().sources();
  EXPECT_EQ(sources.own + sources.shared, 0);
  EXPECT_EQ(sources.server, static_cast<int64_t>(rows));
  EXPECT_EQ(stored().size(), rows);
  options_.cache_server = "";
  EXPECT_EQ(tune_engine(engine(Strategy::heuristic)).measured, 0);
  EXPECT_TRUE(warnings_.empty());

  // Damaged ones are measured again.
  options_.cache_server = server.address("?retry=2s");
  options_.cache_dir = *options_.cache_dir + "/third";
  const auto values = server.values();
  for (const auto& [name, value] : values) {
    if (name.starts_with("fusec:1:times")) server.set_value(name, value.substr(0, value.size() - 1));
  }
  EXPECT_GT(tune_engine(engine(Strategy::heuristic)).measured, 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("not made with this FUSEC_CACHE_SECRET"));
}

TEST_F(TuningTest, ADamagedSharedDatabaseIsOneWarning) {
  options_.shared_cache_dir = *options_.cache_dir;
  options_.cache_dir = *options_.shared_cache_dir + "/second";
  std::ofstream(shared_tuning_path(options_)) << std::string(5000, 'x');
  run(engine(Strategy::cached));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("running without shared measured times"));
}

TEST_F(TuningTest, WithoutACacheNothingIsStored) {
  options_.use_cache = false;
  EXPECT_GE(tune_engine(engine(Strategy::heuristic)).measured, 6);
  EXPECT_EQ(tuning_path(options_), "");
  EXPECT_TRUE(warnings_.empty());
}

// Everything that changes the time of a call changes its text.
TEST(TuningKey, SaysWhatACallIs) {
  const auto product = [](int64_t m, std::vector<int64_t> strides = {}, bool constant = true) {
    testing::Case c(ir::TensorOp::matmul, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
    c.add({m, 8}, std::move(strides));
    c.add({8, 4}, {}, constant);
    c.add({m, 4});
    return c;
  };
  const std::string base = tuning_call(product(5).call);
  EXPECT_EQ(base, "matmul f32 a=f32[5,8](8,1)@16 b=f32[8,4](4,1)@16c out=f32[5,4](4,1)@16");
  EXPECT_EQ(tuning_call(product(5).call), base);
  EXPECT_NE(tuning_call(product(6).call), base);
  EXPECT_NE(tuning_call(product(5, {9, 1}).call), base);
  EXPECT_NE(tuning_call(product(5, {}, false).call), base);
  testing::Case relu = product(5), shifted = product(5);
  relu.epilogue(ir::ScalarOp::relu);
  EXPECT_EQ(tuning_call(relu.call), base + " +relu");
  shifted.call.args[0].offset = 4;
  EXPECT_NE(tuning_call(shifted.call), base);
}

// So the rows of a model that makes these calls are those of the alternative.
TEST(TuningKey, OfAnAlternativeIsThatOfTheCallItself) {
  for (const testing::Image& image : testing::image_cases()) {
    SCOPED_TRACE(::testing::PrintToString(image.kernel));
    const testing::Case last = image_case(image, true), first = image_case(image, false);
    const auto moved = with_channels_first(last.call);
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(tuning_call(*moved), tuning_call(first.call));
    EXPECT_FALSE(with_channels_first(first.call).has_value());
    const auto half = in_half(last.call);
    ASSERT_TRUE(half.has_value());
    EXPECT_EQ(tuning_call(*half), tuning_call(image_case(image, true, true, 0, DType::f16).call));
    EXPECT_FALSE(in_half(*half).has_value());
  }
}

// Each choice of oneDNN computes the call, says which it is, and the first is what it takes by itself.
TEST(TuningChoices, OfOneDnn) {
  std::shared_ptr<Library> library;
  for (const auto& l : host_libraries(Options())) {
    if (l->name() == "onednn") library = l;
  }
  if (!library) GTEST_SKIP() << "built without oneDNN";
  const int64_t side = testing_support::many_or(14, 6);  // sanitizers slow the loops over doubles down
  const auto image = [side](int64_t kernel) {
    testing::Case c(ir::TensorOp::conv, {{"strides", testing::Extents{1, 1}},
                                         {"pads", testing::Extents(4, kernel / 2)},
                                         {"dilations", testing::Extents{1, 1}},
                                         {"groups", int64_t{1}},
                                         {"layout", std::string("last")}});
    c.add({1, side, side, 32});
    c.add({48, 32, kernel, kernel}, {}, true);
    c.step->bias = c.add({48}, {}, true);
    c.epilogue(ir::ScalarOp::add, c.add({1, side, side, 48}));
    c.add({1, side, side, 48});
    return c;
  };
  for (const int64_t kernel : {1, 3}) {
    testing::Case c = image(kernel);
    const std::vector<Algorithm> algorithms = library->algorithms(c.call);
    ASSERT_FALSE(algorithms.empty());
    EXPECT_GE(algorithms.size(), kernel == 1 ? 2u : 1u);
    const std::string own = testing::check(*library, c, 1e-5);
    for (const Algorithm& algorithm : algorithms) {
      if (testing_support::kSanitized && &algorithm - &algorithms[0] > 2) break;  // one loop over doubles for each
      testing::Case chosen = image(kernel);
      chosen.call.algorithm = algorithm.id;
      const std::string what = testing::check(*library->clone(0), chosen, 1e-5);
      if (&algorithm == &algorithms[0]) {
        EXPECT_EQ(what, own);
      }
      if (!algorithm.id.starts_with("matmul")) {
        EXPECT_THAT(what, HasSubstr(algorithm.id));
      }
    }
    c.call.algorithm = "of another day";
    EXPECT_EQ(library->bind(c.call).status().code(), StatusCode::unsupported);
  }
}

}  // namespace
}  // namespace fusec::runtime
