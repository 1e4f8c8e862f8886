// SPDX-License-Identifier: Apache-2.0
// PTX -> machine code: the last step of both GPU emitters.
//
// NVIDIA's assembler (ptxas; nvJitLink contains the same one) compiles some PTX to wrong machine code.
// apply_ptxas_workarounds rewrites such PTX to an equivalent form (the ptxas workarounds). The bugs below were observed
// for sm_90 with version 13.0 and, where stated, also with 13.5.
//
//   max.u16 a, x, 1;  setp.eq.s16 p, a, 1;
//     Becomes VIMNMX.U16x2 R, P1, P1, ...: one predicate serves both halves of the register, and the predicate of
//     the upper, unused half is the one that is kept.
//   neg.s32 b, y;  min.s32 c, a, b;  min.s32 d, c, z;
//     Becomes VIMNMX3 a, y, z: the negation is lost. The same happens with max, with .s16, and with sub.u32 b, 0, y
//     feeding an unsigned min or max.
//   min.s32 c, a, b;  max.s32 d, c, 0;  setp.eq.s32 p, d, b;
//     Becomes VIMNMX.RELU RZ, P, P, a, b: its predicate is not that of d == b. The same happens with max in place of
//     min.
//   neg.s16 b, y;  cvt.s32.s16 c, b;
//     -(-32768) becomes 32768, here and wherever b is used as a signed value. The same happens with abs.s16.
//   abs.s32 b, y;  setp.lt.s32 p, b, 0;
//     False for y = -2^31, as is everything that depends on the sign of b, such as a remainder. The same happens with
//     .s64.
//   abs.f32 b, y;  setp.ge.f32 p, b, -1;
//     True even where y is NaN, as is every ordered f32 comparison that the range of an operand decides. Ranges come
//     from abs, ex2, sin, cos, tanh and .sat, and from sums, products and selections of these. Also in 13.5.
//   and.pred a, p, q;  or.pred b, p, q;  xor.pred c, p, b;
//     Becomes PLOP3 a, b, p, PT, q, 0x80, 0xc8: any and, or, xor or not that is then folded into it takes b for
//     false. Also in 13.5.
//   selp.f32 a, 0fBF800000, 0f80000000, p;
//     Becomes I2FP of 0 or -1, or FSET.BF: the result is +0 where -0 is expected. Also in 13.5.
//
// nvJitLink, which is opened at run time, assembles PTX to a cubin (thread-safe). The registers and memory of each
// function are read from the cubin. Queries of NVRTC and nvJitLink take two calls, one for the size and one for the
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// Rewrites the PTX as follows and returns it unchanged where nothing applies:
//   - 16-bit min, max and abs are done in 32 bits; other integer abs become a max;
//   - 16-bit signed negations become unsigned ones;
//   - 32-bit negations feeding a signed min or max are widened to 64 bits so ptxas cannot fold them;
//   - a max with 0 that is compared for equality becomes a mask;
//   - where there is any `and` of predicates, an `or` of predicates becomes a negated `and`;
//   - an ordered f32 comparison that the ranges decide as true becomes the negation of its unordered opposite;
//   - a selection between an f32 zero and 1 or -1 becomes a selection between their bits.
std::string apply_ptxas_workarounds(const std::string& ptx);

// Gives the artifact a cubin, assembled by nvJitLink from its PTX, to which apply_ptxas_workarounds has been applied.
// Leaves the artifact unchanged where there is no nvJitLink. compile_failed carries the log.
Status add_assembled_cubin(Artifact& artifact, const Target& target);
// The same with a given cubin. The registers and memory that each phase uses (looked up by its entry) are read from it.
// internal: a phase is missing in the cubin.
Status add_cubin(Artifact& artifact, std::vector<uint8_t> cubin);

// Compiles without contraction, with IEEE division and square root, and with denormals. `unsupported`: this build or
// this machine has no nvJitLink.
Result<std::vector<uint8_t>> assemble(const std::string& ptx, const Target& target);
bool has_nvjitlink();
// "13.0", or "none".
std::string nvjitlink_version();

}  // namespace fusec::codegen

namespace fusec::codegen::cuda {

// The resources of one function.
struct Resources {
  int registers = 0;                          // per thread
  int64_t local_bytes = 0, shared_bytes = 0;  // stack and spills of a thread; static shared memory of a block
  bool waits = false;                         // ArtifactPhase::waits
};

// The resources of each function in a cubin; empty if the bytes are not a cubin. Any bytes are safe input.
std::map<std::string, Resources> read_resources(const std::vector<uint8_t>& cubin);

// Sets what the phases say of their cubin: registers, memory, and whether they wait. internal: a phase is missing in
// it.
Status add_resources(const std::vector<uint8_t>& cubin, std::vector<ArtifactPhase>& phases);

}  // namespace fusec::codegen::cuda

namespace fusec::codegen {

// Empty if there is no answer. Both libraries return 0 for success.
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
