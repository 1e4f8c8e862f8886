// SPDX-License-Identifier: Apache-2.0
// Measured figures on their way through the tuning database into a Target.
#include "runtime/device/machine_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/device/device.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

class MachineModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-model-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    options_.tuning_db = name + "/t.sqlite";
  }
  void TearDown() override { fs::remove_all(dir_); }

  // Stores a launch cost of 42 us for this machine's CPU.
  void store() {
    const Result<Machine> machine = open_machine(options_);
    ASSERT_TRUE(machine.ok()) << machine.status().str();
    MachineModel model = machine->target.model;
    model.launch = {42, FigureSource::measured};
    const Status status = write_machine_model(options_, machine_key(*machine), model);
    ASSERT_TRUE(status.ok()) << status.str();
  }
  MachineModel model() const {
    const Result<Machine> machine = open_machine(options_);
    EXPECT_TRUE(machine.ok()) << machine.status().str();
    return machine.ok() ? machine->target.model : MachineModel();
  }

  fs::path dir_;
  Options options_;
};

TEST_F(MachineModelTest, AMissingDatabaseLeavesTheDefaults) {
  EXPECT_EQ(model().launch.source, FigureSource::estimated);
  EXPECT_FALSE(fs::exists(*options_.tuning_db));
}

TEST_F(MachineModelTest, StoredFiguresAreRead) {
  const MachineModel before = model();
  store();
  const MachineModel after = model();
  EXPECT_EQ(after.launch, (Figure{42, FigureSource::measured}));
  // Only what was measured is stored.
  EXPECT_EQ(after.memory_copy, before.memory_copy);
  EXPECT_NE(machine_digest(after), machine_digest(before));
  EXPECT_EQ(machine_digest(after), machine_digest(model()));
}

TEST_F(MachineModelTest, FiguresOfASharedFolderAreReadBehindOwnOnes) {
  options_.tuning_db = (dir_ / "tuning.v1.sqlite").string();
  store();
  options_.tuning_db = (dir_ / "own.sqlite").string();
  EXPECT_EQ(model().launch.source, FigureSource::estimated);
  options_.shared_cache_dir = dir_.string();
  EXPECT_EQ(model().launch, (Figure{42, FigureSource::measured}));
  MachineModel own;
  own.launch = {7, FigureSource::measured};
  ASSERT_TRUE(write_machine_model(options_, machine_key(*open_machine(options_)), own).ok());
  EXPECT_EQ(model().launch, (Figure{7, FigureSource::measured}));
}

TEST_F(MachineModelTest, StrategiesWithoutTheDatabaseAndNamedTargetsDoNotReadIt) {
  store();
  for (const Strategy strategy : {Strategy::heuristic, Strategy::reproducible}) {
    options_.strategy = strategy;
    EXPECT_EQ(model().launch.source, FigureSource::estimated);
  }
  options_.strategy = Strategy::profile;
  EXPECT_EQ(model().launch.source, FigureSource::measured);
  options_.target = "x86-64-v2";
  EXPECT_EQ(model().launch.source, FigureSource::estimated);
}

TEST_F(MachineModelTest, ADamagedDatabaseLeavesTheDefaults) {
  std::ofstream(*options_.tuning_db) << std::string(5000, 'x');
  EXPECT_EQ(model().launch.source, FigureSource::estimated);
  MachineModel given;
  EXPECT_EQ(read_machine_model(options_, "a machine", given).code(), StatusCode::cache);
  EXPECT_EQ(given, MachineModel());
}

TEST_F(MachineModelTest, NoDatabaseToWriteIsAStatus) {
  options_.tuning_db.reset();
  options_.use_cache = false;
  EXPECT_EQ(write_machine_model(options_, "a machine", {}).code(), StatusCode::cache);
}

}  // namespace
}  // namespace fusec::runtime
