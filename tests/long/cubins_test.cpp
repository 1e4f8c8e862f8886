// SPDX-License-Identifier: Apache-2.0
// Every kernel of the models and patterns becomes a cubin, the same one twice, for two architectures and by every
// emitter of this build, on a machine without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <set>

#include "fusec/onnx.h"
#include "runtime/engine/engine.h"
#include "runtime/link/link.h"
#include "tests/codegen/lowered.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> model_files() {
  std::vector<std::string> files;
  for (const char* folder : {"tests/models", "tests/patterns"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(FUSEC_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Setting {
  const char* target;
  Codegen codegen;
};
constexpr Setting kSettings[] = {
    {"sm_80", Codegen::nvrtc}, {"sm_90", Codegen::nvrtc}, {"sm_80", Codegen::llvm}, {"sm_90", Codegen::llvm}};
const char* name_of(const Setting& setting) { return setting.codegen == Codegen::llvm ? "llvm" : "nvrtc"; }

struct Tally {
  int cubins = 0, spilling = 0;
  double ms = 0;
};

// Kernels already made, by key, for all models together.
std::set<std::string>& made() {
  static std::set<std::string> keys;
  return keys;
}

void compile_all(const ir::Program& program, const Setting& setting, Tally& tally) {
  const Target target = named_target(setting.target).value();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::pair<ir::KernelId, codegen::Artifact>> fresh;
  for (const ir::KernelId id : runtime::picked_kernels(program)) {
    const ir::Kernel& kernel = program.kernels[id];
    if (!made().insert(codegen::artifact_key(kernel, target, setting.codegen)).second) continue;
    const auto artifact = codegen_test::emit(kernel, target, {.codegen = setting.codegen});
    ASSERT_TRUE(artifact.ok()) << kernel.name << " for " << setting.target << " by " << name_of(setting) << ": "
                               << artifact.status().str();
    EXPECT_FALSE(artifact->image.empty());
    fresh.emplace_back(id, *artifact);
    ++tally.cubins;
    for (const codegen::ArtifactPhase& phase : artifact->phases) {
      EXPECT_GT(phase.registers, 0) << kernel.name;
      if (phase.local_bytes > 0) {
        ++tally.spilling;
        fmt::print("  {} {} {}: {} registers, {} bytes of local memory\n", setting.target, name_of(setting),
                   kernel.name, phase.registers, phase.local_bytes);
      }
    }
  }
  // Packages are to be the same file each time, so a compiler must not depend on where its objects happen to lie.
  for (const auto& [id, first] : fresh) {
    const auto again = codegen_test::emit(program.kernels[id], target, {.codegen = setting.codegen});
    ASSERT_TRUE(again.ok()) << again.status().str();
    EXPECT_TRUE(again->image == first.image)
        << program.kernels[id].name << " by " << name_of(setting) << " differs from itself";
  }
  tally.ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Cubins : public testing::TestWithParam<std::string> {};

TEST_P(Cubins, EveryKernel) {
  const auto probe = codegen_test::emit(ir::Kernel(), named_target("sm_90").value());
  if (!probe.ok() && probe.status().code() == StatusCode::unsupported) GTEST_SKIP() << probe.status().str();
  ImportOptions onnx;
  onnx.random_weights = 0;
  const auto model = load_onnx(GetParam(), onnx);
  ASSERT_TRUE(model.ok()) << model.status().str();
  for (const Setting& setting : kSettings) {
    Tally tally;
    const auto stages =
        runtime::run_stages(*model->graph, named_target(setting.target).value(), {}, runtime::Stage::select);
    ASSERT_TRUE(stages.ok()) << stages.status().str();
    compile_all(stages->program, setting, tally);
    fmt::print("{} {} {}: {} new cubins in {:.0f} ms, {} use local memory\n", fs::path(GetParam()).stem().string(),
               setting.target, name_of(setting), tally.cubins, tally.ms, tally.spilling);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Cubins, testing::ValuesIn(model_files()), [](const auto& info) {
  std::string name = fs::path(info.param).stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace fusec
