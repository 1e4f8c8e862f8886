// SPDX-License-Identifier: Apache-2.0
// A second folder of kernels that is only read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/cache/artifact.h"
#include "tests/environment.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using codegen::Artifact;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Artifact make_entry(const std::string& key) {
  Artifact artifact;
  artifact.key = key;
  artifact.image.assign(100, 0x90);
  return artifact;
}

class SharedCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-shared-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    base_ = name;
    options_.cache_dir = (base_ / "own").string();
    options_.shared_cache_dir = (base_ / "shared").string();
    options_.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    Options filling;
    filling.cache_dir = options_.shared_cache_dir;
    const auto cache = KernelCache::open(filling);
    for (const char* key : {"a", "b"}) cache->store(make_entry(key));
    for_each_shared([](const fs::path& path, bool is_folder) {
      fs::permissions(path, static_cast<fs::perms>(is_folder ? 0755 : 0644));
    });
  }
  void TearDown() override { fs::remove_all(base_); }

  template <class F>
  void for_each_shared(const F& f) const {
    const fs::path shared = *options_.shared_cache_dir;
    f(shared, true);
    for (const auto& item : fs::recursive_directory_iterator(shared)) f(item.path(), item.is_directory());
  }
  // What the shared folder holds, with times.
  std::map<std::string, fs::file_time_type> shared_files() const {
    std::map<std::string, fs::file_time_type> out;
    for_each_shared([&](const fs::path& path, bool) { out[path.string()] = fs::last_write_time(path); });
    return out;
  }
  fs::path shared_file(const std::string& key) const {
    return fs::path(*options_.shared_cache_dir) / "v1" / entry_path(key);
  }
  void damage(const std::string& key) const {
    std::fstream file(shared_file(key), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(40);
    file.put('x');
  }

  fs::path base_;
  Options options_;
  std::vector<std::string> warnings_;
};

TEST_F(SharedCache, IsReadForWhatIsAbsentAndNeverWritten) {
  for_each_shared([](const fs::path& path, bool) {  // old enough to be renewed, if it were the cache's own
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(48));
  });
  const auto before = shared_files();
  const auto cache = KernelCache::open(options_);
  EXPECT_TRUE(cache->load("a").has_value());
  EXPECT_TRUE(cache->list().empty()) << "it is not copied";
  EXPECT_FALSE(cache->load("c").has_value());
  cache->store(make_entry("c"));
  EXPECT_TRUE(cache->load("c").has_value());
  EXPECT_EQ(cache->list().size(), 1u);
  EXPECT_EQ(shared_files(), before);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(SharedCache, DamagedEntriesAreLeftOutWithOneWarning) {
  damage("a"), damage("b");
  const auto before = shared_files();
  const auto cache = KernelCache::open(options_);
  EXPECT_FALSE(cache->load("a").has_value());
  EXPECT_FALSE(cache->load("b").has_value());
  EXPECT_EQ(cache->damaged(), 2);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("of the shared kernel cache is damaged and left out")));
  cache->store(make_entry("a"));
  EXPECT_TRUE(cache->load("a").has_value());
  EXPECT_EQ(shared_files(), before);
}

// Each process is told of a damaged entry until it is replaced.
TEST_F(SharedCache, RepairsADamagedEntryOfTheCache) {
  const fs::path own = fs::path(*options_.cache_dir) / "v1" / entry_path("a");
  KernelCache::open(options_)->store(make_entry("a"));
  std::ofstream(own) << "damaged";
  EXPECT_TRUE(KernelCache::open(options_)->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("of the kernel cache is damaged")));
  EXPECT_EQ(fs::file_size(own), fs::file_size(shared_file("a")));
  const auto cache = KernelCache::open(options_);
  EXPECT_TRUE(cache->load("a").has_value());
  EXPECT_EQ(cache->shared_hits(), 0);
  EXPECT_THAT(warnings_, testing::SizeIs(1));
}

TEST_F(SharedCache, WhatOthersCouldChangeIsNotRead) {
  fs::permissions(*options_.shared_cache_dir, static_cast<fs::perms>(0777));
  EXPECT_FALSE(KernelCache::open(options_)->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("can be written by other users")));
  fs::permissions(*options_.shared_cache_dir, static_cast<fs::perms>(0755));
  warnings_.clear();
  fs::permissions(shared_file("a"), static_cast<fs::perms>(0666));
  fs::permissions(shared_file("b"), static_cast<fs::perms>(0666));
  const auto cache = KernelCache::open(options_);
  EXPECT_FALSE(cache->load("a").has_value());
  EXPECT_FALSE(cache->load("b").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the shared kernel cache is not used fully")));
}

TEST_F(SharedCache, AMissingFolderIsAWarning) {
  options_.shared_cache_dir = (base_ / "absent").string();
  const auto cache = KernelCache::open(options_);
  ASSERT_NE(cache, nullptr);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("running without the shared kernel cache: cannot use the folder")));
  EXPECT_FALSE(fs::exists(base_ / "absent"));
}

TEST_F(SharedCache, ServesWhereTheCacheItselfCannotBeMade) {
  options_.cache_dir = "/proc/none";
  const auto cache = KernelCache::open(options_);
  ASSERT_NE(cache, nullptr);
  EXPECT_TRUE(cache->load("a").has_value());
  cache->store(make_entry("c"));
  EXPECT_FALSE(cache->load("c").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("running without the kernel cache")));
}

TEST_F(SharedCache, IsWhatTheOptionOrTheEnvironmentNames) {
  using testing_support::Environment;
  const Environment named("FUSEC_SHARED_CACHE_DIR", "/s");
  Options options;
  EXPECT_EQ(shared_cache_root(options), "/s");
  options.shared_cache_dir = "/t";
  EXPECT_EQ(shared_cache_root(options), "/t");
  options.shared_cache_dir = "";
  EXPECT_EQ(shared_cache_root(options), "");
  options.shared_cache_dir.reset();
  options.use_cache = false;
  EXPECT_EQ(shared_cache_root(options), "");
}

}  // namespace
}  // namespace fusec::runtime
