// SPDX-License-Identifier: Apache-2.0
// PTX -> machine code: the last step of both GPU emitters.
//
// NVIDIA's assembler (ptxas; the PTX compiler, nvJitLink and NVRTC contain the same one) compiles some PTX to wrong
// machine code. apply_ptxas_workarounds rewrites such PTX to an equivalent form (the ptxas workarounds). The bugs, and
// the versions that have them, are a table in codegen/ptx/workarounds.cpp.
//
// The PTX compiler or nvJitLink, which are opened at run time, assembles PTX to a cubin (thread-safe;
// docs/decisions/026-whole-program-assembly.md). The registers and memory of each function are read from the cubin.
// Queries of NVIDIA's compilers take two calls, one for the size and one for the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// A version of ptxas as a number: 1300 is 13.0.
inline constexpr int kUnknownPtxas = 0, kNeverRight = 1000000;
int ptxas_number(const std::string& version);  // of "13.0"; else kUnknownPtxas

// "sm_90", or "sm_90a" for code with instructions that this architecture alone has. Such code runs on no newer GPU.
std::string architecture_name(const Target& target, bool own_instructions);
std::string architecture_name(const Target& target, const std::string& ptx);  // as the PTX asks for it

struct PtxasBug {
  std::string_view id;
  int right_in;                 // the first version that was seen to be right; all older ones are taken to be wrong
  int from_sm;                  // GPUs before it were seen to be right
  std::string_view reproducer;  // instructions
};
std::vector<PtxasBug> ptxas_bugs();

// Rewrites what this version of ptxas gets wrong for the GPU (kUnknownPtxas: what any version does), and returns the
// text unchanged where nothing applies:
//   - 16-bit min, max and abs are done in 32 bits; other integer abs become a max;
//   - 16-bit signed negations become unsigned ones;
//   - 32-bit negations feeding a signed min or max are widened to 64 bits so ptxas cannot fold them;
//   - a max with 0 that is compared for equality becomes a mask;
//   - where there is any `and` of predicates, an `or` of predicates becomes a negated `and`;
//   - an ordered f32 comparison that the ranges decide as true becomes the negation of its unordered opposite;
//   - where f32 values are clipped at 0 and integers are packed, a zero is added to what becomes an s32;
//   - a selection between an f32 zero and 1 or -1, but for +0 and 1, becomes a selection between their bits.
std::string apply_ptxas_workarounds(const std::string& ptx, int ptxas, int sm);

// Gives the artifact the PTX, with the workarounds for any ptxas, as the driver's is not known, and a cubin from
// `assemble`. Without an assembler there is no cubin. compile_failed carries the log.
Status add_assembled_cubin(Artifact& artifact, const std::string& ptx, const Target& target);
// The same with a given cubin. The registers and memory that each phase uses (looked up by its entry) are read from it.
// internal: a phase is missing in the cubin.
Status add_cubin(Artifact& artifact, std::vector<uint8_t> cubin);
// Whether the threads of a phase take more registers than `most` says of it; 0 there: any number.
bool exceeds_registers(const Artifact& artifact, const std::vector<int>& most);

// Compiles without contraction, with IEEE division and square root, and with denormals, after the workarounds for the
// assembler's own ptxas. It is the PTX compiler, unless the nvJitLink that is found is of an older CUDA; else, and for
// what the PTX compiler refuses, nvJitLink. `unsupported`: this build or this machine has neither.
// Keeps the lines that .loc gives.
Result<std::vector<uint8_t>> assemble(const std::string& ptx, const Target& target);
inline bool has_lines(const std::string& ptx) { return ptx.find("\n\t.loc\t") != std::string::npos; }
bool has_assembler();
// Those that `assemble` may use, with their versions: "ptx-compiler-13.0 nvjitlink-13.0"; "assembler-none".
std::string assembler_key();

}  // namespace fusec::codegen

namespace fusec::codegen::cuda {

// The resources of one function.
struct Resources {
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // stack and spills of a thread; static shared memory of a block
  bool waits = false;                         // ArtifactPhase::waits
  int64_t instructions = 0;                   // without the padding behind them
};

// The resources of each function in a cubin; empty if the bytes are not a cubin. Any bytes are safe input.
std::map<std::string, Resources> read_resources(const std::vector<uint8_t>& cubin);

// How many blocks of a function a multiprocessor holds at once, and the resource that bounds them.
struct Occupancy {
  int blocks = 0;
  std::string bound;  // "registers", "shared memory", "threads" or "blocks"
};
Occupancy count_resident_blocks(const Target& target, int threads, int registers, int64_t shared_bytes);

// Sets what the phases say of their cubin: registers, memory, and whether they wait. internal: a phase is missing in
// it.
Status add_resources(const std::vector<uint8_t>& cubin, std::vector<ArtifactPhase>& phases);

}  // namespace fusec::codegen::cuda

namespace fusec::codegen {

// Empty if there is no answer. The libraries return 0 for success.
template <class Bytes, class Handle, class Size, class Get>
Bytes two_call_query(Handle handle, Size size_of, Get get) {
  std::size_t size = 0;
  if (handle == nullptr || size_of(handle, &size) != 0 || size == 0) return {};
  Bytes out(size, {});
  if (get(handle, reinterpret_cast<char*>(out.data())) != 0) return {};
  return out;
}

// Removes the terminating zeros.
inline std::string c_text(std::string text) {
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace fusec::codegen
