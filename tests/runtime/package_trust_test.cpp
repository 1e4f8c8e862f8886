// SPDX-License-Identifier: Apache-2.0
// Which packages are opened: name, owner, mode, folder, signature. And what becomes of an open one when its file
// changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/package/format.h"
#include "tests/runtime/package_case.h"

namespace fusec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace package_case;

// Of `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`, for these tests alone.
constexpr const char* kPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIBA0CvTYOCPHz4m4kcVXTaERyXTpvtkK87bD1Bv1C1Yx\n-----END PRIVATE "
    "KEY-----\n";
constexpr const char* kPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAtXTWfl99kWy4/QQjrdqDgz4qkjQVSTOsw2nUWOv5i2s=\n-----END PUBLIC "
    "KEY-----\n";
constexpr const char* kPublicOfX25519 =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEADxPlV9exeYxJRiwrcgEi4/xUSy2Am7U2VkaNITTfYmM=\n-----END PUBLIC "
    "KEY-----\n";

class PackageTrust : public PackageTest {
 protected:
  void SetUp() override { ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok()); }
  std::string opened(const PackageOptions& options = {}, const std::string& name = "m.fsc") const {
    return Package::open(path(name), options).status().str();
  }
  std::string trusted(const std::string& name = "m.fsc") const {
    return opened({.trust = true, .verify_key = {}}, name);
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
};

TEST_F(PackageTrust, OnlyUnderItsName) {
  for (const char* name : {"m.onnx", "m", "m.fsc.txt", "fsc"}) {
    fs::copy_file(path(), path(name));
    EXPECT_TRUE(is_package(path(name)));
    for (const std::string& answer : {opened({}, name), trusted(name)}) {
      EXPECT_THAT(answer, AllOf(HasSubstr("invalid_argument"), HasSubstr("its name does not end in .fsc"))) << name;
    }
  }
  EXPECT_EQ(opened(), "ok");
}

TEST_F(PackageTrust, OthersMayNotWriteIt) {
  for (const mode_t mode : {0664, 0646, 0666, 0622}) {
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
    EXPECT_THAT(opened(), AllOf(HasSubstr("invalid_argument: it may be written by other users (mode 6"),
                                HasSubstr("chmod go-w"), HasSubstr("--trust")));
    EXPECT_EQ(trusted(), "ok");
  }
  for (const mode_t mode : {0644, 0444, 0600, 0755}) {
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
    EXPECT_EQ(opened(), "ok") << mode;
  }
}

TEST_F(PackageTrust, NorItsFolder) {
  for (const mode_t mode : {0777, 0770, 0707}) {
    ASSERT_EQ(chmod(dir_.c_str(), mode), 0);
    EXPECT_THAT(opened(), HasSubstr("its folder may be written by other users"));
    EXPECT_EQ(trusted(), "ok");
  }
  ASSERT_EQ(chmod(dir_.c_str(), 01777), 0);
  EXPECT_EQ(opened(), "ok") << "in a sticky folder nobody replaces files of others";
}

TEST_F(PackageTrust, NorTheFolderThatALinkLeadsTo) {
  fs::create_directory(path("open"));
  fs::rename(path(), path("open/m.fsc"));
  fs::create_symlink("open/m.fsc", path());
  EXPECT_EQ(opened(), "ok");
  ASSERT_EQ(chmod(path("open").c_str(), 0777), 0);
  EXPECT_THAT(opened(), HasSubstr("the folder that its link leads to may be written"));
  EXPECT_EQ(trusted(), "ok");
}

