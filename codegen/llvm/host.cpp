// SPDX-License-Identifier: Apache-2.0
// The host emitter: writes each phase of a kernel as an LLVM function over a grid range and compiles the module to an
// artifact. On the host, block loops are plain loops and barriers are no-ops.

#include "codegen/llvm/host.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>

#include <algorithm>

#include "codegen/llvm/compile.h"
#include "codegen/llvm/division.h"
#include "codegen/llvm/lines.h"
#include "codegen/llvm/values.h"
#include "codegen/llvm/writer.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

// Must be raised whenever the code written for any kernel changes.
constexpr int kWriterVersion = 12;

constexpr Traits kHostTraits = {.local_alignment = kLocalAlignment, .expands_lanes = false, .needs_alignment = false};

class HostWriter : public Writer {
 public:
  HostWriter(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
             std::vector<std::string>& externs)
      : Writer(kernel, locals, builder, target, host_hooks(), builder.getInt64Ty(), kHostTraits), externs_(externs) {
    if (target.has("fma")) divisions_by_parts = find_divisions_by_parts(kernel);
  }

  void write_phase(llvm::Module& module, const Phase& phase, const std::string& name) override {
    phase_function = open_phase(module, ir, name);
    if (lines != nullptr) lines->open(*phase_function.function);
    index.push(phase_function.entry);
    for (uint32_t i = 0; i < kernel.extents.size(); ++i) {
      index.bind(fusec::ir::ExtentId{i}, extent_argument(phase_function, ir, i), {IndexExpr(0), std::nullopt});
    }
    begin_index(*this);
    grid_loop(phase_function, ir, index, kernel, phase.grid, [&] {
      for (const ir::Stmt* stmt : phase.body) write_stmt(*this, *stmt);
    });
    close_phase(ir, streams);
    promote(*this);
  }

  llvm::Value* buffer(int64_t position) override { return buffer_argument(phase_function, ir, position); }
  llvm::Value* status() override { return status_argument(phase_function, ir); }

  llvm::Value* extern_address(const std::string& name) override {
    auto at = std::find(externs_.begin(), externs_.end(), name);
    if (at == externs_.end()) at = externs_.insert(at, name);
    return extern_argument(phase_function, ir, at - externs_.begin());
  }

  llvm::Value* local(ir::BufferId id) override {
    const auto found = locals.buffers.find(id);
    if (found == locals.buffers.end()) throw CompileError("'" + kernel.buffers[id].name + "' is used but not declared");
    // Inserted at the function's entry: the value is cached, and the first access may lie in a loop that other accesses
    // follow.
    llvm::IRBuilder<>::InsertPointGuard guard(ir.b);
    ir.b.SetInsertPoint(index.outermost()->getTerminator());
    return index.pointer(local_memory(phase_function), ir.b.getInt8Ty(), index.resolve(found->second.offset));
  }

  llvm::Value* in_block(llvm::Value*, const IndexExpr&) override { throw UnsupportedKernel("a CPU has no clusters"); }

  llvm::Value* load(llvm::Type* type, llvm::Value* from, llvm::Align align) override {
    return ir.b.CreateAlignedLoad(type, from, align);
  }
  llvm::StoreInst* store(llvm::Value* v, llvm::Value* to, llvm::Align align) override {
    return ir.b.CreateAlignedStore(v, to, align);
  }

  void mail(ir::BufferId, llvm::Value*, llvm::Value*, const IndexExpr&) override {
    throw UnsupportedKernel("a CPU has no clusters");
  }
  void await_mail(ir::BufferId) override { throw UnsupportedKernel("a CPU has no clusters"); }

  // Read access, locality for the second-level cache and above, data cache. The prefetched line lies a page ahead; in
  // the first-level cache it would evict data in use.
  void prefetch(llvm::Value* at) override {
    ir.b.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir.b.getPtrTy()},
                         {at, ir.b.getInt32(0), ir.b.getInt32(2), ir.b.getInt32(1)});
  }

  void write_parallel(const ir::Loop& loop) override {
    if (loop.head.tag == ir::LoopTag::grid)
      throw UnsupportedKernel("a grid loop must be outermost and perfectly nested");
    write_loop(*this, loop.head, [&] { write_block(*this, loop.body); });
  }
  void write_lowered(const ir::Stmt& stmt) override {
    if (!std::holds_alternative<ir::Sync>(stmt.v)) throw UnsupportedKernel("the lowered form is for GPUs");
  }
  void write_reduce(const ir::Reduce& reduce) override { write_plain_reduce(*this, reduce); }
  void write_copy(const ir::CopyAsync& copy) override { write_copy_loops(*this, copy); }

 private:
  std::vector<std::string>& externs_;
};

