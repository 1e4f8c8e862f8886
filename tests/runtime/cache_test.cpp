// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/support/hash.h"
#include "runtime/cache/artifact.h"
#include "tests/environment.h"
#include "tests/runtime/sync_log.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using codegen::Artifact;

Artifact sample(const std::string& key = "kernel @k(%x: in f32[n])", uint8_t fill = 0x90) {
  Artifact artifact;
  artifact.key = key;
  artifact.image.assign(100, fill);
  codegen::ArtifactPhase first, second;
  first.iterations = ceildiv(Dim::symbol("n"), 16);
  second.offset = 64;
  second.iterations = 1;
  second.entry = "phase1";
  second.threads = 256;
  second.registers = 40;
  second.local_bytes = 8;
  artifact.phases = {first, second};
  artifact.ptx = ".version 8.0";
  artifact.externs = {"tanf", "_ZGVeN16v_expf"};
  artifact.local_bytes = Dim(4) * Dim::symbol("n");
  return artifact;
}

bool same(const Artifact& a, const Artifact& b) {
  return a.key == b.key && a.image == b.image && a.ptx == b.ptx && a.phases == b.phases && a.externs == b.externs &&
         a.local_bytes == b.local_bytes;
}

std::vector<uint8_t> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    base_ = name;
    root_ = base_ / "cache";
  }
  void TearDown() override {
    for (const auto& item : fs::recursive_directory_iterator(base_)) {
      if (item.is_directory() && !item.is_symlink()) fs::permissions(item.path(), fs::perms::owner_all);
    }
    fs::remove_all(base_);
  }
  std::unique_ptr<KernelCache> open(int64_t limit = Options().cache_limit) {
    Options options;
    options.cache_limit = limit;
    options.cache_dir = root_.string();
    options.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    return KernelCache::open(options);
  }
  fs::path get_file(const std::string& key) const { return root_ / "v1" / entry_path(key); }

  fs::path base_, root_;
  std::vector<std::string> warnings_;
};

