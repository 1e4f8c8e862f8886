// SPDX-License-Identifier: Apache-2.0
// Kernels and measured times that come from a server: what is right is taken, and whatever else the server does costs
// one warning and little time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "runtime/cache/artifact.h"
#include "runtime/cache/row_bytes.h"
#include "runtime/cache/server.h"
#include "tests/environment.h"
#include "tests/runtime/fake_redis.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using codegen::Artifact;
using std::chrono::steady_clock;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using testing_support::Environment;

constexpr char kSecret[] = "a secret of sixteen bytes or more";

Artifact make_entry(const std::string& key, std::size_t bytes = 100) {
  Artifact artifact;
  artifact.key = key;
  artifact.image.assign(bytes, 0x90);
  return artifact;
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

class CacheServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_hiredis()) GTEST_SKIP() << "built without hiredis";
    std::string name = (fs::temp_directory_path() / "fusec-server-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    base_ = name;
  }
  void TearDown() override {
    if (!base_.empty()) fs::remove_all(base_);
  }
  // Of a machine with a folder of its own.
  Options machine(const std::string& name, const std::string& address) {
    Options options;
    options.cache_dir = (base_ / name).string();
    options.cache_server = address;
    options.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    return options;
  }
  // Two kernels are asked for and made, with at most one warning and in little time; the second one comes from the
  // folder afterwards.
  void expect_only_the_folder(const FakeRedis& server, const char* warning) {
    const Options options = machine("own", server.address());
    const steady_clock::time_point start = steady_clock::now();
    const auto cache = KernelCache::open(options);
    for (const char* key : {"a", "b"}) {
      EXPECT_FALSE(cache->load(key).has_value());
      cache->store(make_entry(key));
      EXPECT_TRUE(cache->load(key).has_value());
    }
    EXPECT_LT(seconds_since(start), 5);
    EXPECT_EQ(cache->server_hits(), 0);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(warning)));
  }

  fs::path base_;
  std::vector<std::string> warnings_;
  const Environment secret_{"FUSEC_CACHE_SECRET", kSecret};
};

TEST_F(CacheServerTest, AKernelGoesFromOneMachineToAnotherAndIsKeptThere) {
  FakeRedis server;
  const auto first = KernelCache::open(machine("first", server.address("?expire=2h")), "x86-64-v3");
  EXPECT_FALSE(first->load("a").has_value());
  first->store(make_entry("a"));
  const FakeRedis::Words stored = server.commands().back();
  ASSERT_THAT(stored, SizeIs(5));
  EXPECT_THAT(stored[1], StartsWith("fusec:1:kernel:3:x86-64-v3:"));
  EXPECT_THAT(stored[3] + " " + stored[4], "EX 7200");
  const auto second = KernelCache::open(machine("second", server.address()), "x86-64-v3");
  const std::optional<Artifact> found = second->load("a");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->image, make_entry("a").image);
  EXPECT_EQ(second->server_hits(), 1);
  EXPECT_EQ(second->list().size(), 1u);
  EXPECT_TRUE(KernelCache::open(machine("second", ""))->load("a").has_value());
  const std::size_t asked = server.commands().size();
  EXPECT_TRUE(second->load("a").has_value());
  EXPECT_EQ(server.commands().size(), asked) << "the folder comes first";
  EXPECT_FALSE(KernelCache::open(machine("third", server.address()), "sm_90")->load("a").has_value());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CacheServerTest, IsReachedByItsHost) {
  FakeRedis server;
  KernelCache::open(machine("first", server.port_address()))->store(make_entry("a"));
  EXPECT_TRUE(KernelCache::open(machine("second", server.port_address()))->load("a").has_value());
  EXPECT_FALSE(KernelCache::open(machine("third", "redis://no-such-host.invalid"))->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the host is not found")));
}

// A child must not speak on the connection of its parent.
TEST_F(CacheServerTest, AForkedChildHasItsOwnConnection) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer follows no process that has threads into its children";
#endif
  FakeRedis server;
  const auto cache = KernelCache::open(machine("first", server.address()));
  cache->store(make_entry("a"));
  const Options other = machine("second", server.address());
  const pid_t child = fork();
  if (child == 0) _exit(KernelCache::open(other)->load("a").has_value() ? 0 : 1);
  int state = -1;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
  cache->store(make_entry("b"));
  EXPECT_EQ(server.connections(), 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CacheServerTest, ServesWhereNoFolderCanBeMade) {
  FakeRedis server;
  KernelCache::open(machine("first", server.address()))->store(make_entry("a"));
  Options options = machine("", server.address());
  options.cache_dir = "/proc/none";
  const auto cache = KernelCache::open(options);
  ASSERT_NE(cache, nullptr);
  EXPECT_TRUE(cache->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("running without the kernel cache")));
}

