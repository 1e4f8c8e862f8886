// SPDX-License-Identifier: Apache-2.0
// Chooses who assembles PTX, and attaches the cubin to a GPU artifact; the last part of emit for both GPU emitters.

#include <algorithm>

#include "codegen/ptx/assembler.h"
#include "codegen/ptx/ptx.h"

namespace fusec::codegen {
namespace {

std::vector<Assembler> find_assemblers() {
  std::vector<Assembler> out;
  // An nvJitLink of an older CUDA is a sign of an older driver, which takes no cubins of a newer CUDA.
  if (ptx_compiler().ok() && !(nvjitlink().ok() && nvjitlink()->major < ptx_compiler()->major))
    out.push_back(*ptx_compiler());
  if (nvjitlink().ok()) out.push_back(*nvjitlink());
  return out;
}

Result<std::vector<uint8_t>> assemble(const Assembler& assembler, const std::string& ptx, const Target& target) {
  const int ptxas = 100 * assembler.major + assembler.minor;
  return assembler.assemble(apply_ptxas_workarounds(ptx, ptxas, target.sm), target);
}

}  // namespace

std::string architecture_name(const Target& target, bool own_instructions) {
  return "sm_" + std::to_string(target.sm) + (own_instructions ? "a" : "");
}

std::string architecture_name(const Target& target, const std::string& ptx) {
  const std::string own = architecture_name(target, true);
  return ptx.find("\n.target " + own) != std::string::npos ? own : architecture_name(target, false);
}

const std::vector<Assembler>& assemblers() {
  static const std::vector<Assembler> found = find_assemblers();
  return found;
}

std::string ask_for_one_block(const std::string& ptx) {
  if (ptx.find("\n.minnctapersm") != std::string::npos) return ptx;
  std::string out;
  for (std::size_t at = 0, end = 0; at < ptx.size(); at = end) {
    end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
    out.append(ptx, at, end - at);
    if (ptx.compare(at, 8, ".maxntid") == 0) out += ".minnctapersm 1\n";
  }
  return out;
}

bool has_assembler() { return !assemblers().empty(); }

std::string assembler_key() {
  std::string out;
  for (const Assembler& a : assemblers())
    out +=
        (out.empty() ? "" : " ") + std::string(a.name) + "-" + std::to_string(a.major) + "." + std::to_string(a.minor);
  return out.empty() ? "assembler-none" : out;
}

Result<std::vector<uint8_t>> assemble(const std::string& ptx, const Target& target) {
  if (assemblers().empty()) return nvjitlink().status().with_note(ptx_compiler().status().message());
  Result<std::vector<uint8_t>> out = assemble(assemblers().front(), ptx, target);
  // Another may know a newer PTX, as NVRTC of a newer toolkit writes it, or a newer GPU.
  for (std::size_t i = 1; i < assemblers().size() && !out.ok(); ++i) {
    Result<std::vector<uint8_t>> other = assemble(assemblers()[i], ptx, target);
    if (other.ok()) return other;
    out = std::move(out).status().with_note(other.status().message());
  }
  return out;
}

Status add_assembled_cubin(Artifact& artifact, const std::string& ptx, const Target& target) {
  artifact.ptx = apply_ptxas_workarounds(ptx, kUnknownPtxas, target.sm);
  if (!has_assembler()) return {};
  FUSEC_ASSIGN(std::vector<uint8_t> cubin, assemble(ptx, target));
  return add_cubin(artifact, std::move(cubin));
}

Status add_cubin(Artifact& artifact, std::vector<uint8_t> cubin) {
  FUSEC_TRY(cuda::add_resources(cubin, artifact.phases));
  artifact.image = std::move(cubin);
  return {};
}

bool exceeds_registers(const Artifact& artifact, const std::vector<int>& most) {
  for (std::size_t i = 0; i < artifact.phases.size(); ++i)
    if (most[i] > 0 && artifact.phases[i].registers > most[i]) return true;
  return false;
}

}  // namespace fusec::codegen