TEST_F(CacheTest, StoredArtifactsComeBack) {
  open()->store(sample());
  const auto cache = open();
  const auto found = cache->load(sample().key);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(same(*found, sample()));
  EXPECT_FALSE(cache->load("another key").has_value());
  EXPECT_TRUE(warnings_.empty());
  struct stat info;
  ASSERT_EQ(stat(get_file(sample().key).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(root_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, EveryTruncatedEntryIsIgnoredAndReplaced) {
  const auto cache = open();
  cache->store(sample());
  const std::vector<uint8_t> whole = read_file(get_file(sample().key));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(get_file(sample().key), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    EXPECT_FALSE(cache->load(sample().key).has_value()) << length;
  }
  EXPECT_EQ(cache->verify().size(), 1u);
  cache->store(sample());
  EXPECT_TRUE(cache->load(sample().key).has_value());
  EXPECT_TRUE(cache->verify().empty());
}

TEST_F(CacheTest, EveryFlippedByteIsFound) {
  const std::vector<uint8_t> whole = encode_entry(sample());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bytes = whole;
      bytes[at] ^= flip;
      EXPECT_FALSE(decode_entry(bytes).has_value()) << at;
    }
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(decode_entry(longer).has_value());
}

// Entries whose digest is right but whose content is nonsense: written by a defect, never by a disk.
TEST_F(CacheTest, NonsenseUnderAValidDigestIsRefused) {
  const std::vector<uint8_t> whole = encode_entry(sample());
  const std::size_t content = whole.size() - sizeof(ir::Sha256Digest);
  int decoded = 0;
  for (std::size_t at = 24; at < content; ++at) {
    for (uint8_t value : {0x00, 0x7f, 0xff}) {
      std::vector<uint8_t> bytes = whole;
      bytes[at] = value;
      const auto digest = ir::sha256(std::as_bytes(std::span(bytes).first(content)));
      std::copy(digest.begin(), digest.end(), bytes.begin() + static_cast<std::ptrdiff_t>(content));
      const auto artifact = decode_entry(bytes);
      if (!artifact) continue;
      ++decoded;
      for (const auto& phase : artifact->phases) EXPECT_LT(phase.offset, artifact->image.size());
    }
  }
  EXPECT_GT(decoded, 0);  // changed text of the key, for one
}

TEST_F(CacheTest, AnEntryOfAnotherKeyIsNotUsed) {
  const auto cache = open();
  cache->store(sample("right"));
  write_file(get_file("right"), encode_entry(sample("wrong")));
  EXPECT_FALSE(cache->load("right").has_value());
  EXPECT_EQ(cache->verify(), std::vector<std::string>{entry_path("right")});
}

TEST_F(CacheTest, ForeignFilesAreLeftAlone) {
  const auto cache = open();
  cache->store(sample());
  const fs::path folder = get_file(sample().key).parent_path();
  write_file(folder / "notes.txt", {1, 2, 3});
  write_file(root_ / "v1" / "stray", {1});
  fs::create_directory(root_ / "v1" / "zz");
  EXPECT_EQ(cache->list().size(), 1u);
  EXPECT_EQ(cache->clear(), 1);
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST_F(CacheTest, FoldersOpenToOthersAreRefusedWithOneWarning) {
  for (const mode_t mode : {0755, 0770, 0701, 0720}) {
    fs::create_directories(root_);
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    warnings_.clear();
    EXPECT_EQ(open(), nullptr);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find("open to other users"), std::string::npos) << warnings_[0];
  }
}

TEST_F(CacheTest, ALinkInPlaceOfTheFolderIsRefused) {
  fs::create_directory(base_ / "elsewhere");
  ASSERT_EQ(chmod((base_ / "elsewhere").c_str(), 0700), 0);
  fs::create_directory_symlink(base_ / "elsewhere", root_);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CacheTest, AFileInPlaceOfTheFolderIsRefused) {
  write_file(root_, {1});
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CacheTest, LinkedAndSharedEntriesAreNotUsed) {
  const auto cache = open();
  cache->store(sample());
  const fs::path file = get_file(sample().key);
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_FALSE(cache->load(sample().key).has_value());
  fs::rename(file, base_ / "planted");
  ASSERT_EQ(chmod((base_ / "planted").c_str(), 0600), 0);
  fs::create_symlink(base_ / "planted", file);
  EXPECT_FALSE(cache->load(sample().key).has_value());
  EXPECT_EQ(warnings_.size(), 1u);
  cache->store(sample());  // replaces the link, not what it points to
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_TRUE(cache->load(sample().key).has_value());
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache->load(sample().key).has_value());  // and does not wait for a writer
}

TEST_F(CacheTest, AReadOnlyFolderIsReadButWarnsOnceOnWrite) {
  open()->store(sample("old"));
  for (const auto& item : fs::recursive_directory_iterator(root_)) {
    if (!item.is_directory()) continue;
    ASSERT_EQ(chmod(item.path().c_str(), 0500), 0);
  }
  const pid_t child = fork();  // root ignores modes: drop to another user where we are root
  if (child == 0) {
    if (geteuid() == 0) {
      for (const auto& item : fs::recursive_directory_iterator(base_)) (void)!lchown(item.path().c_str(), 65534, 65534);
      (void)!chown(base_.c_str(), 65534, 65534);
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
    }
    const auto cache = open();
    if (!cache) _exit(1);
    cache->store(sample("a"));
    cache->store(sample("b"));
    if (!cache->load("old") || cache->load("a")) _exit(2);
    _exit(warnings_.size() == 1 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(CacheTest, ProcessesWritingAtOnceNeverShowADamagedEntry) {
  (void)open();
  constexpr int kWriters = 4, kRounds = 60;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t child = fork();
    if (child == 0) {
      const auto cache = open();
      int wrong = 0;
      for (int i = 0; i < kRounds; ++i) {
        Artifact mine = sample("shared", static_cast<uint8_t>(w));
        mine.image.resize(static_cast<std::size_t>(100 + 1000 * w), static_cast<uint8_t>(w));
        cache->store(mine);
        const auto found = cache->load("shared");
        wrong += !found || found->image != std::vector<uint8_t>(100 + 1000 * found->image[0], found->image[0]);
      }
      _exit(wrong == 0 && warnings_.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_EQ(open()->stats().left_over, 0);
}

TEST_F(CacheTest, AKilledWriterLeavesNothingThatIsRead) {
  (void)open();
  for (int round = 0; round < 10; ++round) {
    int reports[2];
    ASSERT_EQ(pipe(reports), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto cache = open();
      for (uint64_t i = 0; cache && write(reports[1], "x", 1) == 1; ++i)
        cache->store(sample("k" + std::to_string(i % 8)));
      _exit(1);
    }
    // Killed in the store that follows its last report, so at another moment of it each time.
    close(reports[1]);
    char byte;
    for (int seen = 0; seen < 2 + round; ++seen) ASSERT_EQ(::read(reports[0], &byte, 1), 1);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(reports[0]);
    EXPECT_TRUE(open()->verify().empty());
  }
  EXPECT_GE(open()->list().size(), 8u);
  open()->clear();
  EXPECT_EQ(open()->stats().left_over, 0);
}

TEST_F(CacheTest, GcRemovesWhatWasUsedLongestAgo) {
  const auto cache = open();
  for (const char* key : {"a", "b", "c"}) cache->store(sample(key));
  const int64_t each = cache->list()[0].bytes;
  EXPECT_EQ(cache->stats().bytes, 3 * each);
  const auto age = [&](const char* key, int days) {
    fs::last_write_time(get_file(key), fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
  };
  age("a", 3);
  age("b", 5);
  age("c", 4);
  EXPECT_TRUE(cache->load("b").has_value());  // a hit makes it young
  EXPECT_EQ(cache->gc(2 * each), 1);
  EXPECT_FALSE(cache->load("c").has_value());
  EXPECT_TRUE(cache->load("a").has_value());
  EXPECT_EQ(cache->gc(100 * each), 0);
  EXPECT_EQ(cache->clear(), 2);
  EXPECT_EQ(cache->stats().entries, 0);
}

TEST_F(CacheTest, AStoreKeepsTheBoundByWhatWasUsedLongestAgo) {
  const auto old = open();
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    old->store(sample(key));
    fs::last_write_time(get_file(key), fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
  }
  const int64_t all = old->stats().bytes;
  ASSERT_TRUE(old->load("k0").has_value());  // the oldest, but it is used
  const auto cache = open(all / 2);
  cache->store(sample("new"));
  EXPECT_LE(cache->stats().bytes, all / 2);
  EXPECT_GT(cache->stats().bytes, all / 2 - 2 * all / 20);
  for (const char* kept : {"k0", "k19", "k18", "new"}) EXPECT_TRUE(cache->load(kept).has_value()) << kept;
  for (const char* gone : {"k1", "k2", "k5"}) EXPECT_FALSE(cache->load(gone).has_value()) << gone;
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, TheEntryJustStoredStaysAndZeroIsNoBound) {
  open(1)->store(sample("a"));
  EXPECT_TRUE(open()->load("a").has_value());
  open(1)->store(sample("b"));
  EXPECT_EQ(open()->list().size(), 1u);
  EXPECT_TRUE(open()->load("b").has_value());
  const auto cache = open(0);
  for (const char* key : {"c", "d", "e"}) cache->store(sample(key));
  EXPECT_EQ(cache->list().size(), 4u);
}

// Of a bound of 2 GiB each folder has 8 MiB: what is in others is neither counted nor looked at.
TEST_F(CacheTest, LargeBoundsAreKeptByFolders) {
  const auto cache = open();
  cache->store(sample("new"));
  const fs::path folder = get_file("new").parent_path();
  const auto plant = [](const fs::path& in, char c, int hours) {
    fs::create_directories(in);
    fs::permissions(in, fs::perms::owner_all);
    const fs::path path = in / (in.filename().string() + std::string(62, c) + ".fsk");
    write_file(path, {});
    fs::resize_file(path, 3 << 20);
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return path;
  };
  const fs::path other = root_ / "v1" / (folder.filename() == "00" ? "01" : "00");
  std::vector<fs::path> here, there;
  for (int i = 0; i < 4; ++i) here.push_back(plant(folder, static_cast<char>('a' + i), 10 - i));
  for (int i = 0; i < 4; ++i) there.push_back(plant(other, static_cast<char>('a' + i), 10 - i));
  cache->store(sample("new"));
  EXPECT_FALSE(fs::exists(here[0]));
  EXPECT_FALSE(fs::exists(here[1]));
  EXPECT_TRUE(fs::exists(here[2]));
  EXPECT_TRUE(fs::exists(here[3]));
  for (const fs::path& path : there) EXPECT_TRUE(fs::exists(path));
}

TEST_F(CacheTest, AStoreCollectsWhatKilledWritersLeft) {
  const auto cache = open();
  cache->store(sample());
  const fs::path folder = get_file(sample().key).parent_path();
  for (const char* name : {".tmp-1-old", ".tmp-2-young"}) write_file(folder / name, {1});
  fs::last_write_time(folder / ".tmp-1-old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(cache->stats().left_over, 2);
  cache->store(sample());
  EXPECT_FALSE(fs::exists(folder / ".tmp-1-old"));
  EXPECT_TRUE(fs::exists(folder / ".tmp-2-young"));  // its writer may be at work
}

TEST_F(CacheTest, ADamagedEntryIsCountedAndToldOnce) {
  const auto cache = open();
  for (const char* key : {"a", "b", "c"}) cache->store(sample(key));
  for (const char* key : {"a", "b"}) {
    std::vector<uint8_t> bytes = read_file(get_file(key));
    bytes[bytes.size() / 2] ^= 1;
    write_file(get_file(key), bytes);
  }
  std::vector<uint8_t> newer = read_file(get_file("c"));
  newer[8] = 200;  // the format's version
  write_file(get_file("c"), newer);
  for (const char* key : {"a", "b", "c", "never stored"}) EXPECT_FALSE(cache->load(key).has_value());
  EXPECT_EQ(cache->damaged(), 2);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(entry_path("a")), std::string::npos) << warnings_[0];
}

TEST_F(CacheTest, AFolderAboveThatOthersCanChangeIsRefused) {
  const fs::path above = base_ / "above", root = above / "mine" / "cache";
  fs::create_directories(root.parent_path());
  root_ = root;
  ASSERT_EQ(chmod(above.c_str(), 0777), 0);
  EXPECT_EQ(open(), nullptr);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("'" + above.string() + "' can be written by other users"), std::string::npos)
      << warnings_[0];
  ASSERT_EQ(chmod(above.c_str(), 01777), 0);  // sticky, as /tmp is
  EXPECT_NE(open(), nullptr);
  ASSERT_EQ(chmod(above.c_str(), 0755), 0);
  EXPECT_NE(open(), nullptr);
  ASSERT_EQ(chmod(above.c_str(), 0775), 0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(warnings_.size(), 2u);
}

// What a link leads through counts, wherever the link lies.
TEST_F(CacheTest, AFolderBehindALinkIsLookedAtToo) {
  fs::create_directories(base_ / "open" / "real");
  fs::create_directory_symlink("open/../open/real", base_ / "link");
  root_ = base_ / "link" / "cache";
  EXPECT_NE(open(), nullptr);
  ASSERT_EQ(chmod((base_ / "open").c_str(), 0777), 0);
  EXPECT_EQ(open(), nullptr);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("/open'"), std::string::npos) << warnings_[0];
}

TEST_F(CacheTest, AFolderAboveOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directories(base_ / "theirs");
  ASSERT_EQ(chown((base_ / "theirs").c_str(), 65534, 65534), 0);
  root_ = base_ / "theirs" / "cache";
  EXPECT_EQ(open(), nullptr);
  fs::create_directory_symlink(base_, base_ / "their_link");
  ASSERT_EQ(lchown((base_ / "their_link").c_str(), 65534, 65534), 0);
  root_ = base_ / "their_link" / "cache";
  EXPECT_EQ(open(), nullptr);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find("belongs to another user"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[1].find("the link '"), std::string::npos) << warnings_[1];
}

TEST_F(CacheTest, EachFileAndAtTheEndOneFolderAreSynced) {
  auto cache = open();
  sync_log().clear();
  for (const char* key : {"a", "b", "c"}) cache->store(sample(key));
  EXPECT_EQ(sync_log(), (std::vector<std::string>{"file", "file", "file"}));
  cache.reset();
  EXPECT_EQ(sync_log(), (std::vector<std::string>{"file", "file", "file", "folder"}));
  sync_log().clear();
  EXPECT_TRUE(open()->load("c").has_value());
  EXPECT_TRUE(sync_log().empty());
}

TEST(CacheRoot, FollowsOptionsThenEnvironment) {
  const auto keep = [](const char* name) {
    return std::pair(std::string(name), std::string(std::getenv(name) ? std::getenv(name) : ""));
  };
  const auto saved = {keep("FUSEC_CACHE_DIR"), keep("XDG_CACHE_HOME"), keep("HOME")};
  Options options;
  setenv("HOME", "/h", 1);
  setenv("XDG_CACHE_HOME", "", 1);
  unsetenv("FUSEC_CACHE_DIR");
  EXPECT_EQ(cache_root(options), "/h/.cache/fusec");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_root(options), "/x/fusec");
  setenv("FUSEC_CACHE_DIR", "/f", 1);
  EXPECT_EQ(cache_root(options), "/f");
  options.cache_dir = "/o";
  EXPECT_EQ(cache_root(options), "/o");
  for (const auto& [name, value] : saved)
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
}

TEST(CacheRoot, WithoutOneThereIsAWarningAndNoCache) {
  using testing_support::Environment;
  const Environment dir("FUSEC_CACHE_DIR", ""), xdg("XDG_CACHE_HOME", ""), home("HOME", "");
  std::vector<std::string> warnings;
  Options options;
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  EXPECT_EQ(KernelCache::open(options), nullptr);
  EXPECT_EQ(warnings, (std::vector<std::string>{"running without the kernel cache: no folder for it is known: neither "
                                                "FUSEC_CACHE_DIR nor HOME is set"}));
}

}  // namespace
}  // namespace fusec::runtime