TEST_F(CacheServerTest, IsNotUsedWithoutASecret) {
  FakeRedis server;
  const Environment none("FUSEC_CACHE_SECRET", "short");
  for (int i = 0; i < 2; ++i) KernelCache::open(machine("own", server.address()))->store(make_entry("a"));
  EXPECT_EQ(server.connections(), 0);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("FUSEC_CACHE_SECRET is to be a secret of at least 16 bytes")));
}

TEST_F(CacheServerTest, ValuesOfAnotherSecretAreLeftOutWithOneWarning) {
  FakeRedis server;
  {
    const Environment other("FUSEC_CACHE_SECRET", "another secret of many bytes");
    const auto cache = KernelCache::open(machine("first", server.address()));
    for (const char* key : {"a", "b"}) cache->store(make_entry(key));
  }
  const auto cache = KernelCache::open(machine("second", server.address()));
  for (const char* key : {"a", "b"}) EXPECT_FALSE(cache->load(key).has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("it holds values that were not made with this FUSEC_CACHE_SECRET")));
}

TEST_F(CacheServerTest, NoChangedByteOfAValuePasses) {
  FakeRedis server;
  const auto first = KernelCache::open(machine("first", server.address()));
  first->store(make_entry("a", 8));
  first->store(make_entry("b", 8));
  const auto all = server.values();
  ASSERT_EQ(all.size(), 2u);
  const auto& [name, value] = *all.begin();
  const bool is_a = CacheServer::name("kernel", kEntryVersion, "any", "a") == name;
  const std::string key = is_a ? "a" : "b";
  const auto second = KernelCache::open(machine("second", server.address()));
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::string changed = value;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    server.set_value(name, changed);
    ASSERT_FALSE(second->load(key).has_value()) << "byte " << i;
  }
  for (std::size_t size = 0; size < value.size(); ++size) {
    server.set_value(name, value.substr(0, size));
    ASSERT_FALSE(second->load(key).has_value()) << size << " bytes";
  }
  server.set_value(name, all.rbegin()->second);
  EXPECT_FALSE(second->load(key).has_value()) << "the value of another name";
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_TRUE(second->list().empty());
  server.set_value(name, value);
  EXPECT_TRUE(second->load(key).has_value());
}

TEST_F(CacheServerTest, AValueHasTheNameThatItWasGiven) {
  FakeRedis server;
  const auto found = CacheServer::find(machine("", server.address()), {});
  const std::vector<uint8_t> value = {1, 2, 3};
  found->put("x", value, {});
  found->put_rows("t", std::vector<CacheServer::Row>{{"f", value}}, {});
  server.set_value("y", server.values()["x"]);
  server.set_value("u f", server.values()["t f"]);
  EXPECT_EQ(found->get("x", {}), value);
  EXPECT_EQ(found->get("y", {}), std::nullopt);
  EXPECT_THAT(found->get_table("t", {}), ElementsAre(value));
  EXPECT_THAT(found->get_table("u", {}), IsEmpty());
}

TEST_F(CacheServerTest, WhatIsSealedIsCheckedAsAnEntryOfAFolder) {
  FakeRedis server;
  const auto find = CacheServer::find(machine("", server.address()), {});
  std::vector<uint8_t> bytes = encode_entry(make_entry("a"));
  find->put(CacheServer::name("kernel", kEntryVersion, "any", "b"), bytes, {});
  bytes[40] ^= 1;
  find->put(CacheServer::name("kernel", kEntryVersion, "any", "a"), bytes, {});
  const auto cache = KernelCache::open(machine("own", server.address()));
  for (const char* key : {"a", "b"}) EXPECT_FALSE(cache->load(key).has_value()) << key;
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("it holds values that are damaged")));
}

