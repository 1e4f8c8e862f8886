// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/host/detect.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "runtime/device/host/memory.h"

namespace fusec::runtime {
namespace {

TEST(Detect, CpuMaxIsRoundedUpToCores) {
  EXPECT_EQ(cores_of_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(cores_of_cpu_max("150000 100000"), 2);
  EXPECT_EQ(cores_of_cpu_max("200000 100000"), 2);
  EXPECT_EQ(cores_of_cpu_max("1000 100000"), 1);
  EXPECT_EQ(cores_of_cpu_max("-1 100000"), std::nullopt);
  EXPECT_EQ(cores_of_cpu_max(""), std::nullopt);
  EXPECT_EQ(cores_of_cpu_max("100000 0"), std::nullopt);
  EXPECT_EQ(bytes_of_memory_max("max"), std::nullopt);
  EXPECT_EQ(bytes_of_memory_max("1073741824"), int64_t{1} << 30);
  EXPECT_GT(host_memory(), 0);
}

TEST(Detect, CacheSizesHaveUnits) {
  EXPECT_EQ(parse_cache_size("32K"), 32 << 10);
  EXPECT_EQ(parse_cache_size("8M"), 8 << 20);
  EXPECT_EQ(parse_cache_size("64"), 64);
  EXPECT_EQ(parse_cache_size("8G?"), std::nullopt);
  EXPECT_EQ(parse_cache_size(""), std::nullopt);
}

TEST(Detect, ThreadsFollowOptionsThenEnvironmentThenAffinity) {
  Options options;
  options.threads = 5;
  EXPECT_EQ(host_threads(options), 5);
  options.threads = 0;
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_EQ(host_threads(options), 3);
  unsetenv("OMP_NUM_THREADS");
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int limited = host_threads(options);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(limited, 1);
}

TEST(Detect, TheHostHasTheLevelItNames) {
  const auto host = host_target({});
  ASSERT_TRUE(host.ok());
  const Target level = *named_target(host->name);
  EXPECT_EQ(host->vector_bytes, level.vector_bytes);
  EXPECT_EQ(host->has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_GT(host->l1_bytes, 0);
  EXPECT_LE(host->l1_bytes, host->last_level_cache);
}

TEST(Detect, ATargetBelowTheHostIsTakenAsItIs) {
  Options options;
  options.target = "x86-64-v2";
  const auto target = host_target(options);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(codegen_key(*target), codegen_key(*named_target("x86-64-v2")));
  options.target = "x86-64-v9";
  EXPECT_EQ(host_target(options).status().code(), StatusCode::invalid_argument);
}

TEST(Detect, ATargetAboveTheHostNamesWhatIsLacking) {
  if (host_target({})->name == "x86-64-v4") GTEST_SKIP() << "no target is above this machine";
  Options options;
  options.target = "x86-64-v4";
  const Status status = host_target(options).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_TRUE(status.message().starts_with("this machine lacks '")) << status.str();
  EXPECT_TRUE(status.message().ends_with("' of x86-64-v4")) << status.str();
}

TEST(CodeMemory, IsExecutableAndNotWritable) {
  // mov eax, 42; ret
  const std::vector<uint8_t> code = {0xb8, 42, 0, 0, 0, 0xc3}, other = {0xb8, 7, 0, 0, 0, 0xc3};
  const std::span<const uint8_t> images[] = {code, other};
  const auto memory = CodeMemory::load(images);
  ASSERT_TRUE(memory.ok()) << memory.status().str();
  const auto call = [&](std::size_t i) {
    return reinterpret_cast<int (*)()>(reinterpret_cast<uintptr_t>(memory->image(i)))();
  };
  EXPECT_EQ(call(0), 42);
  EXPECT_EQ(call(1), 7);
  EXPECT_DEATH(*const_cast<std::byte*>(memory->image(0)) = std::byte{0}, "");
}

// Linux 6.3 and later can forbid memory that has been written to become executable.
TEST(CodeMemory, WhereTheSystemForbidsItIsAnError) {
  constexpr int kForbid = 65, kIsForbidden = 66;  // PR_SET_MDWE and PR_GET_MDWE, which older headers lack
  if (prctl(kIsForbidden, 0, 0, 0, 0) != 0) GTEST_SKIP() << "this system cannot forbid it";
  const auto load = [] {
    const std::vector<uint8_t> code = {0xc3};
    const std::span<const uint8_t> images[] = {code};
    if (prctl(kForbid, 1, 0, 0, 0) != 0) std::exit(1);
    std::fputs(CodeMemory::load(images).status().str().c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(load(), ::testing::ExitedWithCode(0), "device: the system forbids executable memory: Permission denied");
}

TEST(MathFunction, IsFoundInLibmAndLibmvecAlone) {
  ASSERT_TRUE(math_function("tanf").ok());
  EXPECT_EQ(*math_function("tanf"), reinterpret_cast<const void*>(static_cast<float (*)(float)>(&tanf)));
  EXPECT_TRUE(math_function("_ZGVbN4v_expf").ok());
  const Status missing = math_function("fusec_no_such_function").status();
  EXPECT_EQ(missing.code(), StatusCode::device);
  EXPECT_NE(missing.message().find("fusec_no_such_function"), std::string::npos);
}

TEST(AlignedBuffer, ImpossibleSizesAreErrors) {
  EXPECT_EQ(AlignedBuffer::make(INT64_MAX).status().code(), StatusCode::out_of_memory);
  const auto huge = AlignedBuffer::make(8 << 20);
  ASSERT_TRUE(huge.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge->data()) % 64, 0u);
}

}  // namespace
}  // namespace fusec::runtime
