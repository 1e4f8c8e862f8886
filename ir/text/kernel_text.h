// SPDX-License-Identifier: Apache-2.0
// The text of a Kernel; docs/ir.md has the grammar.
//
//   kernel @hswish(%x: in f32[n] align 64, %y: out f32[n]) facts(n % 4 == 0, fits32) alias(x, y) {
//     grid i0 in floordiv(n + 2047, 2048) {
//       seq i1 in 128 {
//         v0: f32.16 = load x[2048*i0 + 16*i1 + lane] guard(n - 1 - 2048*i0 - 16*i1 - lane) else 0
//         v1: f32.16 = add v0, 3
//         store.stream y[2048*i0 + 16*i1 + lane], v1 guard(n - 1 - 2048*i0 - 16*i1 - lane)
//       }
//     }
//   }
//
// By default, extents are the symbols of parameter shapes and strides in order of appearance. Another order or other
// extents are stated as `extents(m, n)`.
//
// Kernels whose canonical texts are equal are the same code: names do not matter, but the order of parameters and
// extents does.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fusec/shape.h"
#include "fusec/status.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

std::string print(const Kernel& kernel);
// The same, and the line on which each statement begins. The first line is 1.
struct NumberedText {
  std::string text;
  std::map<const Stmt*, int> lines;
};
NumberedText print_numbered(const Kernel& kernel);
// One statement without its nested blocks, for messages: "store y[i0], v1".
std::string print_stmt(const Kernel& kernel, const Stmt& stmt);

// print(*parse_kernel(print(k))) == print(k). Registers keep their numbers. Only names and grammar are checked here;
// verify checks the rest. Errors are invalid_model, "line L, column C: ...".
Result<Kernel> parse_kernel(std::string_view text);

const char* to_string(LoopTag tag);
const char* to_string(Space space);
const char* to_string(PhaseBoundary boundary);
const char* to_string(ShuffleKind kind);
const char* to_string(SyncScope scope);

// The symbols of parameter shapes and strides, in order of appearance (sorted inside one Dim).
std::vector<std::string> implied_extents(const Kernel& kernel);
std::vector<std::string> implied_extents(const std::vector<Shape>& shapes);

// The dtype of a constant in operand position `arg` if its text does not state one: that of the result; for comparisons
// that of the first register operand; bool for the condition of a where; f32 for cast.
DType implied_dtype(const Kernel& kernel, const Let& let, std::size_t arg);

// The kernel with systematic names and dense ids: the kernel is k, buffers are b0, ... (parameters, then allocations),
// extents n0, ... in launch order, registers v0, ... and loop variables i0, ... in order of appearance. Registers and
// buffers that nothing declares are dropped. Kernels with equal canonical texts are interchangeable: they have the same
// parameters and extents, in the same order.
Kernel canonical(const Kernel& kernel);

}  // namespace fusec::ir