TEST_F(CacheServerTest, BadAnswersCostOneWarning) {
  std::mt19937 random(1);
  std::string noise(4000, ' ');
  for (char& c : noise) c = static_cast<char>(random());
  const std::pair<std::string, const char*> cases[] = {
      {"hello\r\n", "its answer is none of Redis"},
      {noise, "is not used fully"},
      {"$-7\r\n", "its answer is none of Redis"},
      {"$x\r\n", "is not used fully"},
      {"*2147483647\r\n", "its answer is none of Redis"},
      {"*200001\r\n", "its answer is none of Redis"},
      {"*1\r\n*1\r\n*1\r\n$1\r\na\r\n", "its answer is none of Redis"},
      {"*1\r\n:1\r\n", "its answer is a list of something else than texts"},
      {":5\r\n", "were not made with this FUSEC_CACHE_SECRET"},
      {"$3\r\nabc\r\n", "were not made with this FUSEC_CACHE_SECRET"},
      {"-LOADING it \x1b[2J loads\r\n", "it refuses to answer: LOADING it ?[2J loads"},
      {std::string(1, FakeRedis::kThenClose), "it ended the connection"},
      {std::string(1, FakeRedis::kThenClose) + "$50\r\nabc", "it ended the connection"},
  };
  for (const auto& [answer, warning] : cases) {
    SCOPED_TRACE(warning + (": " + answer.substr(0, 40)));
    const FakeRedis server([&answer](FakeRedis&, const FakeRedis::Words&) { return answer; });
    expect_only_the_folder(server, warning);
    fs::remove_all(base_ / "own");
    warnings_.clear();
  }
}

TEST_F(CacheServerTest, OneThatHangsIsLeftAlone) {
  const FakeRedis server([](FakeRedis&, const FakeRedis::Words&) { return std::string(); });
  expect_only_the_folder(server, "its answer took too long");
  EXPECT_EQ(server.connections(), 1);
}

// Each byte comes in time, and all of them do not.
TEST_F(CacheServerTest, OneThatDribblesIsLeftAlone) {
  const FakeRedis server([](FakeRedis&, const FakeRedis::Words&) { return bulk(std::string(100, 'x')); },
                         std::chrono::milliseconds(50));
  const auto cache = KernelCache::open(machine("own", server.address()));
  const steady_clock::time_point start = steady_clock::now();
  EXPECT_FALSE(cache->load("a").has_value());
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("its answer took too long")));
}

TEST_F(CacheServerTest, AnAnswerThatIsTooLargeIsNotRead) {
  const FakeRedis server([](FakeRedis&, const FakeRedis::Words&) { return "$90000\r\n" + std::string(80000, 'x'); });
  const auto cache = KernelCache::open(machine("own", server.address("?largest=4K")));
  EXPECT_FALSE(cache->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("its answer is too large")));
}

TEST_F(CacheServerTest, AKernelThatIsTooLargeIsNotSent) {
  FakeRedis server;
  const auto cache = KernelCache::open(machine("own", server.address("?largest=4K")));
  cache->store(make_entry("a", 5000));
  cache->store(make_entry("b", 50));
  EXPECT_EQ(server.values().size(), 1u);
  EXPECT_EQ(cache->list().size(), 2u);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CacheServerTest, OneThatIsDownIsAskedAgainAfterATime) {
  Options options;
  {
    const FakeRedis gone;
    options = machine("own", gone.address("?retry=1s"));
  }
  const auto cache = KernelCache::open(options);
  for (const char* key : {"a", "b"}) EXPECT_FALSE(cache->load(key).has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("cannot connect")));

  std::atomic<bool> fails = true;
  FakeRedis server([&](FakeRedis& self, const FakeRedis::Words& words) {
    return fails ? std::string("nonsense\r\n") : self.obey(words);
  });
  const auto other = KernelCache::open(machine("other", server.address("?retry=1s")));
  EXPECT_FALSE(other->load("a").has_value());
  fails = false;
  other->store(make_entry("a"));
  EXPECT_EQ(server.connections(), 1) << "it is not asked at once";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  other->store(make_entry("a"));
  EXPECT_EQ(server.connections(), 2);
  EXPECT_EQ(server.values().size(), 1u);
  EXPECT_THAT(warnings_, SizeIs(2)) << "one for each server";
}