TEST_F(PackageTrust, ItBelongsToTheUserOrRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
  EXPECT_THAT(opened(), AllOf(HasSubstr("invalid_argument: it belongs to user 12345"), HasSubstr("--trust")));
  EXPECT_EQ(trusted(), "ok");
  ASSERT_EQ(chown(path().c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  // Of another effective user: root's file is to be trusted, the own one too, that of a third is not.
  const auto as_user = [&](uid_t user) {
    if (seteuid(user) != 0) return std::string("no other user");
    const std::string answer = opened();
    EXPECT_EQ(seteuid(0), 0);
    return answer;
  };
  EXPECT_EQ(as_user(12345), "ok");
  ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
  EXPECT_EQ(as_user(12345), "ok");
  EXPECT_THAT(as_user(12346), HasSubstr("it belongs to user 12345"));
  ASSERT_EQ(chown(dir_.c_str(), 12346, 12346), 0);
  EXPECT_THAT(as_user(12345), HasSubstr("its folder belongs to user 12346"));
}

TEST_F(PackageTrust, WhatIsNoFileIsOneErrorAtOnce) {
  ASSERT_EQ(mkfifo(path("pipe.fsc").c_str(), 0600), 0);
  fs::create_directory(path("folder.fsc"));
  fs::create_symlink("/dev/zero", path("device.fsc"));
  EXPECT_THAT(opened({}, "pipe.fsc"), HasSubstr("it is not a file but a FIFO"));
  EXPECT_THAT(opened({}, "folder.fsc"), HasSubstr("it is not a file but a folder"));
  EXPECT_THAT(opened({}, "folder.fsc/"), HasSubstr("it is not a file but a folder"));
  EXPECT_THAT(opened({}, "device.fsc"), HasSubstr("it is not a file but a device"));
  for (const char* name : {"pipe.fsc", "folder.fsc", "device.fsc", "none.fsc"})
    EXPECT_FALSE(is_package(path(name))) << name;
  EXPECT_THAT(read_public_key(path("pipe.fsc")).status().str(), HasSubstr("it is not a file but a FIFO"));
}

class PackageSignature : public PackageTrust {
 protected:
  void SetUp() override {
    if (!runtime::can_sign()) GTEST_SKIP() << "built without libsodium";
    key_ = *read_signing_key(file("key.pem", kPrivate));
    public_ = *read_public_key(file("key.pub.pem", kPublic));
    ASSERT_TRUE(write_signed(key_).ok());
  }
  std::string verified(const PublicKey& key, const std::string& name = "m.fsc") const {
    return opened({.trust = false, .verify_key = key}, name);
  }
  SigningKey key_;
  PublicKey public_;
};

TEST_F(PackageSignature, AdmitsWhatIsSignedByTheKey) {
  EXPECT_EQ(verified(public_), "ok");
  EXPECT_EQ(opened(), "ok");
  EXPECT_EQ(Package::open(path())->info().signed_by,
            "b574d67e5f7d916cb8fd0423adda83833e2a9234154933acc369d458ebf98b6b");
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_EQ(verified(public_), "ok") << "then it does not matter who may write it";
  EXPECT_THAT(opened(), HasSubstr("may be written by other users"));
  ASSERT_TRUE(write_signed(key_, "again.fsc").ok());
  EXPECT_EQ(read_bytes(path()), read_bytes(path("again.fsc")));
}

TEST_F(PackageSignature, RefusesEverythingElse) {
  PublicKey other = public_;
  other.bytes[0] ^= 1;
  EXPECT_THAT(verified(other), AllOf(HasSubstr("it is signed by the key b574"), HasSubstr("not by b474")));
  EXPECT_THAT(opened({.trust = true, .verify_key = other}), HasSubstr("it is signed by the key"))
      << "trust does not make up for it";
  ASSERT_TRUE(write({"cpu:x86-64-v2"}, "unsigned.fsc").ok());
  EXPECT_THAT(verified(public_, "unsigned.fsc"), HasSubstr("it is not signed"));
  ASSERT_TRUE(write({"cpu:x86-64-v3"}, "other.fsc").ok());

  // The signature of one package at another, and none.
  const std::vector<char> good = read_bytes(path());
  std::vector<char> bytes = read_bytes(path("other.fsc"));
  std::copy(good.begin() + 56, good.begin() + 192, bytes.begin() + 56);
  write_bytes(path("other.fsc"), bytes);
  EXPECT_THAT(verified(public_, "other.fsc"), HasSubstr("invalid_model: its signature does not fit its content"));
  bytes = good;
  std::fill(bytes.begin() + 56, bytes.begin() + 192, '\0');
  write_bytes(path("stripped.fsc"), bytes);
  EXPECT_THAT(verified(public_, "stripped.fsc"), HasSubstr("it is not signed"));
  EXPECT_EQ(bytes, read_bytes(path("unsigned.fsc")));
}

TEST_F(PackageSignature, EveryChangedByteIsSeen) {
  std::vector<char> bytes = read_bytes(path());
  for (std::size_t i = 0; i < bytes.size(); i += i < 576 ? 1 : 37) {
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    write_bytes(path(), bytes);
    EXPECT_FALSE(Package::open(path()).ok()) << "byte " << i;
    EXPECT_NE(verified(public_), "ok") << "byte " << i;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
  }
}

// RFC 8032, section 7.1, test 1: the public half of a key.
TEST_F(PackageSignature, KeysAreThoseOfTheStandard) {
  constexpr std::array<uint8_t, 32> kSeed = {0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a,
                                             0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32,
                                             0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
  const auto signature = runtime::sign_digest({}, SigningKey{kSeed});
  ASSERT_TRUE(signature.ok());
  EXPECT_EQ(ir::to_hex(signature->key.bytes), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_TRUE(runtime::verify_signature({}, *signature).ok());
  EXPECT_FALSE(runtime::verify_signature({1}, *signature).ok());
}

TEST_F(PackageSignature, FilesThatHoldNoKey) {
  const auto why = [&](const std::string& text) { return read_public_key(file("x.pem", text)).status().str(); };
  EXPECT_THAT(why(kPrivate),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("openssl pkey -in KEY -pubout"), HasSubstr("x.pem")));
  EXPECT_THAT(why(kPublicOfX25519), HasSubstr("not of Ed25519"));
  EXPECT_THAT(why(std::string(kPublic).replace(40, 1, "!")), HasSubstr("not of Ed25519"));
  EXPECT_THAT(why(std::string(kPublic).erase(30, 8)), HasSubstr("not of Ed25519"));
  EXPECT_THAT(why(""), HasSubstr("it holds no '-----BEGIN PUBLIC KEY-----'"));
  EXPECT_THAT(why(std::string(100'000, 'x')), HasSubstr("too large"));
  EXPECT_THAT(read_signing_key(file("x.pem", kPublic)).status().str(),
              HasSubstr("it holds no '-----BEGIN PRIVATE KEY-----'"));
  EXPECT_THAT(read_signing_key(path("none.pem")).status().str(), HasSubstr("cannot be opened"));
}

// A thread cuts the file to nothing, fills it with other bytes and makes it whole again, while Engines of it are made
// and run.
TEST_F(PackageTrust, AChangingFileChangesNothing) {
  const std::vector<char> good = read_bytes(path());
  std::vector<char> noise(good.size());
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 37 + 11);
  const Package package = *Package::open(path());
  const Engine before = *Engine::load(package, options_);
  std::atomic<bool> done = false;
  std::atomic<int> rounds = 0;
  std::thread changer([&] {
    while (!done || rounds == 0) {
      EXPECT_EQ(truncate(path().c_str(), 0), 0);
      write_bytes(path(), noise);
      EXPECT_EQ(truncate(path().c_str(), 100), 0);
      ++rounds;
    }
  });
  for (int i = 0; i < 50; ++i) {
    const Result<Engine> later = Engine::load(package, options_);
    ASSERT_TRUE(later.ok()) << later.status().str();
    expect_equal_runs(before, *later);
  }
  done = true;
  changer.join();
  EXPECT_FALSE(Package::open(path()).ok());
  write_bytes(path(), good);
  expect_equal_runs(before, *Engine::load(*Package::open(path()), options_));
}

}  // namespace
}  // namespace fusec