struct HostPhase {
  std::string name;
  Dim iterations;
};

struct Written {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<Lines> lines;
  std::vector<HostPhase> phases;
  std::vector<std::string> externs;
  Dim local_bytes;
};

Status write(const ir::Kernel& kernel, const Target& target, bool lines, Written& out) {
  FUSEC_ASSIGN(out.machine, target_machine(target));
  out.module = std::make_unique<llvm::Module>("kernel", out.context);
  out.module->setTargetTriple(out.machine->getTargetTriple().str());
  out.module->setDataLayout(out.machine->createDataLayout());
  if (lines) out.lines = std::make_unique<Lines>(kernel, *out.module);
  const Locals locals = plan_locals(kernel);
  out.local_bytes = named(kernel, locals.bytes);
  try {
    const std::vector<Phase> phases = split_phases(kernel);
    for (const Phase& phase : phases) {
      llvm::IRBuilder<> builder(out.context);
      HostWriter w(kernel, locals, builder, target, out.externs);
      w.lines = out.lines.get();
      const std::string name = make_entry_name(kernel, out.phases.size(), phases.size());
      out.phases.push_back({name, named(kernel, count_blocks(phase))});
      w.write_phase(*out.module, phase, name);
    }
  } catch (const CompileError& e) {
    return Status(StatusCode::compile_failed, e.what());
  }
  if (lines) out.lines->close();
  return {};
}

}  // namespace

const TargetHooks& host_hooks() {
  static constexpr TargetHooks kHost = {
      .f32_from_f16 = host::f32_from_f16,
      .f16_from_f32 = host::f16_from_f32,
      .bf16_from_f32 = host::bf16_from_f32,
      .convert = [](Ir&, DType, DType, llvm::Value*) -> llvm::Value* { return nullptr; },
      .min_max = host::min_max,
      .fma = math::fused,
      .library = math::libm,
      .function = math::function,
      .round_cast = nullptr,
      .kernel_op = math::kernel_op};
  return kHost;
}

std::string host_emitter_key() { return "host-" + std::to_string(kWriterVersion) + " llvm-" LLVM_VERSION_STRING; }

Result<Artifact> emit_host(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  return contained<Written>([&](Written& written) -> Result<Artifact> {
    FUSEC_TRY(write(kernel, target, false, written));
    Artifact artifact;
    if (options.keep_text) artifact.text = print_to_text(*written.module);
    FUSEC_ASSIGN(Image image, compile(*written.module, *written.machine));
    for (const HostPhase& phase : written.phases) {
      codegen::ArtifactPhase& made = artifact.phases.emplace_back();
      made.offset = image.functions.at(phase.name);
      made.iterations = phase.iterations;
    }
    artifact.image = std::move(image.bytes);
    artifact.externs = std::move(written.externs);
    artifact.local_bytes = written.local_bytes;
    return artifact;
  });
}

Result<std::string> emit_host_text(const ir::Kernel& kernel, const Target& target, bool lines) {
  return contained<Written>([&](Written& written) -> Result<std::string> {
    FUSEC_TRY(write(kernel, target, lines, written));
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    FUSEC_CHECK(!llvm::verifyModule(*written.module, &stream)) << "the writer made invalid LLVM IR: " << problem;
    return print_to_text(*written.module);
  });
}

Result<std::string> emit_host_assembly(const ir::Kernel& kernel, const Target& target, bool lines) {
  return contained<Written>([&](Written& written) -> Result<std::string> {
    FUSEC_TRY(write(kernel, target, lines, written));
    written.machine->Options.MCOptions.AsmVerbose = true;
    llvm::SmallVector<char, 0> text;
    llvm::raw_svector_ostream stream(text);
    const bool printed = write_file(*written.module, *written.machine, llvm::CodeGenFileType::AssemblyFile, stream);
    FUSEC_CHECK(printed) << "LLVM prints no assembly for its x86-64";
    return std::string(text.begin(), text.end());
  });
}

}  // namespace fusec::codegen
