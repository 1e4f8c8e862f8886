// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/cache/sqlite.h"
#include "runtime/cache/tuning.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TuningRow row(const std::string& algorithm, double us = 10, const std::string& call = "matmul") {
  return {"a machine", call, "onednn", algorithm, false, 2, us, 0.1, 11, 64, "", 1000};
}

class TuningDatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-tuning-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    path_ = name + "/t.sqlite";
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::unique_ptr<TuningDatabase> writer(const std::string& path = {}) {
    auto opened = TuningDatabase::open_to_write(path.empty() ? path_ : path,
                                                [this](const std::string& w) { warnings_.push_back(w); });
    EXPECT_TRUE(opened.ok()) << opened.status().str();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  std::vector<TuningRow> read(const std::string& scope = "a machine", int64_t* skipped = nullptr) {
    auto opened = TuningDatabase::open(path_);
    EXPECT_TRUE(opened.ok()) << opened.status().str();
    return opened.ok() ? *(*opened)->rows(scope, skipped) : std::vector<TuningRow>();
  }
  // Runs SQL on the file, as another program would.
  void meddle(const char* sql) {
    const auto db = sqlite::Connection::open(path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    ASSERT_TRUE(db.ok());
    const Status status = db->run(sql);
    ASSERT_TRUE(status.ok()) << status.str();
  }

  fs::path dir_;
  std::string path_;
  std::vector<std::string> warnings_;
};

TEST_F(TuningDatabaseTest, KeepsRows) {
  EXPECT_EQ(TuningDatabase::open(path_).status().code(), StatusCode::cache);
  TuningRow failed = row("b", 0);
  failed.failure = "it failed", failed.is_default = true;
  {
    const auto db = writer();
    ASSERT_TRUE(db->put(row("a", 20)).ok());
    ASSERT_TRUE(db->put(row("a", 10)).ok());
    ASSERT_TRUE(db->put(failed).ok());
    TuningRow elsewhere = row("c");
    elsewhere.scope = "another machine";
    ASSERT_TRUE(db->put(elsewhere).ok());
    EXPECT_FALSE(db->put(row("d", -1)).ok());
  }
  EXPECT_EQ(read(), (std::vector<TuningRow>{row("a"), failed}));
  EXPECT_EQ(read({}).size(), 3u);
  EXPECT_EQ(writer()->rows("a machine")->size(), 2u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TuningDatabaseTest, MakesItsFolder) {
  path_ = (dir_ / "new" / "t.sqlite").string();
  ASSERT_TRUE(writer()->put(row("a")).ok());
  EXPECT_EQ(fs::status(dir_ / "new").permissions(), fs::perms::owner_all);
}

TEST_F(TuningDatabaseTest, DamagedFilesAreSetAside) {
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("damaged"));
  ASSERT_TRUE(writer()->put(row("a")).ok());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(fs::exists(path_ + ".damaged"));
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(TuningDatabaseTest, TornPagesAreFound) {
  {
    const auto db = writer();
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(db->put(row("choice " + std::to_string(i))).ok());
  }
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8192);
  file << std::string(4096, '\xff');
  file.close();
  EXPECT_EQ(TuningDatabase::open(path_).status().code(), StatusCode::cache);
  ASSERT_TRUE(writer()->put(row("a")).ok());
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(TuningDatabaseTest, FilesOfAnotherKindAreLeftAlone) {
  meddle("CREATE TABLE accounts(name TEXT)");
  EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("no tuning database"));
  EXPECT_FALSE(TuningDatabase::open_to_write(path_, [](const std::string&) {}).ok());
  EXPECT_FALSE(fs::exists(path_ + ".damaged"));
}

TEST_F(TuningDatabaseTest, TriggersAndViewsAreRefused) {
  for (const char* sql : {"CREATE TRIGGER t AFTER INSERT ON times BEGIN DELETE FROM times; END",
                          "CREATE VIEW v AS SELECT * FROM times", "PRAGMA user_version=2",
                          "DROP TABLE figures; CREATE TABLE figures(device TEXT, name TEXT, value REAL, time INTEGER)",
                          "DROP TABLE figures; CREATE VIEW figures AS SELECT * FROM times"}) {
    fs::remove(path_);
    writer();
    // Triggers cannot be made with our own settings: by a connection of the system's defaults.
    sqlite3* plain = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &plain), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(plain, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(plain);
    EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("no tuning database")) << sql;
  }
}

