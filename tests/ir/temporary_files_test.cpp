// SPDX-License-Identifier: Apache-2.0
#include "ir/support/temporary_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace fusec::ir {
namespace {

namespace fs = std::filesystem;

class TemporaryFiles : public testing::Test {
 protected:
  TemporaryFiles() {
    std::string name = (fs::temp_directory_path() / "fusec_temporaries_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  ~TemporaryFiles() override { fs::remove_all(dir_); }
  std::string made(const std::string& name) const {
    std::ofstream(dir_ + "/" + name) << "x";
    return dir_ + "/" + name;
  }
  std::string dir_;
};

TEST_F(TemporaryFiles, TheNotedGoAndOthersStay) {
  const std::string kept = made("kept"), done = made("done"), by_path = made("path");
  made("below");
  { const TemporaryFile noted(AT_FDCWD, done); }
  const TemporaryFile noted(AT_FDCWD, by_path);
  const int folder = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
  const TemporaryFile below(folder, "below"), absent(folder, "absent");
  remove_temporary_files();
  (void)close(folder);
  EXPECT_TRUE(fs::exists(kept) && fs::exists(done));
  EXPECT_FALSE(fs::exists(by_path) || fs::exists(dir_ + "/below"));
}

TEST_F(TemporaryFiles, AFolderGoesAfterItsFiles) {
  const std::string folder = dir_ + "/folder";
  fs::create_directory(folder);
  const TemporaryFile outer(AT_FDCWD, folder), inner(AT_FDCWD, made("folder/file"));
  remove_temporary_files();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(TemporaryFiles, MoreThanCanBeNotedAreNoFault) {
  std::vector<std::unique_ptr<TemporaryFile>> many;
  for (int i = 0; i < 200; ++i) many.push_back(std::make_unique<TemporaryFile>(AT_FDCWD, made(std::to_string(i))));
  remove_temporary_files();
  EXPECT_FALSE(fs::exists(dir_ + "/0"));
  EXPECT_TRUE(fs::exists(dir_ + "/199"));
  many.clear();
  const TemporaryFile again(AT_FDCWD, dir_ + "/199");
  remove_temporary_files();
  EXPECT_FALSE(fs::exists(dir_ + "/199"));
}

}  // namespace
}  // namespace fusec::ir
