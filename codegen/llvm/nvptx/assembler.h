// SPDX-License-Identifier: Apache-2.0
// PTX that NVIDIA's assembler (ptxas, and nvJitLink, which holds the same one) turns into wrong machine code, written in
// another way. Seen for sm_90:
//
//   max.u16 %rs2, %rs1, 1;  setp.eq.s16 %p1, %rs2, 1;     13.0, not 13.5: VIMNMX.U16x2 R, P1, P1, ...: one predicate for both
//                                                         halves of the register; that of the upper one, which is empty, stays
//   selp.f32 %f2, 0fBF800000, 0f80000000, %p1;            13.0 and 13.5: I2FP of 0 or -1, or FSET.BF: +0 where -0 belongs
#pragma once

#include <string>

namespace fusec::codegen::nvptx {

// min and max of 16-bit integers -> of 32 bits. A choice between two f32 constants -> between their bits.
std::string spare_assembler(const std::string& ptx);

}  // namespace fusec::codegen::nvptx
