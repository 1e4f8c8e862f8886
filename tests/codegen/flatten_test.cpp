// SPDX-License-Identifier: Apache-2.0
// Objects that are no kernels: what the system's compiler makes of C.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/llvm/compile.h"

namespace fusec::codegen_test {
namespace {

class Flatten : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("cc --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no cc on PATH";
  }
  Status status(const std::string& c, const std::string& flags) {
    const std::string base = ::testing::TempDir() + "fusec_flatten_" + std::to_string(::getpid());
    std::ofstream(base + ".c") << c;
    const std::string command =
        "cc -O1 -fno-asynchronous-unwind-tables " + flags + " -c " + base + ".c -o " + base + ".o";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::stringstream object;
    object << std::ifstream(base + ".o", std::ios::binary).rdbuf();
    std::filesystem::remove(base + ".c");
    std::filesystem::remove(base + ".o");
    const Result<codegen::Image> image = codegen::flatten(object.str());
    EXPECT_TRUE(!image.ok() || image->functions.count("f") == 1);
    return image.status();
  }
};

TEST_F(Flatten, TakesCodeAndConstants) {
  EXPECT_TRUE(status("static const int t[64] = {1, 2, 3}; int f(int i) { return t[i]; }", "-fPIC").ok());
}

TEST_F(Flatten, SaysWhatIsNoKernel) {
  EXPECT_EQ(codegen::flatten("no object").status().message().substr(0, 8), "object: ");
  EXPECT_EQ(status("int g(void); int f(void) { return g() + 1; }", "-fPIC").str(),
            "compile_failed: object: symbol 'g' is not defined in the kernel");
  EXPECT_EQ(
      status("static const int t[64] = {1, 2, 3}; int f(int i) { return t[i]; }", "-fno-pic -mcmodel=small").str(),
      "compile_failed: object: relocation of type 11 is not known");  // R_X86_64_32S
  EXPECT_EQ(status("__attribute__((aligned(128))) const char t[128] = {1}; const char* f(void) { return t; }",
                   "-fPIC -fvisibility=hidden")
                .str(),
            "compile_failed: object: section .rodata wants more than 64-byte alignment");
}

}  // namespace
}  // namespace fusec::codegen_test
