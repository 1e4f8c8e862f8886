// SPDX-License-Identifier: Apache-2.0
// The CUDA C++ emitter: writes one function per phase, compiles the text with NVRTC, and assembles the PTX again
// where a ptxas workaround changed it. Runs in emit; needs no GPU.

#include "codegen/cuda/cuda.h"

#include <map>
#include <stdexcept>

#include "codegen/cuda/writer.h"
#include "codegen/ptx/ptx.h"

namespace fusec::codegen {
namespace {

// Must be raised whenever the code written for any kernel changes.
constexpr int kCudaWriterVersion = 31;

struct WrittenCuda {
  std::string text;
  std::string architecture;  // "sm_90"
  std::vector<ArtifactPhase> phases;
  std::vector<int> most_registers;  // of a thread, for as many resident blocks as a phase should have; 0: any number
};

Result<WrittenCuda> write_cuda(const ir::Kernel& kernel, const Target& target, bool comments, bool bounded) {
  WrittenCuda out;
  cuda::Prelude prelude(target, kernel.fits32 ? "int" : "i64");
  std::string functions;
  try {
    const std::vector<Phase> phases = split_phases(kernel);
    for (const Phase& phase : phases) {
      ArtifactPhase& made = out.phases.emplace_back();
      made.entry = make_entry_name(kernel, out.phases.size() - 1, phases.size());
      const int resident = count_resident(kernel, phase);
      cuda::PhaseText text = cuda::write_phase(kernel, target, comments, prelude, phase, made.entry,
                                               bounded || loops_over_loads(kernel, phase) ? resident : 0);
      out.most_registers.push_back(most_registers(kernel, phase, target));
      functions += text.text;
      made.iterations = named(kernel, text.iterations);
      made.threads = text.threads;
      made.dynamic_shared = text.dynamic_shared;
    }
  } catch (const cuda::UnsupportedKernel& e) {
    return Status(StatusCode::compile_failed, e.what());
  }
  out.text = prelude.str() + functions;
  out.architecture = architecture_name(target, ir::has_tile_product(kernel.body));
  return out;
}

Result<Artifact> compile_written(WrittenCuda written, const Target& target, const EmitOptions& options) {
  FUSEC_ASSIGN(cuda::Cubin cubin, cuda::compile(written.text, written.architecture));
  Artifact artifact;
  artifact.phases = std::move(written.phases);
  if (apply_ptxas_workarounds(cubin.ptx, ptxas_number(cuda::nvrtc_version()), target.sm) == cubin.ptx) {
    artifact.ptx = apply_ptxas_workarounds(cubin.ptx, kUnknownPtxas, target.sm);
    FUSEC_TRY(add_cubin(artifact, std::move(cubin.image)));
  } else {
    FUSEC_TRY(add_assembled_cubin(artifact, cubin.ptx, target));
  }
  if (options.keep_text) artifact.text = std::move(written.text);
  return artifact;
}

}  // namespace

// Left alone, NVRTC mostly keeps to the registers that let enough blocks of a cluster be resident, and then its code is
// better than with a bound. Where it does not, it compiles again with one.
Result<Artifact> emit_cuda(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  FUSEC_ASSIGN(WrittenCuda written, write_cuda(kernel, target, false, false));
  const std::vector<int> most_registers = written.most_registers;
  FUSEC_ASSIGN(Artifact artifact, compile_written(std::move(written), target, options));
  if (!exceeds_registers(artifact, most_registers)) return artifact;
  FUSEC_ASSIGN(written, write_cuda(kernel, target, false, true));
  return compile_written(std::move(written), target, options);
}

Result<std::string> emit_cuda_text(const ir::Kernel& kernel, const Target& target, bool comments) {
  FUSEC_ASSIGN(WrittenCuda written, write_cuda(kernel, target, comments, false));
  return std::move(written.text);
}

bool has_nvrtc() { return cuda::nvrtc_version() != "none"; }

std::string cuda_emitter_key() {
  return "cuda-" + std::to_string(kCudaWriterVersion) + " nvrtc-" + cuda::nvrtc_version() + " " + assembler_key();
}

}  // namespace fusec::codegen
