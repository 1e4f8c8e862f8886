// SPDX-License-Identifier: Apache-2.0
// The text of a Program, for dumps, text tests and packages.
//
//   program @mlp(%x: f32[N, 128]) -> (%y: f32[N, 64]) symbols(N) ops 7 {
//     %a0: input 0 "x" f32 128*N
//     %a2: constant 0 f32 8192
//     %a3: temporary f32 64*N
//     slot 0 {
//       when N - 32 {
//         candidate picked 12.5 us {  // library with its own epilogue
//           call matmul {transpose_a = 0, transpose_b = 0} f32(%a0 [N, 128], %a2 [128, 64], %a3 [N, 64]) then relu  //
//           /fc1
//         }
//       }
//       otherwise { ... }
//     }
//     note "edge %a -> %b not fused: ..."
//     // k0
//     kernel @... { ... }
//   }
//
// Views are in order of the step's arguments; strides are shown where they are not row-major. A constant's line names
// its position in Program::constants; the bytes lie elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "fusec/status.h"
#include "ir/program/program.h"

namespace fusec::ir {

std::string print(const Program& program);
// print(*parse_program(print(p))) == print(p); Program::constants is left empty. Ids and the numbers of arguments are
// checked. Errors are invalid_model, "line L, column C: ...".
Result<Program> parse_program(std::string_view text);
std::string print_view(const View& view);
std::string print_step(const Step& step);

}  // namespace fusec::ir