TEST_F(TuningDatabaseTest, RowsThatMakeNoSenseAreSkipped) {
  ASSERT_TRUE(writer()->put(row("good")).ok());
  for (const char* values :
       {"'a machine', 'c', 'l', 'x', 0, 1, 9e999, 0, 1, 0, '', 0",
        "'a machine', 'c', 'l', 'x', 0, 1, 1, -1, 1, 0, '', 0",
        "'a machine', 'c', 'l', 'x', 0, 1, 'fast', 0, 1, 0, '', 0",
        "'a machine', 'c', 'l', 'x', 0, 1, 1, 0, 0, 0, '', 0", "'a machine', 'c', 'l', 'x', 0, 1, 1, 0, 1, -5, '', 0",
        "'a machine', 'c', '', 'x', 0, 1, 1, 0, 1, 0, '', 0",
        "'a machine', 'c', 'l', printf('%2000d', 1), 0, 1, 1, 0, 1, 0, '', 0"}) {
    meddle(("DELETE FROM times WHERE call = 'c'; INSERT INTO times VALUES(" + std::string(values) + ")").c_str());
    int64_t skipped = 0;
    EXPECT_EQ(read("a machine", &skipped).size(), 1u) << values;
    EXPECT_EQ(skipped, 1) << values;
  }
}

FigureRow figure(const std::string& name, double value, int64_t time = 1000) {
  return {"a machine", name, value, time};
}

