// SPDX-License-Identifier: Apache-2.0
// The NVPTX emitter: writes one LLVM function per phase, compiles the module to PTX, applies the ptxas workarounds and
// assembles the cubin. Runs in emit; needs neither a GPU nor NVRTC.

#include "codegen/llvm/nvptx/nvptx.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>

#include <algorithm>

#include "codegen/kernel/tiles.h"
#include "codegen/llvm/compile.h"
#include "codegen/llvm/lines.h"
#include "codegen/llvm/nvptx/writer.h"
#include "codegen/ptx/ptx.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

// Must be raised whenever the code written for any kernel changes.
constexpr int kNvptxWriterVersion = 26;

struct WrittenGpu {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<Lines> lines;
  std::vector<ArtifactPhase> phases;
  std::vector<int> most_registers;  // of a thread of each phase; 0: any number
};

void write_phases(const ir::Kernel& kernel, const Target& target, bool bounded, WrittenGpu& out) {
  const Locals locals = plan_locals(kernel, /*shared_too=*/false);
  const std::vector<Phase> phases = split_phases(kernel);
  for (const Phase& phase : phases) {
    ArtifactPhase& made = out.phases.emplace_back();
    made.entry = make_entry_name(kernel, out.phases.size() - 1, phases.size());
    llvm::IRBuilder<> builder(out.context);
    nvptx::GpuWriter w(kernel, locals, builder, target, *out.module);
    w.bounded = bounded;
    w.lines = out.lines.get();
    w.write_phase(*out.module, phase, made.entry);
    const bool takes_tiles = !tile_products(phase).empty();
    const IndexExpr blocks = count_blocks(phase);
    made.iterations = named(kernel, takes_tiles ? min(blocks, IndexExpr(target.sm_count)) : blocks);
    made.threads = std::max(1, phase.threads) * (takes_tiles ? kWarpgroups : 1);
    made.dynamic_shared = w.dynamic_shared;
    out.most_registers.push_back(most_registers(kernel, phase, target));
  }
}

Status write_gpu(const ir::Kernel& kernel, const Target& target, bool bounded, bool lines, WrittenGpu& out) {
  FUSEC_ASSIGN(out.machine, nvptx::gpu_machine(target, ir::has_tile_product(kernel.body)));
  out.module = std::make_unique<llvm::Module>("kernel", out.context);
  out.module->setTargetTriple(out.machine->getTargetTriple().str());
  out.module->setDataLayout(out.machine->createDataLayout());
  if (lines) out.lines = std::make_unique<Lines>(kernel, *out.module);
  try {
    write_phases(kernel, target, bounded, out);
  } catch (const std::runtime_error& e) {  // CompileError, or UnsupportedKernel thrown outside statements
    return Status(StatusCode::compile_failed, e.what());
  }
  if (lines) out.lines->close();
  return {};
}

Result<std::string> make_ptx(WrittenGpu& written) { return nvptx::write_ptx(*written.module, *written.machine); }

}  // namespace

std::string nvptx_emitter_key() {
  return "nvptx-" + std::to_string(kNvptxWriterVersion) + " llvm-" LLVM_VERSION_STRING " " + assembler_key();
}

// As with NVRTC (codegen/cuda/cuda.cpp): the bound on registers is asked for where the code does not keep to it.
// Without an assembler the registers are not known, and the bound is always asked for.
Result<Artifact> emit_nvptx(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  const auto emit = [&](bool bounded, bool& exceeds) {
    return contained<WrittenGpu>([&](WrittenGpu& written) -> Result<Artifact> {
      FUSEC_TRY(write_gpu(kernel, target, bounded, options.lines, written));
      Artifact artifact;
      if (options.keep_text) artifact.text = print_to_text(*written.module);
      FUSEC_ASSIGN(const std::string ptx, make_ptx(written));
      artifact.phases = std::move(written.phases);
      FUSEC_TRY(add_assembled_cubin(artifact, ptx, target));
      exceeds = exceeds_registers(artifact, written.most_registers);
      return artifact;
    });
  };
  bool exceeds = false;
  FUSEC_ASSIGN(Artifact artifact, emit(!has_assembler(), exceeds));
  if (exceeds) return emit(true, exceeds);
  return artifact;
}

Result<std::string> emit_nvptx_text(const ir::Kernel& kernel, const Target& target, bool lines) {
  return contained<WrittenGpu>([&](WrittenGpu& written) -> Result<std::string> {
    FUSEC_TRY(write_gpu(kernel, target, false, lines, written));
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    FUSEC_CHECK(!llvm::verifyModule(*written.module, &stream)) << "the writer made invalid LLVM IR: " << problem;
    return print_to_text(*written.module);
  });
}

Result<std::string> emit_nvptx_optimized(const ir::Kernel& kernel, const Target& target, bool lines) {
  return contained<WrittenGpu>([&](WrittenGpu& written) -> Result<std::string> {
    FUSEC_TRY(write_gpu(kernel, target, false, lines, written));
    nvptx::optimize(*written.module, *written.machine);
    return print_to_text(*written.module);
  });
}

Result<std::string> emit_nvptx_ptx(const ir::Kernel& kernel, const Target& target) {
  return contained<WrittenGpu>([&](WrittenGpu& written) -> Result<std::string> {
    FUSEC_TRY(write_gpu(kernel, target, false, false, written));
    FUSEC_ASSIGN(const std::string ptx, make_ptx(written));
    return apply_ptxas_workarounds(ptx, kUnknownPtxas, target.sm);
  });
}

}  // namespace fusec::codegen
