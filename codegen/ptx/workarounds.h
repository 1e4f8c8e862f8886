// SPDX-License-Identifier: Apache-2.0
// PTX -> machine code: what both emitters of a GPU end with.
//
// NVIDIA's assembler (ptxas; nvJitLink holds the same one) turns some PTX into wrong machine code. Such PTX is written
// in another way first. Seen for sm_90, by versions 13.0 and, where said, 13.5:
//
//   max.u16 a, x, 1;  setp.eq.s16 p, a, 1;            VIMNMX.U16x2 R, P1, P1, ...: one predicate for both halves of the
//                                                     register; that of the upper one, which is empty, stays
//   neg.s32 b, y;  min.s32 c, a, b;  min.s32 d, c, z; VIMNMX3 a, y, z: the minus is lost; the same with max and with
//   .s16,
//                                                     and with sub.u32 b, 0, y and unsigned extremes
//   min.s32 c, a, b;  max.s32 d, c, 0;                VIMNMX.RELU RZ, P, P, a, b: its predicate is not that of d = b;
//   the same setp.eq.s32 p, d, b;                              with max in place of min neg.s16 b, y;  cvt.s32.s16 c,
//   b;                  -(-32768) is 32768, here and wherever b is signed; the same with abs.s16 abs.s32 b, y;
//   setp.lt.s32 p, b, 0;               false where y is -2^31, like all that the sign of b decides: a
//                                                     remainder; the same with .s64
//   abs.f32 b, y;  setp.ge.f32 p, b, -1;              true where y is NaN, too, like every ordered comparison of f32
//   that the
//                                                     range of a number decides: that of abs, ex2, sin, cos, tanh,
//                                                     .sat, and of sums, products and choices of these; by 13.5, too
//   and.pred a, p, q;  or.pred b, p, q;               PLOP3 a, b, p, PT, q, 0x80, 0xc8: b is taken for false by what is
//   folded xor.pred c, p, b;                                 into it afterwards, any and, or, xor and not; by 13.5, too
//   selp.f32 a, 0fBF800000, 0f80000000, p;            I2FP of 0 or -1, or FSET.BF: +0 where -0 belongs; by 13.5, too
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// The PTX in which
//   min, max and abs of 16-bit integers are of 32 bits, and abs of others is a max,
//   a signed negation of 16 bits is unsigned, and one of 32 is of 64 where a signed min or max takes one: its minus is
//   drawn into nothing, a max with 0 of which it is asked whether it equals something is a mask, an or of predicates is
//   the negation of an and, where there is any and, an ordered comparison of f32 that is true of all numbers in the
//   ranges is the negation of the unordered opposite, a choice between a zero and 1 or -1 of f32 is one between their
//   bits.
// The same text where there is none of these.
std::string apply_ptxas_workarounds(const std::string& ptx);

// Gives the artifact a cubin of its PTX, which has been spared, by nvJitLink, where there is one. compile_failed: its
// log.
Status add_assembled_cubin(Artifact& artifact, const Target& target);
// The same with a cubin at hand: what each phase (by its entry) takes of registers and memory is read from it.
// internal: a phase is not in it.
Status add_cubin(Artifact& artifact, std::vector<uint8_t> cubin);

}  // namespace fusec::codegen