TEST_F(TuningDatabaseTest, KeepsFigures) {
  {
    const auto db = writer();
    EXPECT_TRUE(db->figures({})->empty());
    ASSERT_TRUE(db->put(std::vector{figure("launch", 3), figure("barrier", 1)}).ok());
    ASSERT_TRUE(db->put(std::vector{figure("launch", 2), FigureRow{"another", "launch", 9, 1}}).ok());
    // All or none.
    EXPECT_FALSE(db->put(std::vector{figure("barrier", 7), figure("launch", -1)}).ok());
    EXPECT_FALSE(db->put(std::vector{figure("", 1)}).ok());
    ASSERT_TRUE(db->put(row("a")).ok());
  }
  const auto db = TuningDatabase::open(path_);
  ASSERT_TRUE(db.ok()) << db.status().str();
  EXPECT_EQ(*(*db)->figures("a machine"), (std::vector{figure("barrier", 1), figure("launch", 2)}));
  EXPECT_EQ((*db)->figures({})->size(), 3u);
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(TuningDatabaseTest, FiguresThatMakeNoSenseAreLeftOut) {
  ASSERT_TRUE(writer()->put(std::vector{figure("launch", 2)}).ok());
  meddle(
      "INSERT INTO figures VALUES('a machine', 'barrier', -1, 0), ('a machine', 'block_start', 9e999, 0), "
      "('a machine', 'simple_ops', 'fast', 0)");
  EXPECT_EQ(*(*TuningDatabase::open(path_))->figures("a machine"), std::vector{figure("launch", 2)});
}

// A file of times alone, as an earlier version made it.
TEST_F(TuningDatabaseTest, FilesWithoutFiguresAreReadAndExtended) {
  ASSERT_TRUE(writer()->put(row("a")).ok());
  meddle("DROP TABLE figures");
  EXPECT_EQ(read().size(), 1u);
  EXPECT_TRUE((*TuningDatabase::open(path_))->figures({})->empty());
  ASSERT_TRUE(writer()->put(std::vector{figure("launch", 2)}).ok());
  EXPECT_EQ((*TuningDatabase::open(path_))->figures({})->size(), 1u);
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(TuningDatabaseTest, MergesLaterFigures) {
  const std::string other = (dir_ / "other.sqlite").string();
  ASSERT_TRUE(writer()->put(std::vector{figure("launch", 2, 10), figure("barrier", 2, 30)}).ok());
  ASSERT_TRUE(writer(other)
                  ->put(std::vector{figure("launch", 5, 20), figure("barrier", 5, 20), figure("cache_copy", 5, 1)})
                  .ok());
  const auto taken = writer()->merge(**TuningDatabase::open(other));
  ASSERT_TRUE(taken.ok()) << taken.status().str();
  EXPECT_EQ(*taken, 2);
  EXPECT_EQ(*(*TuningDatabase::open(path_))->figures({}),
            (std::vector{figure("barrier", 2, 30), figure("cache_copy", 5, 1), figure("launch", 5, 20)}));
}

TEST_F(TuningDatabaseTest, ALockedDatabaseIsAStatus) {
  ASSERT_TRUE(writer()->put(row("a")).ok());
  const auto holder = sqlite::Connection::open(path_, SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(holder.ok());
  ASSERT_TRUE(holder->run("BEGIN EXCLUSIVE").ok());
  const Status status = TuningDatabase::open(path_).status();
  EXPECT_EQ(status.code(), StatusCode::cache);
  EXPECT_THAT(status.message(), HasSubstr("locked"));
}

TEST_F(TuningDatabaseTest, AFolderThatCannotBeWrittenIsAStatus) {
  EXPECT_EQ(TuningDatabase::open_to_write("/proc/no/such/t.sqlite", [](const std::string&) {}).status().code(),
            StatusCode::cache);
  EXPECT_EQ(TuningDatabase::open_to_write("/dev/null", [](const std::string&) {}).status().code(), StatusCode::cache);
}

TEST_F(TuningDatabaseTest, FilesThatOthersCanChangeAreRefused) {
  ASSERT_TRUE(writer()->put(row("a")).ok());
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const auto refusal = [&] {
    const Status status = TuningDatabase::open(path_).status();
    EXPECT_EQ(TuningDatabase::open_to_write(path_, [](const std::string&) {}).status().str(), status.str());
    return status.code() == StatusCode::cache ? status.message() : "no refusal";
  };
  for (const mode_t mode : {0602, 0620, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(refusal(), HasSubstr("can be written by other users")) << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(read().size(), 1u);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
    EXPECT_THAT(refusal(), HasSubstr("belongs to another user"));
    ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  }
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_THAT(refusal(), HasSubstr("the folder '" + dir_.string()));
  ASSERT_EQ(chmod(dir_.c_str(), 0700), 0);
  EXPECT_EQ(read().size(), 1u);
}

// A journal is undone into the database before anything is read.
TEST_F(TuningDatabaseTest, LinksAndJournalsOfOthersAreRefused) {
  ASSERT_TRUE(writer()->put(row("a")).ok());
  const std::string real = path_, journal = path_ + "-journal";
  path_ = (dir_ / "link.sqlite").string();
  fs::create_symlink(real, path_);
  EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("is a link"));
  EXPECT_THAT(TuningDatabase::open_to_write(path_, [](const std::string&) {}).status().message(),
              HasSubstr("is a link"));
  path_ = real;
  std::ofstream(journal) << "x";
  ASSERT_EQ(chmod(journal.c_str(), 0666), 0);
  EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("t.sqlite-journal' can be written"));
  fs::remove(journal);
  fs::create_symlink(dir_ / "nowhere", journal);
  EXPECT_THAT(TuningDatabase::open(path_).status().message(), HasSubstr("is a link"));
  fs::remove(journal);
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(TuningDatabaseTest, APathThatCannotBeLookedAtIsAStatus) {
  const std::string folder = (dir_ / std::string(300, 'n')).string();
  EXPECT_THAT(TuningDatabase::open(folder + "/t.sqlite").status().str(),
              HasSubstr("cannot look at '" + folder + "': File name too long"));
}

TEST_F(TuningDatabaseTest, MergeKeepsWhatIsBetterMeasured) {
  const std::string other = (dir_ / "other.sqlite").string();
  TuningRow failed = row("failed here", 0);
  failed.failure = "once";
  TuningRow longer = row("more runs there", 5), later = row("later there", 5), fewer = row("fewer runs there", 5);
  longer.runs = 100, later.time = 2000, fewer.runs = 3;
  {
    const auto to = writer(), from = writer(other);
    for (const char* algorithm : {"more runs there", "later there", "fewer runs there", "only here"})
      ASSERT_TRUE(to->put(row(algorithm)).ok());
    ASSERT_TRUE(to->put(failed).ok());
    for (const TuningRow& r : {longer, later, fewer, row("failed here"), row("only there")})
      ASSERT_TRUE(from->put(r).ok());
    EXPECT_EQ(*to->merge(*from), 4);
    EXPECT_EQ(*to->merge(*from), 0);
  }
  EXPECT_THAT(read(), ::testing::UnorderedElementsAre(longer, later, row("fewer runs there"), row("only here"),
                                                      row("failed here"), row("only there")));
}

TEST_F(TuningDatabaseTest, TwoWritersLoseNothing) {
  constexpr int kRows = 40;
  {
    std::vector<std::jthread> threads;
    for (const char* call : {"one", "two"}) {
      threads.emplace_back([&, call] {
        const auto db = TuningDatabase::open_to_write(path_, [](const std::string&) {});
        ASSERT_TRUE(db.ok()) << db.status().str();
        for (int i = 0; i < kRows; ++i) {
          const Status status = (*db)->put(row(std::to_string(i), 10, call));
          ASSERT_TRUE(status.ok()) << status.str();
        }
      });
    }
  }
  EXPECT_EQ(read().size(), 2u * kRows);
}

// As after a kill in the middle of a transaction: pages are written, and the journal says what was there before.
TEST_F(TuningDatabaseTest, WhatIsHalfWrittenIsUndone) {
  ASSERT_TRUE(writer()->put(row("a")).ok());
  const auto db = sqlite::Connection::open(path_, SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db.ok());
  const Status written = db->run(
      "PRAGMA cache_size=1; BEGIN IMMEDIATE; DELETE FROM times; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + "
      "1 FROM n WHERE "
      "i < 2000) INSERT INTO times SELECT 'a machine', 'half', 'l', printf('%0200d', i), 0, 1, 1, 0, 1, 0, '', 0 FROM "
      "n");
  ASSERT_TRUE(written.ok()) << written.str();
  const std::string killed = (dir_ / "killed.sqlite").string();
  fs::copy_file(path_, killed);
  fs::copy_file(path_ + "-journal", killed + "-journal");
  ASSERT_TRUE(db->run("ROLLBACK").ok());
  path_ = killed;
  EXPECT_EQ(read(), std::vector<TuningRow>{row("a")});
}

// What a killed process had reported as stored is there, and the file is whole.
TEST_F(TuningDatabaseTest, AKilledProcessLosesOneRowAtMost) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    fs::remove(path_);
    int reports[2];
    ASSERT_EQ(pipe(reports), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto db = TuningDatabase::open_to_write(path_, [](const std::string&) {});
      for (int i = 0; db.ok() && (*db)->put(row(std::to_string(i))).ok(); ++i) {
        if (write(reports[1], "x", 1) != 1) break;
      }
      _exit(1);
    }
    close(reports[1]);
    char byte;
    std::size_t stored = 0;
    while (stored < 10 + 3 * static_cast<std::size_t>(attempt) && ::read(reports[0], &byte, 1) == 1) ++stored;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (::read(reports[0], &byte, 1) == 1) ++stored;
    close(reports[0]);
    EXPECT_GE(stored, 10u);
    const std::size_t found = read().size();
    EXPECT_GE(found, stored);
    EXPECT_LE(found, stored + 1);
    EXPECT_TRUE(writer()->put(row("after")).ok());
  }
  EXPECT_TRUE(warnings_.empty());
}

}  // namespace
}  // namespace fusec::runtime
