// SPDX-License-Identifier: Apache-2.0
// Types, constants and scalar ops as CUDA C++ expressions.
//
// A register is held raw: f16 and bf16 as their bits in u16, bool as bool, all others as themselves. Arithmetic is done
// on the compute form: float for f16 and bf16, else raw. In memory bool is u8, 0 or 1.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/cuda/prelude.h"
#include "fusec/dtype.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

// Thrown where a kernel cannot be expressed. On its way out it is named after the innermost statement, once.
class UnsupportedKernel : public std::runtime_error {
 public:
  explicit UnsupportedKernel(const std::string& why, bool is_named = false)
      : std::runtime_error(why), is_named(is_named) {}
  bool is_named;
};

std::string register_type(DType dtype);                     // "u16" for halves
std::string memory_type(DType dtype);                       // "u8" for bool
std::string literal(const ir::Constant& constant);          // raw
std::string compute_literal(const ir::Constant& constant);  // compute form

std::string widen(Prelude& prelude, DType dtype, const std::string& raw);
std::string narrow(Prelude& prelude, DType dtype, const std::string& compute);  // rounded to nearest even
// The cast of ir/ops: one rounding, floats to integers truncate and saturate, NaN gives 0; compute form -> raw.
std::string convert(Prelude& prelude, DType from, DType to, const std::string& compute);

// An op other than cast on the compute forms of operands of `type` (of where: of the choices); gives the compute form
// of its result. Definitions become functions of the prelude.
std::string scalar_op(Prelude& prelude, ir::ScalarOp op, DType type, const std::vector<std::string>& args);
// From compute forms to a raw result.
std::string raw_op(Prelude& prelude, ir::ScalarOp op, DType type, const std::vector<std::string>& args, DType result);
// max(x, +0), abs, neg of a half, on its bits (ir::on_half_bits).
std::string op_on_bits(Prelude& prelude, ir::ScalarOp op, DType type, const std::string& raw);

}  // namespace fusec::codegen::cuda
