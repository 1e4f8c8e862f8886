// SPDX-License-Identifier: Apache-2.0
// Kernels of all models and patterns become cubins, for two architectures and by every emitter of this build, on a
// machine without a GPU: of the kernels of a model that differ in extents and in numbers of operands alone, the largest
// one. Some are compiled twice, to the same cubin.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "fusec/onnx.h"
#include "ir/text/kernel_text.h"
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

// What the code of kernels has in common that differ in extents and in how often something comes up: the name without
// the digits of the kernel's text, whether 32-bit indices do, and which loops, ops and accesses there are.
std::string describe_form(const ir::Kernel& kernel) {
  std::set<std::string> parts;
  for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    std::string part = std::to_string(stmt.v.index());
    for_each_head(stmt, [&](const ir::LoopHead& head) { part += fmt::format(" {}", ir::to_string(head.tag)); });
    for (const ir::RegId r : ir::defined(stmt))
      part += fmt::format(" {}.{}", to_string(kernel.regs[r].dtype), kernel.regs[r].width);
    const auto access = [&](ir::BufferId buffer, bool guarded) {
      part += fmt::format(" {} {}", ir::to_string(kernel.buffers[buffer].space), guarded);
    };
    if (const auto* let = std::get_if<ir::Let>(&stmt.v)) part += fmt::format(" {}", ir::info(let->op).name);
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) access(load->buffer, !load->guard.empty());
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) access(store->buffer, !store->guard.empty());
    parts.insert(part);
  });
  return fmt::format("{} {} {}", kernel.name.substr(0, kernel.name.rfind('_')), kernel.fits32, fmt::join(parts, ", "));
}

// The largest kernel of each form: it needs the most registers.
std::vector<ir::KernelId> kernels_of_all_forms(const ir::Program& program) {
  struct Largest {
    ir::KernelId id;
    std::size_t statements = 0;
  };
  std::map<std::string, Largest> forms;
  for (const ir::KernelId id : runtime::picked_kernels(program)) {
    std::size_t statements = 0;
    for_each_stmt(program.kernels[id].body, [&](const ir::Stmt&) { ++statements; });
    Largest& largest = forms[describe_form(program.kernels[id])];
    if (statements >= largest.statements) largest = {id, statements};
  }
  std::vector<ir::KernelId> out;
  for (const auto& [form, largest] : forms) out.push_back(largest.id);
  return out;
}

void compile_all(const ir::Program& program, const Setting& setting, Tally& tally) {
  const Target target = named_target(setting.target).value();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::pair<ir::KernelId, codegen::Artifact>> twice;
  for (const ir::KernelId id : kernels_of_all_forms(program)) {
    const ir::Kernel& kernel = program.kernels[id];
    const auto artifact = codegen_test::emit(kernel, target, {.codegen = setting.codegen});
    ASSERT_TRUE(artifact.ok()) << kernel.name << " for " << setting.target << " by " << name_of(setting) << ": "
                               << artifact.status().str();
    EXPECT_FALSE(artifact->image.empty());
    if (tally.cubins % 4 == 0) twice.emplace_back(id, *artifact);
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
  for (const auto& [id, first] : twice) {
    const auto again = codegen_test::emit(program.kernels[id], target, {.codegen = setting.codegen});
    ASSERT_TRUE(again.ok()) << again.status().str();
    EXPECT_TRUE(again->image == first.image)
        << program.kernels[id].name << " by " << name_of(setting) << " differs from itself";
  }
  tally.ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Cubins : public testing::TestWithParam<std::string> {};

TEST_P(Cubins, EveryForm) {
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
    fmt::print("{} {} {}: {} cubins in {:.0f} ms, {} use local memory\n", fs::path(GetParam()).stem().string(),
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
