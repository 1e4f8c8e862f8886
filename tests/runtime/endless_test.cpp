// SPDX-License-Identifier: Apache-2.0
// Tuning with a candidate that never ends, on the CPU and on a real GPU, where there is one: the process that runs it
// is killed at its deadline, a failure is stored, and the other candidates are timed by the next process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "fusec/device.h"
#include "ir/text/program_text.h"
#include "runtime/engine/child_timer.h"
#include "runtime/engine/kernel_tuner.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

// Candidate 1 reads 2^50 elements in each of its 1,024 threads: months of work.
constexpr const char* kProgram = R"(program @endless(%x: f32[1024]) -> (%y: f32[1024]) ops 0 {
  %a0: input 0 "x" f32 1024
  %a1: output 0 "y" f32 1024
  slot 0 {
    otherwise {
      candidate picked 2 us {  // copies
        launch k0(%a0 [1024], %a1 [1024])  // copy
      }
      candidate 2 us {  // never ends
        launch k1(%a0 [1024], %a1 [1024])  // copy
      }
      candidate 2 us {  // copies in small blocks
        launch k2(%a0 [1024], %a1 [1024])  // copy
      }
    }
  }
  // k0
  kernel @copy(%b0: in f32[1024] align 16, %b1: out f32[1024] align 16) facts(fits32) {
    grid i0 in 4 {
      block i1 in 256 {
        v0: f32 = load b0[256*i0 + i1]
        store b1[256*i0 + i1], v0
      }
    }
  }
  // k1
  kernel @endless(%b0: in f32[1024] align 16, %b1: out f32[1024] align 16) {
    grid i0 in 4 {
      block i1 in 256 {
        v0: f32 = reduce.add tree(1, 0) seq i2 in 1125899906842624 {
          v1: f32 = load b0[mod(256*i0 + i1 + i2, 1024)]
          yield v1
        }
        store b1[256*i0 + i1], v0
      }
    }
  }
  // k2
  kernel @small(%b0: in f32[1024] align 16, %b1: out f32[1024] align 16) facts(fits32) {
    grid i0 in 8 {
      block i1 in 128 {
        v0: f32 = load b0[128*i0 + i1]
        store b1[128*i0 + i1], v0
      }
    }
  }
}
)";

class Endless : public ::testing::Test {
 protected:
  void SetUp() override {
    // As `fusec tune` starts it, from the folder of this test.
    program_ = fs::read_symlink("/proc/self/exe").parent_path().string() + "/fusec-compiler";
    if (!fs::exists(program_)) GTEST_SKIP() << program_ << " is not there";
    folder_ = (fs::temp_directory_path() / "fusec-endless-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  // `deadline`: seconds for an answer. A process needs some until its first one.
  void expect_killed_and_replaced(const std::string& device, double deadline) const {
    Options options;
    options.device = device;
    options.threads = 1;
    options.tuning_db = folder_ + "/t.sqlite";
    options.cache_dir = folder_ + "/cache";
    const Result<Machine> machine = open_machine(options);
    ASSERT_TRUE(machine.ok()) << machine.status().str();
    const Result<ir::Program> program = ir::parse_program(kProgram);
    ASSERT_TRUE(program.ok()) << program.status().str();
    for (const bool again : {false, true}) {
      Tuning tuning(options, machine->target, [&] { return kernel_scope(options, *machine); });
      const auto child = make_child_timer({program_, "tune", "--serve-candidates", "--device", device, "--threads", "1",
                                           "--cache-dir", *options.cache_dir},
                                          deadline);
      const steady_clock::time_point start = steady_clock::now();
      const auto report = tune_kernels(*program, {}, *child, tuning, {0, true});
      const double seconds = duration<double>(steady_clock::now() - start).count();
      ASSERT_TRUE(report.ok()) << report.status().str();
      EXPECT_EQ(report->measured, again ? 0 : 2);
      EXPECT_EQ(report->failed, again ? 0 : 1);
      EXPECT_EQ(report->reused, again ? 3 : 0) << "a failure is stored, too";
      EXPECT_TRUE(report->finished);
      if (again) continue;
      EXPECT_GE(seconds, deadline);
      ASSERT_EQ(report->layers.size(), 1U);
      for (const TuningRow& row : report->layers[0].rows) {
        const bool endless = row.algorithm.find("never ends") != std::string::npos;
        EXPECT_EQ(row.failed(), endless) << row.algorithm << ": " << row.failure;
        EXPECT_THAT(row.failure, HasSubstr(endless ? "it did not end in" : "")) << row.algorithm;
        EXPECT_EQ(row.median_us > 0, !endless) << row.algorithm;
      }
    }
  }

  std::string program_, folder_;
};

TEST_F(Endless, ACandidateOnTheCpuIsKilledAndTheTuningGoesOn) { expect_killed_and_replaced("cpu", 10); }

TEST_F(Endless, ACandidateOnAGpuIsKilledAndTheTuningGoesOn) {
  if (const Status status = gpu_status(); !status.ok()) GTEST_SKIP() << status.str();
  expect_killed_and_replaced("cuda:0", 15);
}

}  // namespace
}  // namespace fusec::runtime