TEST_F(CacheServerTest, AnIdleConnectionMayBeEnded) {
  FakeRedis server;
  const auto cache = KernelCache::open(machine("own", server.address()));
  cache->store(make_entry("a"));
  server.drop_connections();
  cache->store(make_entry("b"));
  EXPECT_EQ(server.values().size(), 2u);
  EXPECT_EQ(server.connections(), 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CacheServerTest, OneThatMayNotBeWrittenIsRead) {
  FakeRedis server([](FakeRedis& self, const FakeRedis::Words& words) {
    return words[0] == "SET" && words[1].size() > 1 && self.values().size() == 1
               ? "-READONLY You can't write against a read only replica.\r\n"
               : self.obey(words);
  });
  const auto first = KernelCache::open(machine("first", server.address()));
  first->store(make_entry("a"));
  for (const char* key : {"b", "c"}) first->store(make_entry(key));
  EXPECT_THAT(server.commands(), SizeIs(2)) << "it is asked to store no more";
  EXPECT_TRUE(KernelCache::open(machine("second", server.address()))->load("a").has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("it refuses to store: READONLY")));
}

TEST_F(CacheServerTest, LogsInWithoutTellingThePassword) {
  const FakeRedis server([](FakeRedis& self, const FakeRedis::Words& words) {
    return words[0] == "AUTH" && words.back() != "p@ss" ? "-WRONGPASS no\r\n" : self.obey(words);
  });
  const std::string path = server.address().substr(7);
  (void)KernelCache::open(machine("own", "unix://me:p%40ss@" + path + "?db=3"))->load("a");
  const auto commands = server.commands();
  ASSERT_THAT(commands, SizeIs(3));
  EXPECT_THAT(commands[0], ElementsAre("AUTH", "me", "p@ss"));
  EXPECT_THAT(commands[1], ElementsAre("SELECT", "3"));
  EXPECT_THAT(warnings_, IsEmpty());
  const Environment password("FUSEC_CACHE_PASSWORD", "hunter2");
  (void)KernelCache::open(machine("own", server.address()))->load("a");
  EXPECT_THAT(server.commands(), Contains(ElementsAre("AUTH", "hunter2")));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("it refuses the login: WRONGPASS")));
  EXPECT_THAT(warnings_[0], Not(HasSubstr("hunter2")));
}

// A fault that a silent caller meets is told by the next one that is not.
TEST_F(CacheServerTest, AFaultWaitsForSomebodyWhoCanBeTold) {
  const FakeRedis server([](FakeRedis&, const FakeRedis::Words&) { return "nonsense\r\n"; });
  const Options options = machine("own", server.address());
  const auto found = CacheServer::find(options, {});
  EXPECT_FALSE(found->get("x", {}).has_value());
  EXPECT_THAT(warnings_, IsEmpty());
  (void)KernelCache::open(options)->load("a");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("its answer is none of Redis")));
}

TEST(CacheServerWithoutHiredis, IsOneWarning) {
  if (has_hiredis()) GTEST_SKIP() << "built with hiredis";
  const Environment secret("FUSEC_CACHE_SECRET", kSecret);
  Options options;
  options.cache_dir = "/proc/none";
  options.cache_server = "redis://localhost";
  std::vector<std::string> warnings;
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  const auto cache = KernelCache::open(options);
  for (const char* key : {"a", "b"}) EXPECT_FALSE(cache->load(key).has_value());
  EXPECT_THAT(warnings, Contains(HasSubstr("built without hiredis")).Times(1));
}

TuningRow make_row() {
  TuningRow row{"scope", "call \"1\"", "onednn", "a", true, 3, 12.5, 0.125, 9, 64, "", 1000};
  return row;
}

TEST(RowBytes, GiveTheRowBack) {
  const TuningRow row = make_row();
  EXPECT_EQ(decode_row(encode_row(row)), row);
  TuningRow failed = row;
  failed.median_us = 0, failed.failure = "line\nfeed";
  EXPECT_EQ(decode_row(encode_row(failed)), failed);
  TuningRow unsound = row;
  unsound.runs = -1;
  EXPECT_EQ(decode_row(encode_row(unsound)), std::nullopt);
}

TEST(RowBytes, AreSafeWhateverTheyAre) {
  const std::vector<uint8_t> whole = encode_row(make_row());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(decode_row(std::span(whole).first(size)), std::nullopt);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int n = 0; n < 3; ++n) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    const std::optional<TuningRow> row = decode_row(bytes);
    EXPECT_TRUE(!row || is_sound(*row));
  }
  const std::string deep(100000, '[');
  EXPECT_EQ(decode_row(std::vector<uint8_t>(deep.begin(), deep.end())), std::nullopt);
}

}  // namespace
}  // namespace fusec::runtime
