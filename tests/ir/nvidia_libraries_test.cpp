// SPDX-License-Identifier: Apache-2.0
#include <fenv.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ir/support/shared_library.h"
#include "tests/environment.h"

// Functions that no library has.
extern "C" void fusec_first();
extern "C" void fusec_second();

namespace fusec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Environment;

class NvidiaLibraries : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fusec-libraries-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  // Under another name, libm: a library that has nothing of NVIDIA's.
  std::string put(const std::string& file) const {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    fs::copy_file(SharedLibrary::open("libm.so.6")->path(), path);
    return path.string();
  }
  fs::path root_;
};

constexpr NvidiaLibrary kAbsent{"fusec_has_no_such", 2, 1, "the thing itself"};

TEST_F(NvidiaLibraries, WhatIsMissingAndWhatToDoIsNamed) {
  const Environment home("FUSEC_CUDA_HOME", root_.string());
  const Status status = open_nvidia_library(kAbsent).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_THAT(status.message(),
              AllOf(StartsWith("libfusec_has_no_such.so.2 or libfusec_has_no_such.so.1 was not found in "),
                    HasSubstr(root_.string() + "/lib64"), HasSubstr("/usr/local/cuda/lib64"),
                    EndsWith("; install the thing itself or set FUSEC_CUDA_HOME to the folder that holds it")));
}

TEST_F(NvidiaLibraries, TheGivenFolderIsFirst) {
  const Environment home("FUSEC_CUDA_HOME", root_.string());
  const std::string older = put("lib64/libfusec_has_no_such.so.1");
  EXPECT_EQ(open_nvidia_library(kAbsent)->path(), older);
  const std::string newer = put("lib64/libfusec_has_no_such.so.2");
  EXPECT_EQ(open_nvidia_library(kAbsent)->path(), newer);
}

TEST_F(NvidiaLibraries, PackagesOfThePythonOnThePath) {
  fs::create_directories(root_ / "bin");
  std::ofstream(root_ / "bin/python3") << "";
  const Environment path("PATH", "/nowhere::" + (root_ / "bin").string());
  const std::string library = put("lib/python3.12/site-packages/nvidia/some/lib/libfusec_has_no_such.so.1");
  EXPECT_EQ(open_nvidia_library(kAbsent)->path(), library);
}

// "", "." and "bin" of PATH stand for whatever the current folder holds.
TEST_F(NvidiaLibraries, RelativeFoldersOfThePathAreNotSearched) {
  fs::create_directories(root_ / "bin");
  std::ofstream(root_ / "bin/python3") << "";
  std::ofstream(root_ / "python3") << "";
  put("lib/python3.12/site-packages/nvidia/some/lib/libfusec_has_no_such.so.1");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  {
    const Environment path("PATH", "bin:./bin:../" + root_.filename().string() + "/bin::.");
    EXPECT_FALSE(open_nvidia_library(kAbsent).ok());
  }
  fs::current_path(before);
}

TEST_F(NvidiaLibraries, WhatDoesNotLoadIsToldOf) {
  const Environment home("FUSEC_CUDA_HOME", root_.string());
  fs::create_directories(root_ / "lib64");
  std::ofstream(root_ / "lib64/libfusec_has_no_such.so.1") << "no ELF file";
  EXPECT_THAT(open_nvidia_library(kAbsent).status().message(),
              HasSubstr("lib64/libfusec_has_no_such.so.1: file too short"));
}

TEST_F(NvidiaLibraries, HiddenOnesAreNotFound) {
  constexpr NvidiaLibrary kMath{"m", 6, 6, "libc6"};
  EXPECT_THAT(open_nvidia_library(kMath)->path(), HasSubstr("/libm.so.6"));
  const Environment hide("FUSEC_HIDE_LIBRARIES", "cudnn,m");
  EXPECT_THAT(open_nvidia_library(kMath).status().message(),
              StartsWith("libm.so.6 is hidden by FUSEC_HIDE_LIBRARIES; install libc6"));
}

constexpr OwnLibrary kAbsentOwn{"fusec-has-no-such", "noSuch"};

TEST_F(NvidiaLibraries, OwnOnesAreBesideThePrograms) {
  const fs::path programs = fs::canonical("/proc/self/exe").parent_path();
  const Status status = open_own_library(kAbsentOwn).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_THAT(status.message(), AllOf(StartsWith("libfusec-has-no-such.so."),
                                      HasSubstr(" was not found beside " + programs.string() + " or in the dynamic"),
                                      EndsWith("dynamic linker's folders")));
  const Environment hide("FUSEC_HIDE_LIBRARIES", "noSuch");
  EXPECT_THAT(open_own_library(kAbsentOwn).status().message(), EndsWith(" is hidden by FUSEC_HIDE_LIBRARIES"));
  const Result<SharedLibrary> ptx_compiler = open_own_library(kPtxCompiler);
  if (!ptx_compiler.ok()) GTEST_SKIP() << ptx_compiler.status().str();
  EXPECT_EQ(fs::path(ptx_compiler->path()).parent_path(), programs.parent_path() / "lib");
  EXPECT_NE(ptx_compiler->symbol("nvPTXCompilerCompile"), nullptr);
}

// A virtual environment whose python3 is a link into an installation; both have packages.
TEST_F(NvidiaLibraries, PackagesOfAVirtualEnvironment) {
  const fs::path base = root_ / "base", venv = root_ / "venv";
  fs::create_directories(base / "bin");
  fs::create_directories(venv / "bin");
  fs::create_directories(base / "lib/python3.12/dist-packages/nvidia/cu13/lib");
  fs::create_directories(venv / "lib/python3.12/site-packages/nvidia/cudnn/lib");
  fs::create_directories(venv / "lib/other/site-packages/nvidia");
  std::ofstream(base / "bin/python3.12") << "";
  fs::create_symlink(base / "bin/python3.12", venv / "bin/python3");
  const fs::path real = fs::canonical(base);
  EXPECT_EQ(nvidia_packages((venv / "bin/python3").string()),
            (std::vector<std::string>{(venv / "lib/python3.12/site-packages/nvidia").string(),
                                      (real / "lib/python3.12/dist-packages/nvidia").string()}));
}

#define FUSEC_PRESENT(NEED, WANT) NEED(rounding, fegetround) WANT(absent, fusec_first)
#define FUSEC_ABSENT(NEED, WANT) NEED(first, fusec_first) NEED(rounding, fegetround) NEED(second, fusec_second)
FUSEC_FUNCTION_TABLE(Present, FUSEC_PRESENT);
FUSEC_FUNCTION_TABLE(Absent, FUSEC_ABSENT);

TEST(LoadFunctions, AllThatAreMissingAreNamed) {
  const SharedLibrary math = *SharedLibrary::open("libm.so.6");
  const Result<Present> present = load_functions<Present>(math, "");
  ASSERT_TRUE(present.ok());
  EXPECT_EQ(present->rounding(), FE_TONEAREST);
  EXPECT_EQ(present->absent, nullptr);
  const Status status = load_functions<Absent>(math, "a newer one is needed").status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(status.message(), math.path() + " lacks fusec_first, fusec_second: a newer one is needed");
}

}  // namespace
}  // namespace fusec
